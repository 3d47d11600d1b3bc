"""A message that does not wait: it interrupts, or it is refused (T4)."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app.errors import ConflictError
from app.turns.intake import Accepted
from store import turns
from tests.app import truth
from tests.app.crashes import crash
from tests.app.world import Paused, ScriptedModel, World, hangs, says, world

THREAD = "thread-01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


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
        assert model.questions == ["one", "urgent", "two"]
        # What is shown is one line, in the order in which it was answered.
        line = ["one", "half an ans", "urgent", "answer", "two", "answer"]
        assert await w.line() == line
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
        order = model.questions
        assert order[0] == "one"
        assert sorted(order[1:4]) == ["a", "b", "c"]
        assert order[4:] == ["two", "three"]
        line = await w.line()
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
        assert await w.line() == ["one", "answer", "two", "answer"]


@pytest.mark.requirement("T4")
async def test_an_interruption_survives_a_crash(autojump_clock: MockClock, path: Path) -> None:
    """The wish to stop the running turn is kept in the same commit as the message."""
    async with world(path, ScriptedModel(hangs), grace=0) as w:
        await w.send("one", id_="message-one")
        await wait_all_tasks_blocked()
        await w.send("urgent", during="interrupt")
        # It may have ended by now; nothing else writes the wish.
        row = await w.services.database.read(lambda c: turns.by_key(c, "message-one"))
        assert row is not None
        assert row.cancel_requested_at is not None


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
        assert model.questions == ["root", "on the line", "edited", "waits"]
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
        assert (await w.line())[0] == "question"


# A new version of a message


async def queue(w: World, running: Paused) -> dict[str, Accepted]:
    """One answer that is being written, and three that wait for it."""
    sent = {"zero": await w.send("zero", id_="message-zero")}
    await running.reached.wait()
    for name in ("one", "two", "three"):
        sent[name] = await w.send(name, id_=f"message-{name}")
    return sent


async def place(w: World, message: str) -> str | None:
    return next(view.parent for view in await w.messages() if view.id == message)


@pytest.mark.requirement("T4")
@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("name", ["one", "two", "three"])
async def test_a_new_version_of_a_message_that_waits_takes_its_place(
    autojump_clock: MockClock, path: Path, name: str, crashed: bool
) -> None:
    """The answer that is being written goes on; nothing is answered twice, and nothing is lost."""
    running = Paused("so far")
    model = ScriptedModel(running, says("answer"))
    async with world(path, model) as w:
        sent = await queue(w, running)
        old = await place(w, f"message-{name}")
        await w.send("edited", id_="message-new", parent=old, replaces=f"message-{name}")
        if crashed:
            path = await crash(w, "crashed")
        else:
            running.go.set()
            for row in await w.turns():
                await w.read(row.stream_id)
            ends = [(await w.read(one.turn.stream_id)).outcome.code for one in sent.values()]
            assert ends == ["REPLACED" if key == name else "FINISHED" for key in sent]
            assert not running.cancelled
    after = ScriptedModel(says("answer"))
    async with world(path, after) as w:
        for row in await w.turns():
            await w.read(row.stream_id)
        asked = ["zero", *("edited" if key == name else key for key in ("one", "two", "three"))]
        assert [text for text in await w.line() if text in (*asked, name)] == asked
        assert (after.questions if crashed else model.questions) == asked
        await truth.check(w)


@pytest.mark.requirement("T4")
async def test_a_new_version_of_a_message_whose_time_has_come_interrupts(
    autojump_clock: MockClock, path: Path
) -> None:
    running = Paused("so far")
    model = ScriptedModel(running, says("answer"))
    async with world(path, model) as w:
        sent = await queue(w, running)
        await w.send("edited", id_="message-new", parent=None, replaces="message-zero")
        assert (await w.read(sent["zero"].turn.stream_id)).outcome.code == "REPLACED"
        for row in await w.turns():
            await w.read(row.stream_id)
        assert model.questions == ["zero", "edited", "one", "two", "three"]
        assert await w.line() == ["edited", "answer"]
        await truth.check(w)


@pytest.mark.requirement("T4", "T5")
async def test_what_cannot_be_replaced_is_not(autojump_clock: MockClock, path: Path) -> None:
    """It is answered already, is another thread's, or the new version was stopped on its way."""
    running = Paused("so far")
    model = ScriptedModel(says("answer"), running, says("answer"))
    async with world(path, model) as w:
        await w.answer("before", id_="message-before")
        sent = await queue(w, running)
        await w.services.turns.cancel_message(THREAD, "message-stopped")
        await w.send("stopped", id_="message-stopped", replaces="message-one")
        await w.send("late", id_="message-late", replaces="message-before")
        await w.send("other", id_="message-other", thread="thread-02", replaces="message-two")
        running.go.set()
        for one in sent.values():
            assert (await w.read(one.turn.stream_id)).outcome.code == "FINISHED"
        for row in await w.turns():
            await w.read(row.stream_id)
        assert model.questions[-4:] == ["one", "two", "three", "late"]
        await truth.check(w)


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
