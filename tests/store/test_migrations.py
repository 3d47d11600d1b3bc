"""The schema's history: a database that was brought forward is like one that was made today."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from store import attachments, migrations, sqlite, threads
from store.migrations import FIRST, LATEST, migrate

# A dump of the first schema. Never changed: databases of it exist.
FIRST_SCHEMA = Path(__file__).with_name("schema_1.sql")
ADVICE = "schema.py changed: write a migration (store/migrations)."


def test_new_database_is_at_the_latest_number(tmp_path: Path) -> None:
    path = tmp_path / "unbroken.db"
    bring_forward(path)
    assert ledger(path) == [LATEST]
    before = shape(path)
    bring_forward(path)
    assert ledger(path) == [LATEST]
    assert shape(path) == before


def test_migrated_database_is_like_a_new_one(tmp_path: Path) -> None:
    """Fails for a change of schema.py without a migration of the same meaning."""
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    bring_forward(new)
    make_first(old)
    bring_forward(old)
    assert ledger(old) == [FIRST, *(number for number, _ in migrations.CHANGES)]
    assert shape(old) == shape(new), ADVICE


def test_numbers_of_changes_follow_each_other() -> None:
    numbers = [FIRST, *(number for number, _ in migrations.CHANGES)]
    assert numbers == list(range(FIRST, LATEST + 1))


def test_each_change_is_committed_with_its_ledger_row_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "unbroken.db"
    bring_forward(path)
    applied: list[int] = []

    def change(number: int) -> Callable[[Connection], None]:
        def apply(connection: Connection) -> None:
            applied.append(number)
            connection.execute(text(f"CREATE TABLE made_by_{number} (x)"))
            if number == broken:
                raise OSError("the power fails")

        return apply

    following = [LATEST + 1, LATEST + 2, LATEST + 3]
    monkeypatch.setattr(migrations, "CHANGES", [(n, change(n)) for n in following])
    monkeypatch.setattr(migrations, "LATEST", following[-1])
    broken = following[1]
    with pytest.raises(OSError, match="power"):
        bring_forward(path)
    assert ledger(path) == [LATEST, following[0]]
    assert f"made_by_{following[0]}" in shape(path)
    assert f"made_by_{following[1]}" not in shape(path), "half a change must not be left"

    broken = 0
    bring_forward(path)
    assert ledger(path) == [LATEST, *following]
    assert applied == [following[0], following[1], following[1], following[2]]


def test_files_are_kept_by_all_threads_that_use_them(tmp_path: Path) -> None:
    """Schema 1 had one thread own a file; who else uses it, only the messages say."""
    path = tmp_path / "old.db"
    make_first(path)
    fill_first(path)
    before = contents(path)
    bring_forward(path)
    assert contents(path) == before
    assert rows(path, "SELECT attachment, thread FROM attachment_use ORDER BY 1, 2") == [
        ("file-a", "thread-1"),
        ("file-a", "thread-2"),
        ("file-b", "thread-2"),
        ("file-c", "thread-3"),
    ]
    kept = {
        "thread-1": ["file-a", "file-b", "file-c", "unsent"],
        "thread-2": ["file-c", "unsent"],
        "thread-3": ["unsent"],
    }
    for thread, left in kept.items():
        in_transaction(path, lambda c, thread=thread: threads.remove(c, thread))
        assert [id_ for id_, *_ in contents(path)] == left
    in_transaction(path, lambda c: attachments.prune(c, 50))
    assert len(contents(path)) == 1
    in_transaction(path, lambda c: attachments.prune(c, 51))
    assert contents(path) == []


def test_files_outlive_a_migration_that_breaks_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    make_first(path)
    fill_first(path)
    before, old_shape = contents(path), shape(path)
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "_record", broken_off)
        with pytest.raises(OSError, match="power"):
            bring_forward(path)
    assert (contents(path), shape(path), ledger(path)) == (before, old_shape, [FIRST])
    bring_forward(path)
    assert contents(path) == before


def broken_off(_connection: Connection, _number: int) -> None:
    raise OSError("the power fails")


def make_first(path: Path) -> None:
    """An empty database of the first schema."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_SCHEMA.read_text("utf-8"))
        connection.execute("INSERT INTO migration VALUES (?, 0)", [FIRST])
        connection.commit()


