"""Group commit: what goes into one transaction, what a failure takes with it, what a close keeps.

Tests with a thread run in real time; they wait for events only.
"""

import functools
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from sqlalchemy import Connection, event, select, text

from store import database as database_module
from store import segments, sqlite, streams, threads, writer
from store.database import ROOM_BYTES, Database, open_database
from store.errors import StoreError, StoreUnavailableError, StreamClosedError
from store.schema import thread
from tests.store.log import Log
from tests.store.rows import NOW, add_stream, add_thread, frames

both = pytest.mark.parametrize("inline", [True, False], ids=["inline", "thread"])
PATIENCE_SECONDS = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "unbroken.db"


# what goes into one commit


@both
async def test_what_is_handed_over_in_one_tick_is_one_transaction(path: Path, inline: bool) -> None:
    async with open_database(path, inline=inline) as database:
        logs = await make_logs(database, 20)
        with counted_commits(database) as commits:
            before = database.commits
            jobs = [database.job(adds(f"thread-x{n}")) for n in range(50)]
            for log in logs:
                log.put(3)
                log.put(2)
            for job in jobs:
                await job.wait()
        assert commits == [1]
        assert database.commits == before + 1
        assert all(log.durable == 5 and len(log.segments) == 1 for log in logs)
        assert await database.read(lambda c: stored(c, logs[0].stream)) == frames(1, 5)


async def test_what_waits_behind_a_commit_goes_into_the_next_one(path: Path) -> None:
    async with open_database(path) as database:
        logs = await make_logs(database, 10)
        with held_writer(database) as release, counted_commits(database) as commits:
            jobs = []
            for n in range(40):
                jobs.append(database.job(adds(f"thread-x{n}")))
                logs[n % 10].put()
                await trio.lowlevel.checkpoint()
            assert [log.durable for log in logs] == [0] * 10
            release()
            await jobs[-1].wait()
        assert commits == [2], "the one that was held, and one for all of the rest"
        assert all(job.done.is_set() for job in jobs)
        assert [log.durable for log in logs] == [4] * 10


@both
async def test_segments_come_before_jobs_in_the_transaction(path: Path, inline: bool) -> None:
    """So a stream can be ended in the very transaction that has its last events (O4)."""
    async with open_database(path, inline=inline) as database:
        (log,) = await make_logs(database, 1)
        job = database.job(lambda c: streams.close(c, log.stream, NOW))
        log.put(2)
        await job.wait()
        assert log.durable == 2
        log.put()
        await database.write(lambda _: None)
        assert [type(error) for error in log.errors] == [StreamClosedError]


@pytest.mark.requirement("L2")
@both
async def test_nothing_is_told_before_it_is_on_record(path: Path, inline: bool) -> None:
    async with open_database(path, inline=inline) as database:
        (log,) = await make_logs(database, 1)
        seen = []

        class Checking(Log):
            def committed(self, segment: segments.Segment) -> None:
                with sqlite3.connect(path) as other:
                    (found,) = other.execute("SELECT max(last_seq) FROM segment").fetchone()
                other.close()
                seen.append((segment.last_seq, found))

        checking = Checking(database, log.stream)
        checking.put(3)
        await database.write(lambda _: None)
        assert seen == [(3, 3)]


# jobs


@both
@pytest.mark.parametrize("error", [ValueError("no"), StreamClosedError("no"), None])
async def test_job_that_fails_does_no_harm_to_its_batch(
    path: Path, inline: bool, error: Exception | None
) -> None:
    """`None`: what fails is a constraint of the database."""

    def fails(connection: Connection) -> None:
        add_thread(connection, "thread-of-the-failed")
        if error is not None:
            raise error
        threads.create(connection, "thread-of-the-failed", "again", NOW)

    async with open_database(path, inline=inline) as database:
        (log,) = await make_logs(database, 1)
        told: list[str] = []
        first = database.job(adds("thread-a"), on_commit=lambda _: told.append("first"))
        failing = database.job(fails, on_commit=lambda _: told.append("failing"))
        last = database.job(adds("thread-z"), on_commit=lambda _: told.append("last"))
        log.put(2)
        with pytest.raises(type(error) if error else StoreError):
            await failing.wait()
        await first.wait()
        await last.wait()
        assert told == ["first", "last"]
        assert log.durable == 2
        assert await database.read(names) == ["thread-0", "thread-a", "thread-z"]


