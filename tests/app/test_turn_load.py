"""Many turns at once, with the writer's own thread and the real clock (T1, T4, T5, C1, O1).

Nothing here waits for time to pass; the limit is there so that a fault cannot hang the run.
"""

import random
from pathlib import Path
from typing import Any

import pytest
import trio

from app.errors import ConflictError
from app.models.errors import ModelError
from app.models.interface import Completion, ModelRequest, Sink, ToolResults
from app.tools import Toolbox
from tests.app import truth
from tests.app.world import Probe, ScriptedModel, Seen, World, says, world

LIMIT_SECONDS = 100
THREADS = 12
MESSAGES = 4


async def talks(request: ModelRequest, sink: Sink) -> Completion:
    """Some text, perhaps a tool call, perhaps a fault that is not retried."""
    chance = random.random()
    for _ in range(random.randrange(12)):
        sink.text("word | ")
        await sink.room()
        await trio.lowlevel.checkpoint()
    if chance < 0.1:
        raise ModelError("It broke.", code="MODEL_EOF", retryable=False)
    if chance < 0.4 and not isinstance(request.entries[-1], ToolResults):
        sink.tool_ready(sink.tool_start("probe"), "{}")
        return Completion("tool-calls")
    return Completion("stop")


async def person(w: World, thread: str, seen: list[Seen]) -> None:
    """Sends, double-clicks, interrupts, stops, in any order; reads every answer to its end."""
    async with trio.open_nursery() as nursery:

        async def read(stream: str) -> None:
            seen.append(await w.read(stream))

        for number in range(MESSAGES):
            id_ = f"message-{thread}-{number}"
            during = random.choice(["queue", "queue", "interrupt", "reject"])
            try:
                sent = await w.send(f"{number}", thread=thread, id_=id_, during=during)
            except ConflictError:
                continue
            again = await w.send(f"{number}", thread=thread, id_=id_, during=during)
            assert again.repeated
            assert again.turn.stream_id == sent.turn.stream_id
            nursery.start_soon(read, sent.turn.stream_id)
            for _ in range(random.randrange(30)):
                await trio.lowlevel.checkpoint()
            if random.random() < 0.3:
                nursery.start_soon(w.services.turns.cancel, sent.turn.stream_id)
            if random.random() < 0.2:
                nursery.start_soon(w.services.turns.cancel_message, thread, id_)


@pytest.mark.requirement("T1", "T4", "T5", "C1", "O1", "L1")
async def test_many_people_at_once(tmp_path: Path) -> None:
    seen: list[Seen] = []
    with trio.fail_after(LIMIT_SECONDS):
        async with world(
            tmp_path / "db", ScriptedModel(talks), tools=Toolbox([Probe()]), inline=False
        ) as w:
            async with trio.open_nursery() as nursery:
                for number in range(THREADS):
                    nursery.start_soon(person, w, f"thread-{number:02}", seen)
            assert len(seen) >= THREADS
            for one in seen:
                assert one.outcome.code in ("FINISHED", "CANCELLED", "REPLACED", "MODEL_EOF")
                assert [seq for _, seq in one.ids] == list(range(1, len(one.ids) + 1))
            await truth.check(w)
            page, _ = await w.services.threads.list(100)
            assert {view.state for view in page} == {"idle"}


@pytest.mark.requirement("T5")
async def test_a_hundred_clicks_with_the_writers_thread(tmp_path: Path) -> None:
    streams: set[str] = set()
    model = ScriptedModel(says("answer"))

    async def click(w: World) -> None:
        streams.add((await w.send(id_="message-one")).turn.stream_id)

    with trio.fail_after(LIMIT_SECONDS):
        async with world(tmp_path / "db", model, inline=False) as w:
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(click, w)
            assert len(streams) == 1
            assert (await w.read(streams.pop())).text == "answer"
            assert len(model.requests) == len(await w.turns()) == 1


@pytest.mark.requirement("T7", "R1")
async def test_a_shutdown_in_the_middle_of_it_all(tmp_path: Path) -> None:
    """Everyone is sent away; the next life ends every turn that was accepted."""
    runs: list[Any] = []

    async def slow(arguments: Any) -> str:
        runs.append(arguments)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        return "done"

    async def people(w: World) -> None:
        for number in range(THREADS):
            for message in range(2):
                await w.send(thread=f"thread-{number:02}", id_=f"message-{number:02}-{message}")

    tools = Toolbox([Probe(do=slow)])
    with trio.fail_after(LIMIT_SECONDS):
        async with world(
            tmp_path / "db", ScriptedModel(talks), tools=tools, inline=False, grace=0
        ) as w:
            await people(w)
        async with world(tmp_path / "db", ScriptedModel(talks), tools=tools, inline=False) as w:
            for number in range(THREADS):
                for row in await w.turns(f"thread-{number:02}"):
                    assert (await w.read(row.stream_id)).outcome.outcome in ("finished", "failed")
            await truth.check(w)
