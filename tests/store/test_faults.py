"""The disk fails, the database is gone, another process has it, a newer program wrote it."""
# ruff: noqa: ASYNC220, ASYNC240 - nothing runs beside these tests that could be held up

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from sqlalchemy import Connection

from store import segments, sqlite
from store.database import Database, open_database
from store.errors import DatabaseInUseError, DatabaseTooNewError, StoreUnavailableError
from store.migrations import LATEST
from tests.store.faults import LOG_BYTES, full_disk, gone, locked
from tests.store.log import Log
from tests.store.rows import NOW, add_stream, add_thread, frames

both = pytest.mark.parametrize("inline", [True, False], ids=["inline", "thread"])
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "unbroken.db"


# the disk


@pytest.mark.requirement("L9")
@both
@pytest.mark.parametrize("fault", [full_disk, gone, locked])
async def test_store_works_again_as_soon_as_its_disk_does(
    path: Path,
    inline: bool,
    fault: Callable[[Path], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is acknowledged while it does not, and nothing that was is lost."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 20)
    async with open_filled(path, inline=inline) as (database, log):
        before = log.durable
        with fault(path):
            for _ in range(3):
                log.put()
                with pytest.raises(StoreUnavailableError):
                    await database.write(lambda c: add_thread(c, "thread-lost", NOW))
        assert log.durable == before
        assert len(log.errors) == 3

        log.put(2)
        await database.write(lambda c: add_thread(c, "thread-kept", NOW))
        assert log.durable == before + 2
        assert await database.read(lambda c: stored(c, log.stream)) == frames(1, before + 2)
    with closing(sqlite3.connect(path)) as other:
        found = other.execute("SELECT id FROM thread WHERE id LIKE 'thread-k%'").fetchall()
        assert found == [("thread-kept",)]
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.requirement("L9")
@both
async def test_database_that_was_deleted_is_noticed_and_not_made_anew(
    path: Path, inline: bool
) -> None:
    """An open file that has no name any more would take every write and keep none of them."""
    async with open_filled(path, inline=inline) as (database, log):
        for name in ("unbroken.db", "unbroken.db-wal", "unbroken.db-shm"):
            path.with_name(name).unlink()
        for _ in range(2):
            log.put()
            with pytest.raises(StoreUnavailableError):
                await database.write(lambda _: None)
        assert len(log.errors) == 2
        assert not path.exists()


@pytest.mark.requirement("L9")
@both
async def test_database_that_was_put_back_from_a_copy_is_read_and_written(
    path: Path, inline: bool, tmp_path: Path
) -> None:
    async with open_database(path, inline=inline) as database:
        await database.write(lambda c: add_thread(c, "thread-a", NOW))
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    async with open_database(path, inline=inline) as database:
        assert await database.read(thread_count) == 1
        await database.write(lambda c: add_thread(c, "thread-after-the-copy", NOW))
        for name in ("unbroken.db", "unbroken.db-wal", "unbroken.db-shm"):
            path.with_name(name).unlink()
        path.write_bytes(copy.read_bytes())
        with pytest.raises(StoreUnavailableError):  # what it had open is not this file
            await database.write(lambda _: None)
        assert await database.read(thread_count) == 1
        await database.write(lambda c: add_thread(c, "thread-b", NOW))
        assert await database.read(thread_count) == 2


# one process per database


async def test_second_process_is_refused_and_told_who_has_it(path: Path) -> None:
    async with open_database(path, inline=True) as database:
        await database.write(lambda c: add_thread(c, "thread-a", NOW))
        done = await trio.to_thread.run_sync(run_opener, path)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("store.errors.DatabaseInUseError")
        assert f"process {os.getpid()}" in done.stderr
        assert "--data" in done.stderr, "what to do about it"
        await database.write(lambda c: add_thread(c, "thread-b", NOW))
    done = await trio.to_thread.run_sync(run_opener, path)
    assert (done.returncode, done.stderr) == (0, "")


async def test_second_opening_in_the_same_process_is_refused(path: Path) -> None:
    async with open_database(path, inline=True):
        with pytest.raises(DatabaseInUseError):
            async with open_database(path, inline=True):
                pass


@pytest.mark.requirement("R1")
async def test_killed_process_frees_its_database(path: Path) -> None:
    process = subprocess.Popen(
        opener(path, "print('open', flush=True); await trio.sleep_forever()"),
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    with process.stdout:
        assert await trio.to_thread.run_sync(process.stdout.readline) == b"open\n"
        with pytest.raises(DatabaseInUseError, match=f"process {process.pid}"):
            async with open_database(path, inline=True):
                pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    async with open_database(path, inline=True) as database:
        assert await database.read(thread_count) == 0


# what cannot be opened


async def test_newer_database_is_refused_and_nothing_of_it_is_changed(path: Path) -> None:
    async with open_database(path, inline=True) as database:
        await database.write(lambda c: add_thread(c, "thread-a", NOW))
    with closing(sqlite3.connect(path)) as other:
        other.execute("INSERT INTO migration VALUES (?, 0)", [LATEST + 1])
        other.execute("DROP TABLE segment")  # whatever a newer version thought right
        other.commit()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(DatabaseTooNewError, match=str(LATEST + 1)):
            async with open_database(path, inline=True):
                pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", ["folder", "text"])
async def test_what_is_no_database_is_refused_and_not_changed(path: Path, what: str) -> None:
    path.parent.mkdir()
    if what == "folder":
        path.mkdir()
    else:
        path.write_text("Dear diary, " * 100)
    with pytest.raises(StoreUnavailableError):
        async with open_database(path, inline=True):
            pass
    if what == "text":
        assert path.read_text() == "Dear diary, " * 100


async def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StoreUnavailableError):
        async with open_database(tmp_path / "data" / "unbroken.db", inline=True):
            pass


# shorthands


@asynccontextmanager
async def open_filled(path: Path, *, inline: bool) -> AsyncIterator[tuple[Database, Log]]:
    """A database with a stream whose events make the log of the database long."""
    async with open_database(path, inline=inline) as database:
        log = Log(database, await database.write(lambda c: add_stream(c)))
        while sqlite.wal_bytes(path) < LOG_BYTES:
            log.put(2_000)
            await database.write(lambda _: None)
        yield database, log


def stored(connection: Connection, stream: int) -> bytes:
    return b"".join(s.frames for s in segments.read_after(connection, stream, 0))


def thread_count(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT count(*) FROM thread").scalar_one())


def opener(path: Path, action: str) -> list[str]:
    program = f"""
import trio
from pathlib import Path
from store.database import open_database

async def main():
    async with open_database(Path({str(path)!r})):
        {action}

trio.run(main, strict_exception_groups=True)
"""
    return [sys.executable, "-c", program]


def run_opener(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        opener(path, "pass"), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