@both
async def test_acknowledged_commits_are_synced_and_others_are_not(path: Path, inline: bool) -> None:
    def synchronous(connection: Connection) -> int:
        return int(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())

    normal, full = 1, 2  # sqlite.org/pragma.html#pragma_synchronous
    async with open_database(path, inline=inline) as database:
        assert await database.write(synchronous, durable=False) == normal
        assert await database.write(synchronous) == full
        assert await database.write(synchronous, durable=False) == normal
        one = database.job(synchronous, durable=False)
        other = database.job(lambda _: None, durable=True)
        assert await one.wait() == full, "the strictest of a batch counts"
        await other.wait()
        (log,) = await make_logs(database, 1)
        log.put()  # deltas alone
        await database.write(lambda _: None, durable=False)
        assert await database.write(synchronous, durable=False) == normal
        with pytest.raises(StoreUnavailableError):
            await database.write(spoils)
        assert await database.write(synchronous) == full, "also on the connection after a failure"


@both
async def test_cancelled_wait_does_not_take_the_job_back(path: Path, inline: bool) -> None:
    async with open_database(path, inline=inline) as database:
        told: list[int] = []
        with trio.CancelScope() as scope:
            scope.cancel(reason="the request went away")
            await database.job(adds("thread-a", 7), on_commit=told.append).wait()
        assert scope.cancelled_caught
        await database.write(lambda _: None)
        assert told == [7]
        assert await database.read(names) == ["thread-a"]


@both
async def test_on_commit_comes_before_any_waiter_and_in_the_tick_of_the_commit(
    path: Path, inline: bool
) -> None:
    async with open_database(path, inline=inline) as database:
        order: list[str] = []

        async def wait(job: database_module.Job[str]) -> None:
            order.append(await job.wait())

        async with trio.open_nursery() as nursery:
            for name in "ab":
                job = database.job(
                    functools.partial(echo, f"waiter {name}"),
                    on_commit=lambda result: order.append(f"told {result}"),
                )
                nursery.start_soon(wait, job)
        assert order[:2] == ["told waiter a", "told waiter b"]
        assert sorted(order[2:]) == ["waiter a", "waiter b"]


# failures of a whole batch


@pytest.mark.requirement("L9")
@both
async def test_batch_that_cannot_be_committed_fails_as_a_whole_and_the_next_one_works(
    path: Path, inline: bool
) -> None:
    async with open_database(path, inline=inline) as database:
        logs = await make_logs(database, 2)
        one = database.job(adds("thread-a"))
        spoiling = database.job(spoils)
        for log in logs:
            log.put(2)
        for job in (one, spoiling):
            with pytest.raises(StoreUnavailableError):
                await job.wait()
        assert [(log.durable, len(log.errors)) for log in logs] == [(0, 1), (0, 1)]
        assert isinstance(logs[0].errors[0], StoreUnavailableError)
        assert await database.read(names) == ["thread-0", "thread-1"]

        one = database.job(adds("thread-a"))
        logs[0].put(4)
        await one.wait()
        assert logs[0].durable == 4
        assert await database.read(names) == ["thread-0", "thread-1", "thread-a"]


