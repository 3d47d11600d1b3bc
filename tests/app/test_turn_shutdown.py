"""Shutdown: turns get their grace, what is left goes on in the next life (T7, T1, R1)."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app import events as ev
from app.errors import UnavailableError
from app.tools import Toolbox
from tests.app import truth
from tests.app.world import (
    Paused,
    Probe,
    ScriptedModel,
    World,
    calls,
    fails,
    follow,
    hangs,
    says,
    world,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


async def stopped_after(w: World) -> float:
    """Begin the shutdown; seconds until no turn has a task."""
    before = trio.current_time()
    w.services.shut_down()
    await w.services.turns.stopped.wait()
    return trio.current_time() - before


@pytest.mark.requirement("T7")
async def test_an_idle_server_stops_at_once(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        await w.answer()
        assert await stopped_after(w) == 0


@pytest.mark.requirement("T7")
async def test_turns_may_end_in_their_grace(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says(*"answer", every=1))) as w:
        sent = await w.send()
        other = await w.send(thread="thread-02")
        await trio.sleep(1.5)
        assert await stopped_after(w) == pytest.approx(4.5)
        rows = [*await w.turns(), *await w.turns("thread-02")]
        assert [row.state for row in rows] == ["finished", "finished"]
        await truth.check(w)
    async with world(path, ScriptedModel(hangs)) as w:
        assert (await w.read(sent.turn.stream_id)).text == "answer"
        assert (await w.read(other.turn.stream_id)).text == "answer"


@pytest.mark.requirement("T7", "R1")
@pytest.mark.parametrize("grace", [0.0, 10.0])
async def test_what_still_runs_goes_on_in_the_next_life(
    autojump_clock: MockClock, path: Path, grace: float
) -> None:
    """A reader of before is told that the server drains, and resumes where it was."""
    running = Paused("half an ", "ans")
    async with world(path, ScriptedModel(running), grace=grace) as w:
        sent = await w.send()
        await running.reached.wait()
        reader = await w.services.journal.locate(sent.turn.stream_id)
        async with trio.open_nursery() as nursery:
            seen = []

            async def read() -> None:
                seen.append(await follow(reader))

            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            assert await stopped_after(w) == pytest.approx(grace)
        assert (seen[0].how, seen[0].text) == ("draining", "half an ans")
        assert running.cancelled
        (row,) = await w.turns()
        assert (row.state, row.released) == ("running", 1)
    async with world(path, ScriptedModel(says("A whole answer."))) as w:
        again = await w.read(sent.turn.stream_id, seen[0].ids[-1])
        assert again.text == "A whole answer."
        assert again.outcome.code == "FINISHED"
        await truth.check(w)


@pytest.mark.requirement("T7")
async def test_nothing_is_accepted_while_it_stops(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says(*"answer", every=1))) as w:
        sent = await w.send()
        w.services.shut_down()
        await wait_all_tasks_blocked()
        with pytest.raises(UnavailableError) as error:
            await w.send(thread="thread-02")
        assert error.value.code == "SHUTTING_DOWN"
        assert error.value.retry_after > 0
        await w.services.turns.stopped.wait()
        assert (await w.turns())[0].state == "finished"
        assert sent.turn.id == (await w.turns())[0].id


@pytest.mark.requirement("T1", "T7")
async def test_a_message_that_was_on_its_way_when_it_began(
    autojump_clock: MockClock, path: Path
) -> None:
    """Accepted in the last moment: it has its grace, or its next life."""
    for grace in (0, 10):
        at = path.with_name(f"{grace}.db")
        async with world(at, ScriptedModel(says("answer")), grace=grace) as w:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(w.send)
                await trio.lowlevel.checkpoint()
                w.services.shut_down()
            await w.services.turns.stopped.wait()
        async with world(at, ScriptedModel(says("answer"))) as w:
            for row in await w.turns():
                assert (await w.read(row.stream_id)).text == "answer"
            assert len(await w.turns()) == 1
            await truth.check(w)


@pytest.mark.requirement("T7", "T4")
async def test_the_queue_waits_for_the_next_life(autojump_clock: MockClock, path: Path) -> None:
    """A turn that ends in the grace starts no other; a stop in the grace still counts."""
    model = ScriptedModel(says(*"one", every=1), says("two"))
    async with world(path, model) as w:
        sent = [await w.send(text) for text in ("one", "two", "three")]
        w.services.shut_down()
        await wait_all_tasks_blocked()
        await w.services.turns.cancel(sent[1].turn.stream_id)
        await w.services.turns.stopped.wait()
        states = [row.state for row in await w.turns()]
        assert states == ["finished", "cancelled", "queued"]
        assert len(model.requests) == 1
    async with world(path, model) as w:
        seen = await w.read(sent[2].turn.stream_id)
        assert (seen.text, model.questions) == ("two", ["one", "three"])
        await truth.check(w)


@pytest.mark.requirement("T7", "C1")
async def test_a_stop_in_the_grace(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("so far")
    async with world(path, ScriptedModel(running)) as w:
        await w.send()
        await running.reached.wait()
        w.services.shut_down()
        await trio.sleep(3)
        row = (await w.turns())[0]
        await w.services.turns.cancel(row.stream_id)
        await w.services.turns.stopped.wait()
        assert trio.current_time() == pytest.approx(3)
        assert (await w.turns())[0].state == "cancelled"
        await truth.check(w)


@pytest.mark.requirement("T7", "R1")
@pytest.mark.parametrize("where", ["pause", "tool"])
async def test_a_shutdown_finds_the_turn_anywhere(
    autojump_clock: MockClock, path: Path, where: str
) -> None:
    async def slow(_arguments: Any) -> Any:
        await trio.sleep_forever()

    tools = Toolbox([Probe(do=slow)])
    first = {"pause": fails("ghost"), "tool": calls("probe", text="Let me see. ")}[where]
    model = ScriptedModel(first, says("fine"))
    async with world(path, model, tools=tools, grace=0) as w:
        sent = await w.send()
        await trio.sleep(0.5)
        assert await stopped_after(w) == 0
    async with world(path, model, tools=tools) as w:
        seen = await w.read(sent.turn.stream_id)
        assert seen.text == ("fine" if where == "pause" else "Let me see. fine")
        assert seen.outcome.code == "FINISHED"
        await truth.check(w)


@pytest.mark.requirement("T7", "R2")
async def test_clean_restarts_are_no_recoveries(autojump_clock: MockClock, path: Path) -> None:
    """However many: only crashes are counted."""
    async with world(path, ScriptedModel(hangs), grace=0) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()
    for _ in range(5):
        async with world(path, ScriptedModel(hangs), grace=0, max_recoveries=1) as w:
            await wait_all_tasks_blocked()
            assert (await w.turns())[0].recoveries == 0
    async with world(path, ScriptedModel(says("at last")), max_recoveries=1) as w:
        assert (await w.read(sent.turn.stream_id)).text == "at last"
        await truth.check(w)


@pytest.mark.requirement("T7")
async def test_a_store_that_fails_as_it_stops(autojump_clock: MockClock, path: Path) -> None:
    """The server stops all the same; the next start takes it for a crash."""
    async with world(path, ScriptedModel(Paused("so far")), grace=0) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()

        def broken(_batch: Any) -> None:
            raise OSError("the disk is gone")

        w.services.database._writer._commit = broken  # type: ignore[method-assign]
        assert await stopped_after(w) == 0
    async with world(path, ScriptedModel(says("fine"))) as w:
        assert (await w.read(sent.turn.stream_id)).text == "fine"
        assert (await w.turns())[0].recoveries == 1


@pytest.mark.requirement("T7")
async def test_an_end_that_was_on_its_way(autojump_clock: MockClock, path: Path) -> None:
    """Cancelled while its outcome is being committed: it has ended, not been left."""
    async with world(path, ScriptedModel(says("answer")), grace=0) as w:
        sent = await w.send()
        live = w.services.turns.live(sent.turn.id)
        assert live is not None
        while not live.tail._closing:
            await trio.lowlevel.checkpoint()
        w.services.shut_down()
        await w.services.turns.stopped.wait()
        await wait_all_tasks_blocked()
        (row,) = await w.turns()
        assert (row.state, row.released) == ("finished", 0)
    async with world(path, ScriptedModel(hangs)) as w:
        seen = await w.read(sent.turn.stream_id)
        assert [event for event in seen.events if isinstance(event, ev.Outcome)] == [seen.outcome]
        await truth.check(w)
