"""Random turns: all who look at one see the same, whenever they look and whatever happens to it.

A live reader, readers that join late, snapshots taken at any moment, the stored message and what
the next turn's model is told all agree; no tool runs twice (L7, M1-M3, S4-S6, C3, R1, P15).
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.message import Fold, Part
from app.models.catalogue import Limits
from app.models.errors import ModelError
from app.models.interface import AssistantStep, Completion, ModelRequest, Sink, ToolResults
from app.tools import Toolbox, ToolError
from tests.app import truth
from tests.app.world import Probe, ScriptedModel, Seen, World, in_mock_time, says, world

PIECES = st.text(st.sampled_from("|a \n\u00e9\U0001f600\ud83d\ude00"), max_size=4)
PAUSES = st.sampled_from([0.0, 0.0, 0.0, 0.1, 1.0])
PUSHES = st.one_of(
    st.tuples(st.just("text"), PIECES, PAUSES),
    st.tuples(st.just("text"), PIECES, PAUSES),
    st.tuples(st.just("reasoning"), PIECES, PAUSES),
    st.tuples(st.just("end_part"), st.just(""), PAUSES),
    st.tuples(st.just("call"), st.sampled_from(["slow", "quick", "sad", "none", "bad"]), PAUSES),
    st.tuples(st.just("call"), st.just("slow"), PAUSES),
    st.tuples(st.just("half"), st.just('{"n'), PAUSES),
)
RESPONSES = st.tuples(
    st.lists(PUSHES, max_size=6), st.sampled_from(["done", "done", "fault", "fatal"])
)


# Most turns are short; a pause before a retry takes about a second, a slow tool takes two.
MOMENTS = st.floats(0, 3) | st.floats(0, 12)


@dataclass
class Plan:
    """What the model does, and what happens to the turn: seconds, None: it does not."""

    responses: list[tuple[list[tuple[str, str, float]], str]]
    stop_at: float | None
    restart_at: float | None
    looks: list[float]
    asked: int = 0
    calls: int = 0
    runs: list[int] = field(default_factory=list)

    async def plays(self, _request: ModelRequest, sink: Sink) -> Completion:
        if self.asked >= len(self.responses):
            return await says("The end.")(_request, sink)
        pushes, how = self.responses[self.asked]
        self.asked += 1
        called = False
        for kind, text, pause in pushes:
            await trio.sleep(pause)
            called = self.push(sink, kind, text) or called
            await sink.room()
        await trio.lowlevel.checkpoint()
        if how != "done":
            raise ModelError("It broke.", code="MODEL_EOF", retryable=how == "fault")
        return Completion("tool-calls" if called else "stop")

    def push(self, sink: Sink, kind: str, text: str) -> bool:
        """Returns whether it was a whole call."""
        if kind == "half":
            sink.tool_delta(sink.tool_start("quick"), text)
        elif kind == "call":
            self.calls += 1
            input_text = "{bad" if text == "bad" else f'{{"n": {self.calls}}}'
            call = sink.tool_start(text, "call_0")
            sink.tool_delta(call, input_text)
            sink.tool_ready(call, input_text)
            return True
        elif kind == "end_part":
            sink.end_part()
        else:
            getattr(sink, kind)(text)
        return False

    def toolbox(self) -> Toolbox:
        async def quick(arguments: Any) -> Any:
            self.runs.append(arguments["n"])
            await trio.lowlevel.checkpoint()
            return {"n": arguments["n"]}

        async def slow(arguments: Any) -> Any:
            self.runs.append(arguments["n"])
            await trio.sleep(2)
            return [arguments["n"]]

        async def sad(arguments: Any) -> Any:
            self.runs.append(arguments["n"])
            await trio.sleep(0.1)
            raise ToolError("no")

        return Toolbox([Probe("quick", quick), Probe("slow", slow), Probe("sad", sad)])


PLANS = st.builds(
    Plan,
    st.lists(RESPONSES, max_size=6),
    st.none() | MOMENTS,
    st.none() | MOMENTS,
    st.lists(MOMENTS, max_size=3),
)


class Onlooker:
    """Takes a snapshot now and follows from its cursor, through restarts, to the end."""

    def __init__(self) -> None:
        self.fold: Fold | None = None
        self.cursor: tuple[str, int] | None = None
        self.ended = False

    async def look(self, w: World) -> None:
        view = (await w.answers())[0]
        assert view.turn is not None
        self.fold = Fold(view.parts)
        self.fold.status = view.turn.status
        if view.turn.cursor is None:
            self.ended = True
        else:
            name, _, seq = view.turn.cursor.rpartition(":")
            self.cursor = (name, int(seq))

    async def follow(self, w: World, stream: str) -> None:
        assert self.fold is not None
        if self.ended:
            return
        reader = await w.services.journal.locate(stream, self.cursor)
        while not isinstance(item := await reader.next(), str) or item == "beat":
            if isinstance(item, bytes):
                seen = Seen()
                seen.feed(item)
                for event in seen.events:
                    self.fold.apply(event)
                self.cursor = seen.ids[-1]
        self.ended = item == "end"


async def run(plan: Plan, path: Path) -> None:
    model, after = ScriptedModel(plan.plays), ScriptedModel(says("fine"), name="after")
    limits, onlookers = Limits(max_retries=2), [Onlooker()]

    def life(grace: float) -> Any:
        return world(
            path, model, after, limits=limits, tools=plan.toolbox(), grace=grace, max_steps=5
        )

    async def look_later(w: World, stream: str, at: float) -> None:
        await trio.sleep(at)
        onlooker = Onlooker()
        await onlooker.look(w)
        onlookers.append(onlooker)
        await onlooker.follow(w, stream)

    async def stop_later(w: World, stream: str) -> None:
        if plan.stop_at is not None:
            await trio.sleep(plan.stop_at)
            await w.services.turns.cancel(stream)

    async with life(0) as w:
        sent = await w.send("question", id_="message-a")
        stream = sent.turn.stream_id
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                await onlookers[0].look(w)
                nursery.start_soon(onlookers[0].follow, w, stream)
                nursery.start_soon(stop_later, w, stream)
                for at in plan.looks:
                    nursery.start_soon(look_later, w, stream, at)
                if plan.restart_at is not None:
                    await trio.sleep(plan.restart_at)
                    scope.cancel()
    async with life(10) as w:
        for onlooker in onlookers:
            await onlooker.follow(w, stream)
        late = await w.read(stream)
        await agree(w, late.fold.parts(), onlookers)
        assert len(plan.runs) == len(set(plan.runs)), "a tool ran twice"
        await w.answer("next", id_="message-b", model="after")
        told_is_shown(after.requests[0], late.fold.parts())
        await truth.check(w)


async def agree(w: World, parts: list[Part], onlookers: list[Onlooker]) -> None:
    view = (await w.answers())[0]
    assert view.parts == parts
    for onlooker in onlookers:
        assert onlooker.fold is not None
        assert onlooker.fold.parts() == parts
        assert onlooker.fold.status is None
        assert onlooker.ended


def told_is_shown(request: ModelRequest, parts: list[Part]) -> None:
    """The next turn's model is told what is shown: every word, every call, every result."""
    answer = request.entries[1:-1]
    said = "".join(entry.text for entry in answer if isinstance(entry, AssistantStep))
    assert said == "".join(part["text"] for part in parts if part["type"] == "text")
    shown = {part["toolCallId"]: part for part in parts if part["type"] == "tool"}
    for entry in answer:
        if isinstance(entry, ToolResults):
            for result in entry.results:
                part = shown[result.call.id]
                assert result.is_error is (part["state"] != "output-available")
                if not result.is_error:
                    assert (result.output, result.call.input) == (part["output"], part["input"])
    told = {
        one.call.id for entry in answer if isinstance(entry, ToolResults) for one in entry.results
    }
    happened = {id_ for id_, part in shown.items() if "startedAt" in part}
    assert happened <= told  # S6


@pytest.mark.requirement("L7", "M1", "M2", "M3", "S4", "S5", "S6", "S7", "C3", "R1", "O2")
@settings(max_examples=50)
@example(Plan([([("call", "slow", 0.0)], "done")], None, 1.0, [0.5]))  # cut in a tool
@example(Plan([([("call", "slow", 0.0)], "done")], 1.0, None, [0.5]))
@example(Plan([([("text", "a", 0.0)], "done"), ([("text", "b", 0.0)], "fault")], None, 0.5, [0.2]))
@example(Plan([([("text", "ghost", 1.0)] * 3, "fault")], 4.0, 2.0, [1.5, 3.0]))
@given(PLANS)
def test_all_agree(plan: Plan) -> None:
    plan.asked = plan.calls = 0
    plan.runs.clear()

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await run(plan, Path(folder) / "unbroken.db")

    in_mock_time(main)
