"""The seam between Trio and SQL: one writer thread with group commit, a few reader threads.

While a commit is under way, everything that is appended or asked waits in the current batch and
goes into the next transaction together: no timer, and the busier it is, the larger the batches.
What is handed over in one tick without an `await` between is in the same batch, so it commits
together or not at all.

`inline=True` runs the same functions on the caller's thread, for tests under Trio's MockClock,
whose autojump cannot see a thread work.
"""

import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import trio
from sqlalchemy import Connection as Connection

from store import sqlite
from store.errors import StoreError, StoreUnavailableError, StreamClosedError
from store.migrations import migrate
from store.segments import Segment
from store.writer import Writer, translated

T = TypeVar("T")

READER_THREADS = 4
# What may wait for a commit before `room()` holds its callers back.
ROOM_BYTES = 8 * 1024 * 1024
# How long the event loop may keep threads of ours waiting for the interpreter's lock. That lock is
# not fair: a waiting thread insists after 5 ms, but begins to count anew whenever the loop lets go
# of it, which a busy loop does for an instant with each send. So at full load a commit that needs
# 0.2 ms took 15 ms on average and up to 800 ms; now 2 ms, for 6 % of the loop's time.
PATIENCE_SECONDS = 0.001
# How long closing waits for the last commits, and again for the threads: longer than any commit
# takes, short enough for an impatient operator.
CLOSE_SECONDS = 15.0


class Appender(Protocol):
    """The writing end of a stream, as the database sees it. Called on the Trio thread only."""

    def take(self) -> list[Segment]:
        """What is pending, in order; each segment is in flight until one of the next two."""

    def committed(self, segment: Segment) -> None:
        """The segment is on record: readers may have it."""

    def failed(self, error: StoreError) -> None:
        """The segment is not on record and never will be."""


class Job(Generic[T]):
    """A function run on the writer's connection, in a savepoint of its batch's transaction."""

    def __init__(
        self,
        function: Callable[[Connection], T],
        durable: bool,
        on_commit: Callable[[T], None] | None,
    ) -> None:
        self.function = function
        self.durable = durable
        self.on_commit = on_commit
        self.result: T
        self.error: Exception | None = None
        self.done = trio.Event()

    async def wait(self) -> T:
        """Wait for the commit. Cancelling the wait does not take the job back.

        Raises StoreUnavailableError if the batch could not be committed, or what the function
        raised (then the rest of the batch is committed all the same).
        """
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self.result


class Batch:
    """What goes into one transaction."""

    def __init__(self) -> None:
        self.appenders: dict[Appender, None] = {}  # a set that keeps its order
        self.taken: list[tuple[Appender, Segment]] = []
        self.jobs: list[Job[Any]] = []
        self.refused: set[int] = set()
        self.error: StoreError | None = None


