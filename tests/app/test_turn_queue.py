"""One turn of a thread at a time: queue, interrupt, reject (T4)."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app.feed import Change
from tests.app import truth
from tests.app.world import Paused, ScriptedModel, Wall, hangs, says, world

THREAD = "thread-01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


# The queue


@pytest.mark.requirement("T4")
async def test_messages_run_in_the_order_they_came(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(says("answer", every=1))
    async with world(path, model) as w:
        sent = [await w.send(text) for text in ("one", "two", "three")]
        assert [one.turn.state for one in sent] == ["running", "queued", "queued"]
        for one in sent:
            await w.read(one.turn.stream_id)
        assert model.questions == ["one", "two", "three"]
        assert await w.line() == ["one", "answer", "two", "answer", "three", "answer"]
        assert [getattr(one, "text", "") for one in model.requests[2].entries] == [
            "one",
            "answer",
            "two",
            "answer",
            "three",
        ]
        await truth.check(w)


@pytest.mark.requirement("T4", "O5")
async def test_a_queued_turn_says_so_until_it_runs(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("one", every=10), says("two"))) as w:
        await w.send()
        queued = await w.send()
        await trio.sleep(1)
        view = (await w.answers())[1]
        assert view.turn is not None
        assert (view.turn.state, view.turn.status.state) == ("queued", "queued")
        assert view.turn.cursor == f"{queued.turn.stream_id}:1"
        seen = await w.read(queued.turn.stream_id)
        assert seen.types[:4] == ["Status", "Start", "StartStep", "Status"]
        assert seen.fold.status is None


@pytest.mark.requirement("T4")
async def test_the_feed_tells_of_every_change(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("answer", every=1))) as w:
        first = await w.send()
        second = await w.send()
        await w.read(first.turn.stream_id)
        await w.read(second.turn.stream_id)
        changes = w.services.feed.after(0)
        assert changes is not None
        assert [(change.state, change.deleted) for _, change in changes] == [
            ("running", False),
            ("running", False),
            ("running", False),  # the first has ended, the second runs
            ("idle", False),
        ]
        versions = [change.version for _, change in changes]
        assert versions == sorted(set(versions))
        snapshot = await w.services.threads.snapshot(THREAD)
        assert changes[-1][1] == Change(THREAD, snapshot.thread.version, "idle")


@pytest.mark.requirement("T4", "C1")
async def test_a_queued_turn_can_be_stopped(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("one")
    model = ScriptedModel(running, says("three"))
    async with world(path, model) as w:
        first, second, third = [await w.send(text) for text in ("one", "two", "three")]
        await running.reached.wait()
        await w.services.turns.cancel(second.turn.stream_id)
        stopped = await w.read(second.turn.stream_id)
        assert (stopped.outcome.outcome, stopped.outcome.code) == ("cancelled", "CANCELLED")
        assert [row.state for row in await w.turns()] == ["running", "cancelled", "queued"]
        running.go.set()
        await w.read(first.turn.stream_id)
        assert (await w.read(third.turn.stream_id)).outcome.code == "FINISHED"
        assert model.questions == ["one", "three"]
        await truth.check(w)


@pytest.mark.requirement("T4", "C1")
@pytest.mark.parametrize("order", [("queued", "running"), ("running", "queued")])
async def test_stops_of_the_running_and_the_next_cross(
    autojump_clock: MockClock, path: Path, order: tuple[str, str]
) -> None:
    """Both in one commit: the second is not started by the first one's end."""
    model = ScriptedModel(hangs)
    async with world(path, model) as w:
        sent = {"running": await w.send("one"), "queued": await w.send("two")}
        third = await w.send("three")
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for name in order:
                nursery.start_soon(w.services.turns.cancel, sent[name].turn.stream_id)
        for one in sent.values():
            assert (await w.read(one.turn.stream_id)).outcome.code == "CANCELLED"
        await wait_all_tasks_blocked()
        assert [row.state for row in await w.turns()] == ["cancelled", "cancelled", "running"]
        assert model.questions == ["one", "three"]
        assert w.services.turns.live(third.turn.id) is not None
        await truth.check(w)


@pytest.mark.requirement("T4")
async def test_the_next_starts_however_the_one_before_ended(
    autojump_clock: MockClock, path: Path
) -> None:
    async def bug(*_args: object) -> None:
        raise RuntimeError("a fault of the program")

    model = ScriptedModel(bug, says("two"))
    async with world(path, model) as w:
        first, second = [await w.send(text) for text in ("one", "two")]
        assert (await w.read(first.turn.stream_id)).outcome.code == "INTERNAL"
        assert (await w.read(second.turn.stream_id)).outcome.code == "FINISHED"
        await truth.check(w)