@pytest.mark.requirement("L9")
@both
async def test_error_nobody_thought_of_fails_its_batch_and_leaves_the_writer_alive(
    path: Path, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_database(path, inline=inline) as database:
        await make_logs(database, 1)
        with monkeypatch.context() as patch:
            patch.setattr(segments, "append", lambda *_: 1 / 0)
            with pytest.raises(StoreUnavailableError, match="ZeroDivisionError"):
                await database.write(adds("thread-a"))
        await database.write(adds("thread-b"))
        assert await database.read(names) == ["thread-0", "thread-b"]


@pytest.mark.requirement("L9", "O4")
@both
async def test_transaction_that_vanished_beneath_a_job_is_not_told_as_committed(
    path: Path, inline: bool
) -> None:
    """SQLite rolls back by itself for some errors, also if the job made light of them."""
    async with open_database(path, inline=inline) as database:
        (log,) = await make_logs(database, 1)
        one = database.job(adds("thread-a"))
        vanishing = database.job(lambda c: c.exec_driver_sql("ROLLBACK"))
        log.put()
        for job in (one, vanishing):
            with pytest.raises(StoreUnavailableError):
                await job.wait()
        assert log.durable == 0
        assert await database.read(names) == ["thread-0"]


@pytest.mark.requirement("R3")
@both
async def test_writer_that_lost_its_stream_is_told_and_others_are_not_disturbed(
    path: Path, inline: bool
) -> None:
    async with open_database(path, inline=inline) as database:
        lost, other = await make_logs(database, 2)
        lost.put()
        await database.write(lambda _: None)
        seal = segments.Segment(lost.stream, 2, 1, frames(2, 2))

        def take_over(connection: Connection) -> None:
            segments.append(connection, [seal])
            streams.close(connection, lost.stream, NOW, other.stream)

        await database.write(take_over)
        lost.put()  # its next seq is that of the seal
        other.put(3)
        job = database.job(adds("thread-a"))
        await job.wait()
        assert lost.durable == 1
        assert [type(error) for error in lost.errors] == [StreamClosedError]
        assert (other.durable, other.errors) == (3, [])
        assert await database.read(lambda c: segments.last_seq(c, lost.stream)) == 2


# the bound on what waits


async def test_room_holds_back_while_too_much_waits_for_the_disk(path: Path) -> None:
    async with open_database(path, inline=True) as database:
        database.pending(ROOM_BYTES - 1)
        await database.room()  # does not wait
        database.pending(1)
        passed: list[int] = []

        async def wait(number: int) -> None:
            await database.room()
            passed.append(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, 1)
            nursery.start_soon(wait, 2)
            await trio.testing.wait_all_tasks_blocked()
            database.pending(10)
            database.pending(-5)
            await trio.testing.wait_all_tasks_blocked()
            assert passed == []
            database.pending(-6)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(passed) == [1, 2]


# readers


@both
async def test_readers_cannot_write(path: Path, inline: bool) -> None:
    async with open_database(path, inline=inline) as database:
        with pytest.raises(StoreUnavailableError, match="readonly"):
            await database.read(adds("thread-a"))
        await database.write(adds("thread-b"))
        assert await database.read(names) == ["thread-b"]


async def test_one_read_is_one_moment(path: Path) -> None:
    """Two queries of one read function agree, whatever is committed between them (L7)."""
    async with open_database(path) as database:
        await database.write(adds("thread-a"))
        looked, go_on = threading.Event(), threading.Event()

        def twice(connection: Connection) -> tuple[list[str], list[str]]:
            first = names(connection)
            looked.set()
            assert go_on.wait(PATIENCE_SECONDS)
            return first, names(connection)

        found: list[tuple[list[str], list[str]]] = []

        async def read() -> None:
            found.append(await database.read(twice))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            try:
                await trio.to_thread.run_sync(looked.wait, PATIENCE_SECONDS)
                await database.write(adds("thread-b"))
            finally:
                go_on.set()
        assert found == [(["thread-a"], ["thread-a"])]
        assert await database.read(names) == ["thread-a", "thread-b"]


async def test_reader_that_fails_does_not_spoil_the_next_one(path: Path) -> None:
    async with open_database(path) as database:
        for _ in range(3 * database_module.READER_THREADS):
            with pytest.raises(StoreUnavailableError, match="no such table"):
                await database.read(lambda c: c.execute(text("SELECT 1 FROM nowhere")))
            with pytest.raises(LookupError):
                await database.read(lambda c: streams.get(c, 99))
        assert await database.read(names) == []


# closing


@both
async def test_what_is_cancelled_can_still_put_its_end_on_record(path: Path, inline: bool) -> None:
    """Also where the cancellation comes from outside of everything."""
    with trio.CancelScope() as everything:
        async with open_database(path, inline=inline) as database:
            everything.cancel()
            with trio.fail_after(30, shield=True):
                await database.write(adds("thread-a"))
    async with open_database(path, inline=True) as database:
        assert await database.read(names) == ["thread-a"]


@both
async def test_an_error_of_its_user_passes_and_loses_nothing(path: Path, inline: bool) -> None:
    with pytest.RaisesGroup(ZeroDivisionError):
        async with open_database(path, inline=inline) as database:
            database.job(adds("thread-a"))
            raise ZeroDivisionError
    async with open_database(path, inline=True) as database:
        assert await database.read(names) == ["thread-a"]


@both
async def test_closing_commits_what_was_handed_over(path: Path, inline: bool) -> None:
    async with open_database(path, inline=inline) as database:
        logs = await make_logs(database, 3)
        await trio.lowlevel.checkpoint()
        for log in logs:
            log.put(2)

        def go_on(_result: int) -> None:  # what a commit leads to counts as handed over too
            database.job(adds("thread-b"))
            logs[0].put()

        database.job(adds("thread-a"), on_commit=go_on)
    assert [log.durable for log in logs] == [3, 2, 2]
    async with open_database(path, inline=True) as database:
        found = await database.read(names)
        assert found == ["thread-0", "thread-1", "thread-2", "thread-a", "thread-b"]
        assert await database.read(lambda c: stored(c, logs[0].stream)) == frames(1, 3)


@both
async def test_closed_database_takes_nothing(path: Path, inline: bool) -> None:
    async with open_database(path, inline=inline) as database:
        (log,) = await make_logs(database, 1)
    with pytest.raises(StoreUnavailableError):
        database.job(adds("thread-a"))
    with pytest.raises(StoreUnavailableError):
        log.put()
    await trio.testing.wait_all_tasks_blocked()
    assert log.durable == 0


@both
async def test_closed_database_is_one_file(path: Path, inline: bool, tmp_path: Path) -> None:
    """The log is folded in: a copy of the one file is a backup."""
    async with open_database(path, inline=inline) as database:
        await database.write(adds("thread-a"))
        await database.read(names)
        assert sqlite.wal_bytes(path) > 0
    assert sqlite.wal_bytes(path) == 0
    assert alone(path, tmp_path) == ["thread-a"]


@pytest.mark.requirement("T7")
async def test_disk_that_hangs_does_not_hold_up_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "CLOSE_SECONDS", 0.05)
    hung = threading.Event()
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_database(path) as database:
                job = database.job(lambda _: hung.wait(PATIENCE_SECONDS))
                await trio.lowlevel.checkpoint()
        assert not job.done.is_set()
    finally:
        hung.set()
    await trio.to_thread.run_sync(database._writer.join)


