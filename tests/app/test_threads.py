"""Threads as clients see them: snapshots, the list, changes, deletion (L4, L7, T2)."""

from pathlib import Path

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from app.errors import NotFoundError
from app.feed import Change
from app.message import Fold
from app.threads import Position, ThreadChange
from tests.app import truth
from tests.app.world import Paused, ScriptedModel, World, fails, follow, hangs, says, world

THREAD = "thread-01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


def newest(w: World) -> Change:
    changes = w.services.feed.after(w.services.feed.newest - 1)
    assert changes is not None
    return changes[-1][1]


# Snapshots


@pytest.mark.requirement("L7", "T2")
@pytest.mark.parametrize("inline", [True, False])
async def test_a_snapshot_and_what_follows_it_make_the_whole(path: Path, inline: bool) -> None:
    """Taken as often as can be while a turn streams, with the writer's thread and without.

    Real time, for the thread's sake; nothing waits for it.
    """
    model = ScriptedModel(says(*(f"{n} |" for n in range(300))))
    folds: list[Fold] = []
    cursors: set[str | None] = set()

    async def look(w: World, stream: str, nursery: trio.Nursery) -> None:
        view = (await w.answers())[0]
        assert view.turn is not None
        cursors.add(view.turn.cursor)
        nursery.start_soon(go_on, w, stream, Fold(view.parts), view.turn.cursor)

    async def go_on(w: World, stream: str, fold: Fold, cursor: str | None) -> None:
        if cursor is not None:
            name, _, seq = cursor.rpartition(":")
            seen = await follow(await w.services.journal.locate(stream, (name, int(seq))))
            assert [number for _, number in seen.ids][:1] in ([], [int(seq) + 1])
            for event in seen.events:
                fold.apply(event)
        folds.append(fold)

    with trio.fail_after(60):
        async with world(path, model, inline=inline) as w:
            sent = await w.send()
            live = w.services.turns.live(sent.turn.id)
            assert live is not None
            async with trio.open_nursery() as nursery:
                for _ in range(200):  # one after the other: all at once would starve the turn
                    await look(w, sent.turn.stream_id, nursery)
                    await trio.lowlevel.checkpoint()
                    if live.ended.is_set():
                        break
            whole = (await w.read(sent.turn.stream_id)).fold.parts()
            assert len(cursors) > 2  # in its middle, too
            assert all(fold.parts() == whole for fold in folds)
            await truth.check(w)


@pytest.mark.requirement("L7", "T4")
async def test_a_snapshot_shows_each_state_of_a_turn(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("so far")
    model = ScriptedModel(says("one"), fails("two", retryable=False), running)
    async with world(path, model) as w:
        await w.answer()
        await w.answer()
        sent = await w.send()
        await running.reached.wait()
        queued = await w.send()
        await wait_all_tasks_blocked()
        snapshot = await w.services.threads.snapshot(THREAD)
        turns = [view.turn for view in snapshot.messages if view.turn is not None]
        assert [turn.state for turn in turns] == ["finished", "failed", "running", "queued"]
        assert [turn.cursor is None for turn in turns] == [True, True, False, False]
        assert [turn.outcome is None for turn in turns] == [False, False, True, True]
        assert turns[3].cursor == f"{queued.turn.stream_id}:1"
        assert [view.turn for view in snapshot.messages[::2]] == [None] * 4
        assert snapshot.thread.state == "running"
        assert snapshot.thread.leaf == queued.turn.id
        assert await w.services.threads.active_stream(THREAD) == sent.turn.stream_id
        for one in (sent, queued):
            await w.services.turns.cancel(one.turn.stream_id)
            await w.read(one.turn.stream_id)
        assert (await w.services.threads.snapshot(THREAD)).thread.state == "idle"
        assert await w.services.threads.active_stream(THREAD) is None


async def test_an_unknown_thread(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        threads = w.services.threads
        for call in (
            threads.snapshot("thread-none"),
            threads.change("thread-none", ThreadChange(title="x")),
            threads.owning("thread-none", "stream-none"),
        ):
            with pytest.raises(NotFoundError):
                await call
        assert await threads.active_stream("thread-none") is None
        before = w.services.feed.newest
        await threads.remove("thread-none")  # idempotent
        assert w.services.feed.newest == before


async def test_a_stream_belongs_to_its_thread(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("one"))) as w:
        sent = await w.send()
        other = await w.send(thread="thread-02")
        owning = w.services.threads.owning
        assert await owning(THREAD, sent.turn.stream_id) == sent.turn.stream_id
        with pytest.raises(NotFoundError) as error:
            await owning(THREAD, other.turn.stream_id)
        assert error.value.code == "STREAM_NOT_FOUND"


# The list


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 100])
async def test_pages_make_the_whole_list(autojump_clock: MockClock, path: Path, limit: int) -> None:
    """Newest change first, also where several changed in the same millisecond."""
    async with world(path, ScriptedModel(says("one"))) as w:
        for number in range(7):
            await w.answer(thread=f"thread-{number:02}")
            if number % 3 == 0:
                await trio.sleep(1)
        await w.answer(thread="thread-02")  # changed again
        found: list[str] = []
        after: Position | None = None
        while True:
            page, after = await w.services.threads.list(limit, after)
            assert len(page) <= limit
            found += [view.id for view in page]
            if after is None:
                break
        assert sorted(found) == [f"thread-{number:02}" for number in range(7)]
        assert found[0] == "thread-02"
        assert found.index("thread-06") < found.index("thread-01") < found.index("thread-00")


