"""The schema's history: a database that was brought forward is like one that was made today."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from store import migrations, sqlite
from store.migrations import FIRST, LATEST, migrate

# A dump of the first schema, never changed once a version of the program was released with it.
FIRST_SCHEMA = Path(__file__).with_name("schema_1.sql")
ADVICE = (
    "schema.py changed: write a migration (store/migrations). Before the first release instead: "
    "`.venv/bin/python -m tests.store.test_migrations` writes schema_1.sql anew."
)


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
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(FIRST_SCHEMA.read_text("utf-8"))
        connection.execute("INSERT INTO migration VALUES (?, 0)", [FIRST])
        connection.commit()
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


def _freeze() -> None:
    path = FIRST_SCHEMA.with_suffix(".db")
    try:
        bring_forward(path)
        with closing(sqlite3.connect(path)) as connection:
            # The tables below a virtual one make themselves.
            query = (
                "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
                " AND name NOT LIKE 'message_text\\_%' ESCAPE '\\'"
            )
            statements = [sql for (sql,) in connection.execute(query)]
        lines = (line.rstrip() for sql in statements for line in f"{sql.strip()};".splitlines())
        FIRST_SCHEMA.write_text("\n".join(lines) + "\n", "utf-8")
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    _freeze()
