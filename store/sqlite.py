"""What is particular to SQLite: engines, PRAGMAs, the lock on the file, checkpoints."""

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool

from store.errors import DatabaseInUseError

BUSY_TIMEOUT_MS = 5_000

# What a checkpoint on a plain connection can raise.
CheckpointError = sqlite3.Error


def writer_engine(path: Path) -> Engine:
    """One connection, for the writer thread alone. Transactions take the write lock at BEGIN.

    Without a `begin` listener SQLAlchemy would run in autocommit on this driver: every row of an
    executemany its own transaction. `wal_autocheckpoint` is off: checkpoints are the writer's
    and the checkpointer's business (database.py).
    """
    engine = create_engine(f"sqlite+pysqlite:///{path}", poolclass=NullPool)
    _listen(engine, "BEGIN IMMEDIATE", ["PRAGMA wal_autocheckpoint=0", "PRAGMA synchronous=NORMAL"])
    return engine


def reader_engine(path: Path, threads: int) -> Engine:
    """A small pool of connections that cannot write."""
    engine = create_engine(
        f"sqlite+pysqlite:///{path}",
        poolclass=QueuePool,
        pool_size=threads,
        max_overflow=0,
        connect_args={"check_same_thread": False},
    )
    _listen(engine, "BEGIN", ["PRAGMA query_only=ON"])
    return engine


def _listen(engine: Engine, begin: str, pragmas: list[str]) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        for pragma in (
            f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
            "PRAGMA journal_mode=WAL",
            "PRAGMA foreign_keys=ON",
            *pragmas,
        ):
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)


class Checkpointer:
    """Moves the write-ahead log into the database, PASSIVE: it never makes the writer wait."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")

    def passive(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        self._connection.close()


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
