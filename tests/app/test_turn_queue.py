"""One turn of a thread at a time: queue, interrupt, reject (T4)."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app.errors import ConflictError
from app.feed import Change
from store import turns
from tests.app import truth
from tests.app.world import Paused, ScriptedModel, Wall, World, hangs, says, world

THREAD = "thread-01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


def questions(model: ScriptedModel) -> list[str]:
    """The message each request asked about."""
    return [getattr(request.entries[-1], "text", "") for request in model.requests]


async def states(w: World) -> list[str]:
    return [row.state for row in await w.turns()]


async def the_line(w: World) -> list[str]:
    """Texts of the selected branch: what the page shows."""
    snapshot = await w.services.threads.snapshot(THREAD)
    assert snapshot.thread.leaf is not None
    by_id = {view.id: view for view in snapshot.messages}
    texts = [by_id[id_].parts for id_ in truth.line(snapshot.messages, snapshot.thread.leaf)]
    return ["".join(part.get("text", "") for part in parts) for parts in texts]


# The queue


@pytest.mark.requirement("T4")
async def test_messages_run_in_the_order_they_came(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(says("answer", every=1))
    async with world(path, model) as w:
        sent = [await w.send(text) for text in ("one", "two", "three")]
        assert [one.turn.state for one in sent] == ["running", "queued", "queued"]
        for one in sent:
            await w.read(one.turn.stream_id)
        assert questions(model) == ["one", "two", "three"]
        assert await the_line(w) == ["one", "answer", "two", "answer", "three", "answer"]
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
        assert await states(w) == ["running", "cancelled", "queued"]
        running.go.set()
        await w.read(first.turn.stream_id)
        assert (await w.read(third.turn.stream_id)).outcome.code == "FINISHED"
        assert questions(model) == ["one", "three"]
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
        assert await states(w) == ["cancelled", "cancelled", "running"]
        assert questions(model) == ["one", "three"]
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
        assert questions(model) == ["one", "two", "three"]


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
        assert await states(w) == ["finished", "cancelled", "finished"]
        assert questions(model) == ["one", "three"]
        await truth.check(w)


@pytest.mark.requirement("T4", "R2")
async def test_waiting_is_no_recovery(autojump_clock: MockClock, path: Path) -> None:
    """However often the server is restarted while a turn waits, it gets its turn."""
    async with world(path, ScriptedModel(hangs), grace=0) as w:
        await w.send("one")
        await w.send("two")
    for _ in range(5):
        async with world(path, ScriptedModel(hangs), grace=0, max_recoveries=2) as w:
            assert await states(w) == ["running", "queued"]
    async with world(path, ScriptedModel(says("answer"))) as w:
        for row in await w.turns():
            await w.read(row.stream_id)
        assert await states(w) == ["finished", "finished"]
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


# Interrupting


@pytest.mark.requirement("T4", "C3")
async def test_an_interruption_keeps_what_was_said_and_runs_next(
    autojump_clock: MockClock, path: Path
) -> None:
    running = Paused("half an ", "ans")
    model = ScriptedModel(running, says("answer"))
    async with world(path, model) as w:
        first = await w.send("one")
        await running.reached.wait()
        waiting = await w.send("two")
        second = await w.send("urgent", during="interrupt")
        cut = await w.read(first.turn.stream_id)
        assert (cut.outcome.outcome, cut.outcome.code) == ("cancelled", "REPLACED")
        assert cut.text == "half an ans"
        assert running.cancelled
        assert (await w.read(second.turn.stream_id)).outcome.code == "FINISHED"
        await w.read(waiting.turn.stream_id)
        assert questions(model) == ["one", "urgent", "two"]
        # What is shown is one line, in the order in which it was answered.
        line = ["one", "half an ans", "urgent", "answer", "two", "answer"]
        assert await the_line(w) == line
        assert len(await w.messages()) == 6
        told = model.requests[1].entries
        assert [getattr(one, "text", "") for one in told] == ["one", "half an ans", "urgent"]
        assert getattr(told[1], "interrupted", False)
        await truth.check(w)


@pytest.mark.requirement("T4")
async def test_interruptions_pile_up(autojump_clock: MockClock, path: Path) -> None:
    """Three at once while others wait: the newest first, nothing lost, still one line."""
    running = Paused("so ")
    model = ScriptedModel(running, says("answer"))
    async with world(path, model) as w:
        sent = [await w.send("one")]
        await running.reached.wait()
        sent += [await w.send("two"), await w.send("three")]
        async with trio.open_nursery() as nursery:

            async def interrupt(text: str) -> None:
                sent.append(await w.send(text, during="interrupt"))

            for text in ("a", "b", "c"):
                nursery.start_soon(interrupt, text)
        for one in sent:
            await w.read(one.turn.stream_id)
        order = questions(model)
        assert order[0] == "one"
        assert sorted(order[1:4]) == ["a", "b", "c"]
        assert order[4:] == ["two", "three"]
        line = await the_line(w)
        assert line[::2] == order
        assert len(line) == len(await w.messages())
        await truth.check(w)


@pytest.mark.requirement("T4")
async def test_an_interruption_of_nothing_just_runs(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        seen = await w.answer("one", during="interrupt")
        assert seen.outcome.code == "FINISHED"
        again = await w.answer("two", during="interrupt")
        assert again.outcome.code == "FINISHED"
        assert await the_line(w) == ["one", "answer", "two", "answer"]


@pytest.mark.requirement("T4")
async def test_an_interruption_survives_a_crash(autojump_clock: MockClock, path: Path) -> None:
    """The wish to stop the running turn is kept in the same commit as the message."""
    async with world(path, ScriptedModel(hangs), grace=0) as w:
        await w.send("one")
        await wait_all_tasks_blocked()
        await w.send("urgent", during="interrupt")
        rows = await w.services.database.read(turns.open_turns)
        assert [row.cancel_requested_at is not None for row in rows[:1]] == [True]


@pytest.mark.requirement("T4", "T5")
async def test_an_interruption_sent_twice_interrupts_once(
    autojump_clock: MockClock, path: Path
) -> None:
    first, second = Paused("one"), Paused("two")
    async with world(path, ScriptedModel(first, second)) as w:
        await w.send("one")
        await first.reached.wait()
        sent = await w.send("urgent", id_="message-urgent", during="interrupt")
        await second.reached.wait()
        again = await w.send("urgent", id_="message-urgent", during="interrupt")
        assert again.repeated
        await wait_all_tasks_blocked()
        assert not second.cancelled
        second.go.set()
        assert (await w.read(sent.turn.stream_id)).outcome.code == "FINISHED"


@pytest.mark.requirement("T4")
async def test_an_edit_that_interrupts_stays_on_its_branch(
    autojump_clock: MockClock, path: Path
) -> None:
    """Only what waits on the same line is moved behind it."""
    running = Paused("so far")
    model = ScriptedModel(says("answer"), running, says("answer"))
    async with world(path, model) as w:
        await w.answer("root", id_="message-root")
        root = (await w.answers())[0]
        await w.send("on the line", id_="message-line")
        await running.reached.wait()
        await w.send("waits", id_="message-waits")
        edit = await w.send("edited", id_="message-edit", parent=root.id, during="interrupt")
        for row in await w.turns():
            await w.read(row.stream_id)
        parents = {view.id: view.parent for view in await w.messages()}
        cut = next(row.id for row in await w.turns() if row.question == "message-line")
        assert parents["message-edit"] == root.id
        assert parents["message-waits"] == cut
        assert questions(model) == ["root", "on the line", "edited", "waits"]
        snapshot = await w.services.threads.snapshot(THREAD)
        assert snapshot.thread.leaf == edit.turn.id
        await truth.check(w)


@pytest.mark.requirement("T4")
async def test_an_interruption_while_another_answer_waits(
    autojump_clock: MockClock, path: Path
) -> None:
    """The question of a second answer has its place: nothing is hung below its own child."""
    running = Paused("so far")
    model = ScriptedModel(running, says("answer"))
    async with world(path, model) as w:
        await w.send("question", id_="message-a")
        await running.reached.wait()
        again = await w.regenerate("message-a", key="again-01")
        await w.send("urgent", id_="message-b", during="interrupt")
        for row in await w.turns():
            await w.read(row.stream_id)
        parents = {view.id: view.parent for view in await w.messages()}
        assert parents["message-a"] is None
        assert parents[again.turn.id] == "message-a"
        await truth.check(w)  # no circle
        assert (await the_line(w))[0] == "question"


# Refusing


@pytest.mark.requirement("T4")
async def test_a_message_may_refuse_to_wait(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("one")
    async with world(path, ScriptedModel(running, says("two"))) as w:
        first = await w.send("one", id_="message-one", during="reject")
        await running.reached.wait()
        with pytest.raises(ConflictError) as error:
            await w.send("two", during="reject")
        assert error.value.code == "TURN_RUNNING"
        assert len(await w.messages()) == 2
        assert (await w.send("one", id_="message-one", during="reject")).repeated
        running.go.set()
        await w.read(first.turn.stream_id)
        assert (await w.answer("two", during="reject")).text == "two"
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
