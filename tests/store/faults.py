"""A disk that is full, a database that is gone, one that somebody else keeps locked."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from store import sqlite

# The log must be longer than anything else this process writes to a file meanwhile.
LOG_BYTES = 256 * 1024


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """No file of this process can grow beyond the present end of the database's log.

    `with` begins when the log has LOG_BYTES: fill it before, or nothing would fail.
    """
    size = sqlite.wal_bytes(path)
    assert size >= LOG_BYTES, f"the log has {size} bytes"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Somebody reads: so the log cannot begin again at its start, where there would be room.
    with closing(sqlite3.connect(path)) as reader, closing(reader.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT count(*) FROM thread").fetchall()
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def gone(path: Path) -> Iterator[None]:
    """The folder of the database is somewhere else, as if it were not mounted."""
    away = path.parent.with_name("away")
    path.parent.rename(away)
    try:
        yield
    finally:
        away.rename(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody writes to it with a program of their own."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
