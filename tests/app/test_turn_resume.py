"""A provider that goes on without us: after a crash its response is resumed, not paid for again."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from app.models.errors import ModelError
from app.models.interface import Completion, ModelRequest, Sink
from store import streams
from tests.app.world import ScriptedModel, World, says, world

SAID = ["Hel", "lo ", "wor", "ld"]


class Background:
    """Implements ResumableModel over SAID; `stop_after` pieces it hangs, as if for ever."""

    name = provider = model = "background"

    def __init__(self, stop_after: int | None = None, forgotten: bool = False) -> None:
        self.stop_after = stop_after
        self.forgotten = forgotten
        self.asked = 0
        self.resumed_after: list[int] = []
        self.call = ""

    async def respond(self, _request: ModelRequest, sink: Sink) -> Completion:
        self.asked += 1
        return await self._say(sink, 0, "")

    async def resume(self, _request: ModelRequest, sink: Sink, checkpoint: bytes) -> Completion:
        position, call = checkpoint.decode().split("/")
        self.resumed_after.append(int(position))
        if self.forgotten:
            raise ModelError("It is too old", code="MODEL_EOF", retryable=True)
        return await self._say(sink, int(position), call)

    async def _say(self, sink: Sink, position: int, call: str) -> Completion:
        for number, piece in enumerate(SAID[position:], position + 1):
            await trio.sleep(1)
            if number == 3 and not call:
                sink.end_part()
            if number == 3:
                call = call or sink.tool_start("look", "their-id")
                sink.tool_delta(call, '{"a":')
            if number == 4:
                sink.tool_delta(call, "1}")
                sink.tool_ready(call, '{"a":1}')
                sink.tool_settled(call, {"found": 1})
            sink.text(piece) if number != 3 else None
            sink.checkpoint(f"{number}/{call}".encode())
            if number == self.stop_after:
                await trio.sleep_forever()
        return Completion("stop")


async def crash_copy(w: World, to: Path, after: float) -> None:
    """What a `kill -9` leaves: the files as they are after so many seconds."""
    await trio.sleep(after)
    copy_files(w, to)


def copy_files(w: World, to: Path) -> None:
    to.mkdir()
    for path in w.path.parent.glob("db*"):
        if not path.name.endswith("lock"):
            shutil.copy(path, to / path.name)


@pytest.mark.requirement("R1", "R3")
@pytest.mark.parametrize("position", [1, 2, 3])
async def test_after_a_crash_the_response_is_resumed(
    tmp_path: Path, autojump_clock: Any, position: int
) -> None:
    model = Background(stop_after=position)
    async with world(tmp_path / "one" / "db", model) as w:
        accepted = await w.send()
        await crash_copy(w, tmp_path / "two", after=position + 0.5)
        await w.services.turns.cancel(accepted.turn.stream_id)
    model = Background()
    async with world(tmp_path / "two" / "db", model) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert (model.asked, model.resumed_after) == (0, [position])
        assert seen.outcome.outcome == "finished"
        texts = [part["text"] for part in seen.fold.parts() if part["type"] == "text"]
        assert "".join(texts) == "Hello ld"
        tools = [part for part in seen.fold.parts() if part["type"] == "tool"]
        assert [(t["inputText"], t["output"]) for t in tools] == [('{"a":1}', {"found": 1})]
        assert "ResetStep" not in seen.types


@pytest.mark.requirement("R1", "S4")
async def test_what_cannot_be_resumed_is_withdrawn_and_asked_again(
    tmp_path: Path, autojump_clock: Any
) -> None:
    async with world(tmp_path / "one" / "db", Background(stop_after=2)) as w:
        accepted = await w.send()
        await crash_copy(w, tmp_path / "two", after=2.5)
        await w.services.turns.cancel(accepted.turn.stream_id)
    model = Background(forgotten=True)
    async with world(tmp_path / "two" / "db", model) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert (model.asked, model.resumed_after) == (1, [2])
        assert seen.text == "Hello ld"
        assert "ResetStep" in seen.types


@pytest.mark.requirement("R1")
async def test_another_model_under_the_same_name_withdraws_what_was_said(
    tmp_path: Path, autojump_clock: Any
) -> None:
    async with world(tmp_path / "one" / "db", Background(stop_after=2)) as w:
        accepted = await w.send()
        await crash_copy(w, tmp_path / "two", after=2.5)
        await w.services.turns.cancel(accepted.turn.stream_id)
    async with world(tmp_path / "two" / "db", ScriptedModel(says("Bye"), name="background")) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert seen.text == "Bye"


@pytest.mark.requirement("R1")
async def test_a_finished_step_leaves_nothing_to_resume(
    tmp_path: Path, autojump_clock: Any
) -> None:
    async with world(tmp_path / "db", Background()) as w:
        accepted = await w.send()
        await w.read(accepted.turn.stream_id)
        row = await w.services.database.read(lambda c: streams.find(c, accepted.turn.stream_id))
        assert row is not None
        assert not row.checkpoint