class Database:
    """Use `open_database`. All methods belong to the Trio thread."""

    def __init__(self, path: Path, *, inline: bool) -> None:
        self.path = path
        self._inline = inline
        self._token = trio.lowlevel.current_trio_token()
        self._current = Batch()
        self._wanted = trio.Event()  # set when a batch is to be closed, new for the next one
        self._closer = trio.CancelScope(shield=True)
        self._committing = False  # set while the writer has a batch, cleared on its delivery
        self._closing = False  # set once, by close(): nothing more is taken
        self._patient_since = 0.0  # when threads were given the lock last, or a commit began
        self._pending_bytes = 0
        self._room = trio.Event()
        self._room_wanted = False  # somebody waits for room, cleared when it is made
        self._idle = trio.Event()
        self._telling: trio.Event | None = None  # set and taken away when a commit was told
        self._limiter = trio.CapacityLimiter(READER_THREADS)
        self._readers = sqlite.reader_engine(path, READER_THREADS)
        self._writer = Writer(path)
        self.commits = 0

    # writing

    def mark(self, appender: Appender) -> None:
        """The appender has something pending: it is asked for it when the batch is closed.

        Raises StoreUnavailableError after the end of `open_database`.
        """
        self._check_open()
        self._current.appenders[appender] = None
        if self._committing:
            self._let_threads_run()
        self._schedule()

    def job(
        self,
        function: Callable[[Connection], T],
        *,
        durable: bool = True,
        on_commit: Callable[[T], None] | None = None,
    ) -> Job[T]:
        """Put a function into the current batch.

        Args:
            durable: the commit is fsynced: it acknowledges something to somebody. False for
                bookkeeping that may be lost with the power (never with the process).
            on_commit: called with the result on the Trio thread as soon as it is on record, before
                any waiter runs, also when nobody waits any more. Must not raise.

        Raises StoreUnavailableError after the end of `open_database`.
        """
        self._check_open()
        job = Job(function, durable, on_commit)
        self._current.jobs.append(job)
        self._schedule()
        return job

    async def write(self, function: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run a function in the next commit and wait for it. Raises like Job.wait."""
        return await self.job(function, durable=durable).wait()

    def pending(self, size: int) -> None:
        """An appender holds `size` more bytes (negative: fewer) that no commit has taken."""
        self._pending_bytes += size
        if self._room_wanted and self._pending_bytes < ROOM_BYTES:
            self._room_wanted = False
            room, self._room = self._room, trio.Event()
            room.set()

    async def told(self) -> None:
        """Wait until what a read may have seen has been told to whom it concerns here: the writer's
        commits are seen by other threads before this one hears of them."""
        if self._committing:
            self._telling = self._telling or trio.Event()
            await self._telling.wait()
        else:
            await trio.lowlevel.checkpoint()

    async def room(self) -> None:
        """Wait while too much is waiting for the disk; a commit or its failure makes room."""
        while self._pending_bytes >= ROOM_BYTES:
            self._room_wanted = True
            await self._room.wait()

    # reading

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run a function on a reader's connection, in one read transaction.

        Raises StoreUnavailableError. A cancelled caller waits for the thread: reads are short.
        """
        if self._inline:
            await trio.lowlevel.checkpoint()  # as a thread is one
            return self._read(function)
        return await trio.to_thread.run_sync(self._read, function, limiter=self._limiter)

    def _read(self, function: Callable[[Connection], T]) -> T:
        with translated(), self._readers.connect() as connection, connection.begin():
            return function(connection)

    # the batch

    def _check_open(self) -> None:
        if self._closing:
            raise StoreUnavailableError("The store is closed")

    def _schedule(self) -> None:
        if not self._committing:
            self._wanted.set()

    async def _close_batches(self) -> None:
        """Closes each batch in the tick after the one it was begun in, so that every task that can
        run now gets into it. In a task of its own: a callback to the next tick takes the loop three
        times as long, most of what a lone event waits for here.

        Shielded: what is being cancelled still has its end to put on record. `_close` ends it.
        """
        with self._closer:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                self._close_batch()

    def _close_batch(self) -> None:
        batch, self._current = self._current, Batch()
        for appender in batch.appenders:
            for segment in appender.take():
                batch.taken.append((appender, segment))
        if not batch.taken and not batch.jobs:
            self._settle()
            return
        self._committing = True
        if self._inline:
            self._writer.commit(batch)
            self._delivered(batch)
        else:
            self._patient_since = time.perf_counter()
            self._writer.queue.put((batch, self._deliver))

    def _let_threads_run(self) -> None:
        """Called often by whatever keeps the loop busy: appending."""
        now = time.perf_counter()
        if now - self._patient_since > PATIENCE_SECONDS:
            self._patient_since = now
            time.sleep(1e-6)  # some 60 us: time for a waiting thread to wake up and take the lock

    def _deliver(self, batch: Batch) -> None:
        # On the writer's thread; RunFinishedError only if Trio died without closing us.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._delivered, batch)

    def _delivered(self, batch: Batch) -> None:
        if self._closing:
            return  # closing gave this commit up; nobody is there who could be told
        self._committing = False
        self.commits += 1
        for appender, segment in batch.taken:
            if batch.error is not None:
                appender.failed(batch.error)
            elif segment.stream in batch.refused:
                appender.failed(StreamClosedError("The stream has another owner now"))
            else:
                appender.committed(segment)
        for job in batch.jobs:
            if batch.error is not None:
                job.error = batch.error
            elif job.error is None and job.on_commit is not None:
                job.on_commit(job.result)
            job.done.set()
        if self._telling is not None:
            self._telling.set()
            self._telling = None
        if self._current.appenders or self._current.jobs:
            self._schedule()
        else:
            self._settle()

    def _settle(self) -> None:
        self._idle.set()
        self._idle = trio.Event()

    # closing

    def _start(self) -> None:
        with translated(), self._writer.engine.connect() as connection:
            migrate(connection)
        if not self._inline:
            self._writer.start()

    async def _close(self) -> None:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            while self._wanted.is_set() or self._committing:
                await self._idle.wait()
        self._closing = True
        self._closer.cancel(reason="the database is closed")
        if self._inline:
            self._writer.finish()
        else:
            self._writer.queue.put(None)
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                # Abandoned with a disk that hangs; the thread is a daemon, so the process ends.
                await trio.to_thread.run_sync(self._writer.join, abandon_on_cancel=True)
        self._readers.dispose()


@asynccontextmanager
async def open_database(path: Path, *, inline: bool = False) -> AsyncGenerator[Database, None]:
    """The database at `path`, made or brought forward as needed, for the length of the block.

    On leaving, what was handed over is still committed; then the threads are joined. Both waits are
    shielded, for CLOSE_SECONDS each.

    Raises DatabaseInUseError, DatabaseTooNewError, StoreUnavailableError.
    """
    with translated():
        # What people say here is for this user alone.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = sqlite.FileLock(path)
    try:
        with translated():
            sqlite.create(path)
        database = Database(path, inline=inline)
        database._start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(database._close_batches)
            try:
                yield database
            finally:
                # Bounds itself; the second bound is for readers of this line.
                with trio.move_on_after(3 * CLOSE_SECONDS, shield=True):
                    await database._close()
    finally:
        lock.release()