# the log of the database


async def test_idle_writer_moves_the_log_into_the_database(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "IDLE_CHECKPOINT_SECONDS", 0.01)
    async with open_database(path) as database:
        await database.write(adds("thread-a"))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "thread-a" not in alone(path, tmp_path):
            assert time.monotonic() < deadline


async def test_busy_writer_keeps_the_log_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "WAL_LIMIT_BYTES", 500_000)
    monkeypatch.setattr(writer, "WAL_CHECK_COMMITS", 8)
    async with open_database(path) as database:
        (log,) = await make_logs(database, 1)
        for _ in range(200):
            log.put(1_500)  # about 50 kB
            await database.write(lambda _: None, durable=False)
        size = await database.read(lambda c: len(stored(c, log.stream)))
        assert size > 5_000_000
        assert sqlite.wal_bytes(path) < 2_000_000


# many at once


async def test_many_writers_and_readers_at_once(path: Path) -> None:
    """Each stream comes out gapless and whole, and far fewer commits than writes were made."""
    rounds = 40
    async with open_database(path) as database:
        logs = await make_logs(database, 30)
        before = database.commits

        async def write(log: Log) -> None:
            for number in range(rounds):
                log.put(number % 3 + 1)
                await database.write(lambda _: None, durable=False)

        async def read(log: Log) -> None:
            seq = 0
            while seq < log_length:
                found = await database.read(after(log.stream, seq))
                for segment in found:
                    assert segment.last_seq - segment.events == seq
                    seq = segment.last_seq
                await trio.lowlevel.checkpoint()

        log_length = sum(number % 3 + 1 for number in range(rounds))
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for log in logs:
                    nursery.start_soon(write, log)
                for log in logs[:8]:
                    nursery.start_soon(read, log)
        for log in logs:
            assert log.durable == log_length
            whole = await database.read(after(log.stream, 0))
            assert b"".join(s.frames for s in whole) == frames(1, log_length)
        assert database.commits - before < 30 * rounds / 4


