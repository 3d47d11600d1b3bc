"""A disk that is full at any moment: turns end, the process stays, and goes on when it is not (L9).

What one broken commit does to a turn is in test_turn_faults.py; here the store breaks at every
commit there is, and for good.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from app.errors import StoreError
from app.housekeeping import Housekeeping
from store import sqlite, threads
from store.database import Batch, Connection, Database
from store.errors import StoreUnavailableError
from tests.app import truth
from tests.app.world import EPOCH_MS, ScriptedModel, Seen, World, calls, follow, hangs, says, world
from tests.store.faults import LOG_BYTES, full_disk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


@contextmanager
def failing_after(database: Database, commits: int) -> Iterator[None]:
    """The next `commits` commits work, then none."""
    writer: Any = database._writer
    commit = writer._commit
    done = 0

    def commit_or_fail(batch: Batch) -> None:
        nonlocal done
        if done == commits:
            raise StoreUnavailableError("database or disk is full")
        done += 1
        commit(batch)

    writer._commit = commit_or_fail
    try:
        yield
    finally:
        writer._commit = commit


@pytest.mark.requirement("L9", "O1", "L2")
@pytest.mark.parametrize("commits", range(14))
async def test_store_that_breaks_at_any_commit_breaks_nothing_else(
    autojump_clock: MockClock, path: Path, commits: int
) -> None:
    """A turn with a tool runs, another waits behind it; each gets an end, the next one works."""
    model = ScriptedModel(
        calls("wait", '{"seconds": 1}', text="one "), says("two ", "three", every=1), says("fine")
    )
    async with world(path, model) as w:
        seen: dict[str, Seen] = {}
        accepted: list[str] = []

        async def send_and_follow(text: str) -> None:
            try:
                stream = (await w.send(text)).turn.stream_id
            except StoreError:
                return  # refused: nothing was promised
            accepted.append(stream)
            seen[stream] = await follow(await w.services.journal.locate(stream))

        with failing_after(w.services.database, commits):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_and_follow, "first")
                await trio.sleep(0.1)
                nursery.start_soon(send_and_follow, "second")
                await trio.sleep(20)
                nursery.cancel_scope.cancel()
        await trio.sleep(10)

        rows = await w.turns()
        assert {row.stream_id for row in rows} == set(accepted), "what was promised is there"
        for row in rows:
            assert row.ended_at is not None, "no turn without an end"
            whole = await w.read(row.stream_id)
            told = seen.get(row.stream_id)
            if told is not None:
                # What was shown is on record, but for the one frame that says it could not be.
                assert whole.ids[: len(told.ids)] == told.ids
                assert whole.events[: len(told.ids)] == told.events[: len(told.ids)]
                assert told.outcome.code in ("STORE_FAILED", "FINISHED")
        assert (await w.answer("third", thread="thread-02")).outcome.outcome == "finished"
        assert (await w.answer("fourth")).outcome.outcome == "finished"
        await truth.check(w)


@pytest.mark.requirement("L9")
async def test_disk_that_is_really_full(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(says(*("word " for _ in range(20)), every=1), says("fine"))
    async with world(path, model) as w:
        await fill_log(w)
        stream = (await w.send()).turn.stream_id
        await trio.sleep(5.5)
        reader = await w.services.journal.locate(stream)
        with full_disk(path):
            told = await follow(reader)
            assert told.outcome.code == "STORE_FAILED"
            assert len(told.ids) == len(told.events) - 1
            with pytest.raises(StoreError):
                await w.send(thread="thread-02")
            await trio.sleep(20)
        await trio.sleep(5)
        whole = await w.read(stream)
        assert whole.outcome.code == "STORE_FAILED"
        assert whole.text == told.text == "word " * 5
        assert (await w.answer()).text == "fine"
        await truth.check(w)


@pytest.mark.requirement("L9", "T4")
async def test_queue_goes_on_after_a_commit_that_was_lost(
    autojump_clock: MockClock, path: Path
) -> None:
    """The word that a turn waits in the queue was lost; it still runs when its time comes."""
    async with world(path, ScriptedModel(says("one", every=5), says("two"))) as w:
        first = await w.send("first")
        await trio.sleep(1)
        with failing_after(w.services.database, 1):
            second = await w.send("second")
            await trio.sleep(1)
        assert (await w.read(first.turn.stream_id)).text == "one"
        assert (await w.read(second.turn.stream_id)).text == "two"
        await truth.check(w)


@pytest.mark.requirement("L9", "C1")
async def test_waiting_turn_can_be_stopped_after_a_commit_that_was_lost(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        await w.send("first")
        await trio.sleep(1)
        with failing_after(w.services.database, 1):
            second = await w.send("second")
            await trio.sleep(1)
        await w.services.turns.cancel(second.turn.stream_id)
        seen = await w.read(second.turn.stream_id)
        assert seen.outcome.code == "CANCELLED"
        await w.services.turns.stop_thread("thread-01")
        await truth.check(w)


@pytest.mark.requirement("L9")
async def test_housekeeping_outlives_a_store_that_fails(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(says("one"))) as w:
        keeper = Housekeeping(w.services.database, w.services.clock, 60.0)
        stream = (await w.send()).turn.stream_id
        await w.read(stream)
        async with trio.open_nursery() as nursery:
            with failing_after(w.services.database, 0):
                await nursery.start(keeper.serve)
                await trio.sleep(600)
            await trio.sleep(120)
            nursery.cancel_scope.cancel()
        reader = await w.services.journal.locate(stream)
        assert await reader.next() == "gap"


async def fill_log(w: World) -> None:
    """Make the log of the database long, so that the disk can be full."""
    for number in range(LOG_BYTES // 100_000 + 1):
        await w.services.database.write(adds_thread(f"filler-{number}", "x" * 100_000))
    assert sqlite.wal_bytes(w.path) >= LOG_BYTES


def adds_thread(name: str, title: str) -> Callable[[Connection], None]:
    return lambda connection: threads.create(connection, name, title, EPOCH_MS)