def fill_first(path: Path) -> None:
    """Three threads with files, of which the first two have one in common."""
    named: dict[str, list[str]] = {
        "thread-1": ["file-a"],
        "thread-2": ["file-a", "file-a", "file-b", "file-gone"],
        "thread-3": [],  # it owns one by the column alone
    }
    owned = [("file-a", "thread-1"), ("file-b", "thread-2"), ("file-c", "thread-3")]
    files = [(id_, owner, id_.encode() * 5_000) for id_, owner in [*owned, ("unsent", None)]]
    with closing(sqlite3.connect(path)) as connection:
        add = "INSERT INTO thread VALUES (?, '', NULL, 0, 0, 0, 0, NULL, NULL)"
        connection.executemany(add, [(thread,) for thread in named])
        add = "INSERT INTO attachment VALUES (?, ?, 'a.txt', 'text/plain', 5, ?, 50)"
        connection.executemany(add, files)
        add = "INSERT INTO message VALUES (NULL, ?, ?, NULL, ?, ?, 0)"
        # A text that only looks like a file, and an answer, name none.
        text_part = {"type": "text", "text": '{"attachment": "unsent"}'}
        answer = [{"type": "file", "attachment": "unsent"}]
        for thread, ids in named.items():
            question = [text_part, *({"type": "file", "attachment": id_} for id_ in ids)]
            for role, parts in (("user", question), ("assistant", answer)):
                data = json.dumps(parts, separators=(",", ":")).encode()
                connection.execute(add, [f"{role}-{thread}", thread, role, data])
        unreadable = ["unreadable", "thread-1", "user", b'[{"attachment"']
        connection.execute(add, unreadable)
        connection.commit()


def contents(path: Path) -> list[tuple[Any, ...]]:
    columns = "id, name, media_type, size, data, created_at"
    return rows(path, f"SELECT {columns} FROM attachment ORDER BY id")


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def in_transaction(path: Path, function: Callable[[Connection], Any]) -> None:
    engine = sqlite.writer_engine(path)
    with engine.begin() as connection:
        function(connection)
    engine.dispose()


def bring_forward(path: Path) -> None:
    sqlite.create(path)
    engine = sqlite.writer_engine(path)
    try:
        with engine.connect() as connection:
            migrate(connection)
    finally:
        engine.dispose()


def ledger(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT number FROM migration ORDER BY number").fetchall()
    return [number for (number,) in found]


def shape(path: Path) -> dict[str, Any]:
    """What a schema means, whatever the order and the words it was made with."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
        found: dict[str, Any] = {}
        for kind, name, table, sql in connection.execute(query).fetchall():
            words = " ".join(sql.split())
            if kind == "table" and not words.startswith("CREATE VIRTUAL"):
                found[name] = _table(connection, name, words)
            else:
                found[f"{kind} {name} of {table}"] = words
        return found


def _table(connection: sqlite3.Connection, name: str, words: str) -> dict[str, Any]:
    def rows(pragma: str, first: int) -> list[str]:
        return sorted(json.dumps(row[first:]) for row in connection.execute(pragma))

    return {
        "columns": rows(f"PRAGMA table_info('{name}')", 1),
        "references": rows(f"PRAGMA foreign_key_list('{name}')", 2),
        "uniques": sorted(
            json.dumps([column for _, _, column in connection.execute(f"PRAGMA index_info('{i}')")])
            for _, i, unique, *_ in connection.execute(f"PRAGMA index_list('{name}')").fetchall()
            if unique
        ),
        "never uses a number again": "AUTOINCREMENT" in words,
    }
