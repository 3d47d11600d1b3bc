"""What is particular to SQLite: engines, PRAGMAs, the lock on the file, checkpoints.

Connections never create the file, and those to one that was deleted or replaced since are noticed:
SQLite would go on writing into a file that has no name any more, and nobody would find it again.
"""

import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, PoolProxiedConnection, QueuePool

from store.errors import DatabaseInUseError

BUSY_TIMEOUT_MS = 5_000

# What a checkpoint on a plain connection can raise.
CheckpointError = sqlite3.Error


def create(path: Path) -> None:
    """Make an empty database where there is none, for this user alone, whoever may enter its
    folder: what people say is in it. SQLite gives the files beside it the same mode."""
    path.touch(mode=0o600, exist_ok=True)


def identity(path: Path) -> tuple[int, int]:
    """Which file this is, whatever its name. Raises OSError for none."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def writer_engine(path: Path) -> Engine:
    """One connection, for the writer thread alone. Transactions take the write lock at BEGIN.

    Without a `begin` listener SQLAlchemy would run in autocommit on this driver: every row of an
    executemany its own transaction. `wal_autocheckpoint` is off: checkpoints are the writer's
    and the checkpointer's business (writer.py).
    """
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: _connect(path),
        poolclass=NullPool,
        hide_parameters=True,  # ids and texts stay out of errors, and so out of logs (A3)
    )
    _listen(engine, "BEGIN IMMEDIATE", ["PRAGMA wal_autocheckpoint=0", "PRAGMA synchronous=NORMAL"])
    return engine


def reader_engine(path: Path, threads: int) -> Engine:
    """A small pool of connections that cannot write."""
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: _connect(path),
        poolclass=QueuePool,
        pool_size=threads,
        max_overflow=0,
        hide_parameters=True,
    )
    _listen(engine, "BEGIN", ["PRAGMA query_only=ON"])

    @event.listens_for(engine, "checkout")
    def checkout(
        _connection: sqlite3.Connection, record: ConnectionPoolEntry, _proxy: PoolProxiedConnection
    ) -> None:
        if record.info.setdefault("file", identity(path)) != identity(path):
            raise DisconnectionError  # the pool makes a new connection instead

    return engine


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _listen(engine: Engine, begin: str, pragmas: list[str]) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        for pragma in (
            f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
            "PRAGMA journal_mode=WAL",
            "PRAGMA foreign_keys=ON",
            # Savepoints have journals of their own, by default in files in a temporary folder:
            # without one that can be written to, every commit would fail.
            "PRAGMA temp_store=MEMORY",
            *pragmas,
        ):
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)


def checkpoint(path: Path) -> None:
    """Move the write-ahead log into the database, PASSIVE: it never makes the writer wait.

    On a connection of its own for each time: so it is always that of the file which is there.
    Raises CheckpointError.
    """
    with closing(_connect(path)) as connection:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def wal_bytes(path: Path) -> int:
    """Size of the write-ahead log; 0 where there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


class FileLock:
    """One process per database, for life: a lock on a file beside it, freed by the kernel.

    Raises DatabaseInUseError, with the holder's process id, if another process has it.
    """

    def __init__(self, path: Path) -> None:
        self._file: Any = open(f"{path}.lock", "a+", encoding="ascii")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip()
            self._file.close()
            who = f"process {holder}" if holder else "another process"
            raise DatabaseInUseError(
                f"{path} is in use by {who}. One server runs per data folder: "
                "stop the other one, or choose another folder with --data."
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Idempotent."""
        self._file.close()
