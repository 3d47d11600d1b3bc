"""The writer thread: one connection, one transaction per batch, and when to checkpoint."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from store import segments, sqlite
from store.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from store.database import Batch, Job

# The writer checkpoints by itself when nothing came for so long ...
IDLE_CHECKPOINT_SECONDS = 1.0
# ... or when readers keep the checkpointer from ever resetting the log.
WAL_LIMIT_BYTES = 64 * 1024 * 1024
WAL_CHECK_COMMITS = 256


class Writer:
    """The one thread that writes. It knows nothing of Trio but the callback it is given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine: Engine = sqlite.writer_engine(path)
        self.queue: queue.SimpleQueue[tuple[Batch, Callable[[Batch], None]] | None]
        self.queue = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None  # what the connection has open
        self._synchronous = "NORMAL"  # as the connection has it now; each new one starts so
        self._commits = 0
        self._checkpointed = 0  # value of _commits at the last checkpoint
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="unbroken-writer", daemon=True),
            threading.Thread(
                target=self._checkpoint_loop, name="unbroken-checkpoints", daemon=True
            ),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            try:
                item = self.queue.get(timeout=IDLE_CHECKPOINT_SECONDS)
            except queue.Empty:
                self._checkpoint()
                continue
            if item is None:
                break
            batch, deliver = item
            self.commit(batch)
            deliver(batch)
            if self._commits % WAL_CHECK_COMMITS == 0 and (
                sqlite.wal_bytes(self.path) > WAL_LIMIT_BYTES
            ):
                self._checkpoint()
        self._stop.set()
        self.finish()

    def commit(self, batch: "Batch") -> None:
        """One transaction. Sets what happened on the batch and its jobs; raises nothing."""
        try:
            with translated():
                self._commit(batch)
        except StoreError as error:
            batch.error = error
        except Exception as error:  # noqa: BLE001 - told to the batch; the writer has to live on
            batch.error = StoreUnavailableError(f"{type(error).__name__}: {error}")
            batch.error.__cause__ = error
        if batch.error is not None:
            self._disconnect()
        self._commits += 1

    def _commit(self, batch: "Batch") -> None:
        connection = self._connect()
        synchronous = "FULL" if any(job.durable for job in batch.jobs) else "NORMAL"
        if synchronous != self._synchronous:
            # Not possible inside a transaction (sqlite.org/pragma.html#pragma_synchronous).
            cursor = connection.connection.cursor()
            cursor.execute(f"PRAGMA synchronous={synchronous}")
            cursor.close()
            self._synchronous = synchronous
        taken = [segment for _, segment in batch.taken]
        if not batch.jobs:
            batch.refused = segments.append_alone(connection, taken)
            return
        with connection.begin():
            batch.refused = segments.append(connection, taken)
            for job in batch.jobs:
                self._run_job(connection, job)

    def _run_job(self, connection: Connection, job: "Job[Any]") -> None:
        try:
            with connection.begin_nested():
                job.result = job.function(connection)
        except IntegrityError as error:
            job.error = StoreError(str(error.orig))
        except DBAPIError:
            raise  # the disk or the file: the transaction as a whole cannot be trusted
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the job
            job.error = error

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self.engine.connect()
            self._synchronous = "NORMAL"
            self._file = sqlite.identity(self.path)
        if self._file != sqlite.identity(self.path):
            raise StoreUnavailableError(f"{self.path} is another file than the one that was opened")
        return self._connection

    def _disconnect(self) -> None:
        """After a failure: the next batch starts with a fresh connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.invalidate()
                connection.close()

    # checkpoints

    def _checkpoint(self) -> None:
        if self._connection is None or self._checkpointed == self._commits:
            return
        self._checkpointed = self._commits
        with contextlib.suppress(DBAPIError):
            self._connection.connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _checkpoint_loop(self) -> None:
        """Keeps the log short while the writer is busy; another connection, so it never waits."""
        seen = 0
        while not self._stop.wait(1.0):
            if self._commits != seen:
                seen = self._commits
                with contextlib.suppress(sqlite.CheckpointError):
                    sqlite.checkpoint(self.path)

    def finish(self) -> None:
        """Fold the log into the database and let go of the file."""
        if self._connection is not None:
            with contextlib.suppress(DBAPIError, sqlite.CheckpointError):
                self._connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._disconnect()
        self.engine.dispose()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Foreign errors become ours at this seam."""
    try:
        yield
    except (DBAPIError, sqlite.CheckpointError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        raise StoreUnavailableError(str(cause)) from error