# shorthands


def echo(result: str, _connection: Connection) -> str:
    return result


def adds(id_: str, result: int = 0) -> Callable[[Connection], int]:
    def add(connection: Connection) -> int:
        threads.create(connection, id_, id_, NOW)
        return result

    return add


def names(connection: Connection) -> list[str]:
    return list(connection.scalars(select(thread.c.id).order_by(thread.c.id)))


def after(stream: int, seq: int) -> Callable[[Connection], list[segments.Segment]]:
    return lambda connection: segments.read_after(connection, stream, seq)


def stored(connection: Connection, stream: int) -> bytes:
    return b"".join(s.frames for s in segments.read_after(connection, stream, 0))


def spoils(connection: Connection) -> None:
    """Fails as a full disk does: SQLITE_FULL, which rolls the whole transaction back."""
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    threads.create(connection, "thread-big", "x" * 1_000_000, NOW)


async def make_logs(database: Database, count: int) -> list[Log]:
    def make(connection: Connection) -> list[int]:
        return [add_stream(connection, f"t{n}", thread=f"thread-{n}") for n in range(count)]

    return [Log(database, stream) for stream in await database.write(make)]


@contextmanager
def counted_commits(database: Database) -> Iterator[list[int]]:
    """Counts real transactions of the writer, not what the database says of itself."""
    count = [0]

    def committed(_connection: Connection) -> None:
        count[0] += 1

    engine = database._writer.engine
    event.listen(engine, "commit", committed)
    try:
        yield count
    finally:
        event.remove(engine, "commit", committed)


@contextmanager
def held_writer(database: Database) -> Iterator[Callable[[], None]]:
    """The writer's thread is in a commit until the given function is called."""
    gate = threading.Event()
    database.job(lambda _: gate.wait(PATIENCE_SECONDS))
    try:
        yield gate.set
    finally:
        gate.set()


def alone(path: Path, folder: Path) -> list[str]:
    """What a copy of the database's file holds without its log."""
    copy = folder / "copy.db"
    shutil.copy(path, copy)
    with sqlite3.connect(copy) as connection:
        try:
            found = [name for (name,) in connection.execute("SELECT id FROM thread")]
        except sqlite3.OperationalError:
            found = []  # the tables are in the log yet
    connection.close()
    return found


async def test_a_new_data_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with open_database(tmp_path / "new" / "unbroken.db", inline=True):
        mode = (tmp_path / "new").stat().st_mode
    assert mode & 0o077 == 0