@pytest.mark.requirement("T4")
async def test_the_queue_keeps_its_order_when_the_clock_is_set_back(
    autojump_clock: MockClock, path: Path
) -> None:
    wall = Wall()
    model = ScriptedModel(says("answer", every=1))
    async with world(path, model, wall=wall) as w:
        sent = [await w.send("one"), await w.send("two")]
        wall.ahead -= 3600
        sent.append(await w.send("three"))
        for one in sent:
            await w.read(one.turn.stream_id)
        assert model.questions == ["one", "two", "three"]


@pytest.mark.requirement("T4", "T7")
async def test_the_queue_survives_a_restart(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs), grace=0) as w:
        for text in ("one", "two", "three"):
            await w.send(text)
        await wait_all_tasks_blocked()
        stopped = (await w.turns())[1]
        w.services.shut_down()
        await w.services.turns.cancel(stopped.stream_id)
    model = ScriptedModel(says("answer", every=1))
    async with world(path, model) as w:
        for row in await w.turns():
            await w.read(row.stream_id)
        assert [row.state for row in await w.turns()] == ["finished", "cancelled", "finished"]
        assert model.questions == ["one", "three"]
        await truth.check(w)


@pytest.mark.requirement("T4", "R2")
async def test_waiting_is_no_recovery(autojump_clock: MockClock, path: Path) -> None:
    """However often the server is restarted while a turn waits, it gets its turn."""
    async with world(path, ScriptedModel(hangs), grace=0) as w:
        await w.send("one")
        await w.send("two")
    for _ in range(5):
        async with world(path, ScriptedModel(hangs), grace=0, max_recoveries=2) as w:
            assert [row.state for row in await w.turns()] == ["running", "queued"]
    async with world(path, ScriptedModel(says("answer"))) as w:
        for row in await w.turns():
            await w.read(row.stream_id)
        assert [row.state for row in await w.turns()] == ["finished", "finished"]
        await truth.check(w)


@pytest.mark.requirement("T4", "R2")
async def test_a_turn_that_is_given_up_at_the_start_lets_the_next_one_run(
    autojump_clock: MockClock, path: Path
) -> None:
    """The end of a restored turn may start one that is restored only after it."""
    async with world(path, ScriptedModel(hangs), grace=0, turn_timeout=60.0) as w:
        await w.send("one")
        await w.send("two")
    await trio.sleep(120)
    async with world(path, ScriptedModel(says("answer"))) as w:
        first, second = await w.turns()
        assert (await w.read(first.stream_id)).outcome.code == "TURN_TIMEOUT"
        assert (await w.read(second.stream_id)).outcome.code == "FINISHED"
        await truth.check(w)


# Stops that come first


@pytest.mark.requirement("C1")
async def test_a_stop_that_overtakes_its_message(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(says("answer"))
    async with world(path, model) as w:
        cancel = w.services.turns.cancel_message
        await cancel(THREAD, "message-one")
        await cancel(THREAD, "message-one")
        seen = await w.answer(id_="message-one")
        assert (seen.outcome.outcome, seen.types) == ("cancelled", ["Outcome"])
        assert model.requests == []
        assert (await w.send(id_="message-one")).repeated
        await w.answer("another")  # the stop is used up
        assert len(model.requests) == 1
        await truth.check(w)


@pytest.mark.requirement("C1", "T4")
async def test_a_stopped_message_interrupts_nothing(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("one")
    async with world(path, ScriptedModel(running, says("two"))) as w:
        first = await w.send("one")
        await running.reached.wait()
        waiting = await w.send("two")
        await w.services.turns.cancel_message(THREAD, "message-urgent")
        stopped = await w.send("urgent", id_="message-urgent", during="interrupt")
        assert (await w.read(stopped.turn.stream_id)).outcome.outcome == "cancelled"
        assert not running.cancelled
        running.go.set()
        assert (await w.read(first.turn.stream_id)).outcome.code == "FINISHED"
        assert (await w.read(waiting.turn.stream_id)).outcome.code == "FINISHED"
        await truth.check(w)


@pytest.mark.requirement("C1")
async def test_a_stop_by_message_of_another_thread_stops_nothing(
    autojump_clock: MockClock, path: Path
) -> None:
    running = Paused("one")
    async with world(path, ScriptedModel(running)) as w:
        sent = await w.send("one", id_="message-one")
        await running.reached.wait()
        await w.services.turns.cancel_message("thread-02", "message-one")
        await wait_all_tasks_blocked()
        assert not running.cancelled
        await w.services.turns.cancel_message(THREAD, "message-one")
        assert (await w.read(sent.turn.stream_id)).outcome.outcome == "cancelled"