async def test_the_list_shows_states_and_titles(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        await w.send("First line\nsecond", thread="thread-01")
        await wait_all_tasks_blocked()
        page, after = await w.services.threads.list(10)
        assert [(view.title, view.state) for view in page] == [("First line", "running")]
        assert after is None


# Changes


async def test_a_change_is_kept_told_and_counted(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("one"))) as w:
        await w.answer()
        before = (await w.services.threads.snapshot(THREAD)).thread
        view = await w.services.threads.change(THREAD, ThreadChange(title="Another title"))
        assert (view.title, view.version) == ("Another title", before.version + 1)
        assert newest(w) == Change(THREAD, view.version, "idle")
        assert (await w.services.threads.snapshot(THREAD)).thread == view
        await w.answer("the title stays")
        assert (await w.services.threads.snapshot(THREAD)).thread.title == "Another title"


async def test_a_change_while_a_turn_runs(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("so far")
    async with world(path, ScriptedModel(running)) as w:
        sent = await w.send()
        await running.reached.wait()
        await w.services.threads.change(THREAD, ThreadChange(title="Renamed"))
        assert newest(w).state == "running"
        running.go.set()
        seen = await w.read(sent.turn.stream_id)
        snapshot = await w.services.threads.snapshot(THREAD)
        assert (seen.text, snapshot.thread.title) == ("so far", "Renamed")
        assert newest(w) == Change(THREAD, snapshot.thread.version, "idle")


async def test_a_leaf_must_be_of_the_thread(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("one"))) as w:
        await w.answer(id_="message-a")
        await w.answer(id_="message-b", thread="thread-02")
        for leaf in ("message-b", "message-none"):
            with pytest.raises(NotFoundError) as error:
                await w.services.threads.change(THREAD, ThreadChange(leaf=leaf))
            assert error.value.code == "MESSAGE_NOT_FOUND"
        view = await w.services.threads.change(THREAD, ThreadChange(leaf="message-a"))
        assert view.leaf == "message-a"


# Deletion


@pytest.mark.requirement("C2")
async def test_what_is_deleted_is_stopped_first(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("so far")
    async with world(path, ScriptedModel(running, says("fine"))) as w:
        sent = await w.send()
        queued = await w.send()
        await running.reached.wait()
        readers = [await w.services.journal.locate(one.turn.stream_id) for one in (sent, queued)]
        await w.services.threads.remove(THREAD)
        assert running.cancelled
        for reader in readers:  # whoever followed it is told
            seen = await follow(reader)
            assert (seen.outcome.outcome, seen.outcome.retryable) == ("cancelled", False)
        assert newest(w) == Change(THREAD, 0, "idle", deleted=True)
        with pytest.raises(NotFoundError):
            await w.messages()
        with pytest.raises(NotFoundError):
            await w.read(sent.turn.stream_id)
        assert w.services.turns.thread_state(THREAD) == "idle"
        await w.services.threads.remove(THREAD)
        assert (await w.answer(id_="message-0001")).text == "fine"  # its ids are free again
        await truth.check(w)


async def test_messages_that_arrive_while_it_is_deleted(
    autojump_clock: MockClock, path: Path
) -> None:
    """Each is either deleted with it or starts it anew; none leaves a turn without a thread."""
    model = ScriptedModel(hangs)
    async with world(path, model) as w:
        await w.send()
        await wait_all_tasks_blocked()

        async def send_after(ticks: int) -> None:
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            await w.send(f"after {ticks}", id_=f"message-after-{ticks}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(w.services.threads.remove, THREAD)
            for ticks in range(12):
                nursery.start_soon(send_after, ticks)
        await wait_all_tasks_blocked()
        await truth.check(w)
        open_ = [row.id for row in await w.turns() if row.ended_at is None]
        assert all(w.services.turns.live(id_) is not None for id_ in open_)
        await w.services.threads.remove(THREAD)
        assert w.services.turns.thread_state(THREAD) == "idle"
        assert await w.turns() == []
        await truth.check(w)


async def test_one_deletion_leaves_other_threads_alone(
    autojump_clock: MockClock, path: Path
) -> None:
    kept = Paused("kept", after="!")
    async with world(path, ScriptedModel(kept, says("one"))) as w:
        sent = await w.send(thread="thread-02")
        await kept.reached.wait()
        await w.answer(id_="message-x")
        await w.services.threads.remove(THREAD)
        kept.go.set()
        assert (await w.read(sent.turn.stream_id)).text == "kept!"
        await truth.check(w)
