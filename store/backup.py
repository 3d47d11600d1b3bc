"""A copy of a database, also of one that a server is using."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from store.errors import StoreError, StoreUnavailableError

SQLITE_VERSION = sqlite3.sqlite_version
BUSY_SECONDS = 30.0


class BackupExistsError(StoreError):
    """The file for the copy is there already."""


def back_up(database: Path, copy: Path) -> int:
    """Write all that is committed now to `copy`, which appears whole or not at all.

    It needs no lock: the server goes on writing (SQLite's backup API, one read transaction).

    Returns:
        The size of the copy in bytes.

    Raises:
        BackupExistsError: there is a file of that name.
        StoreUnavailableError: the database is not there or cannot be read, or the copy cannot be
            written.
    """
    if not database.is_file():
        raise StoreUnavailableError(f"There is no database at {database}")
    if copy.exists():
        raise BackupExistsError(f"{copy} exists already")
    unfinished = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        try:
            _copy(database, unfinished)
            _sync(unfinished)
            unfinished.rename(copy)
            _sync(copy.parent)
        finally:
            unfinished.unlink(missing_ok=True)
        return copy.stat().st_size
    except (OSError, sqlite3.Error) as error:
        # Of an OSError its reason alone: it would name the unfinished file, which nobody knows.
        reason = getattr(error, "strerror", None) or error
        raise StoreUnavailableError(f"{database} cannot be copied to {copy}: {reason}") from error


def _copy(database: Path, copy: Path) -> None:
    source = sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True)
    with closing(source):
        source.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
        source.execute("PRAGMA query_only=ON")
        # Made by us, so that nobody else can read it at any time.
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            # One file to carry away, without a write-ahead log beside it; the server turns it on.
            target.execute("PRAGMA journal_mode=DELETE")
            (verdict,) = target.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
