"""Fixtures of the store's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from store import sqlite
from store.migrations import migrate


@pytest.fixture
def idle_connection(tmp_path: Path) -> Iterator[Connection]:
    """A connection like the writer's, on a new database, in no transaction."""
    sqlite.create(tmp_path / "unbroken.db")
    engine = sqlite.writer_engine(tmp_path / "unbroken.db")
    with engine.connect() as connection:
        migrate(connection)
        yield connection
    engine.dispose()


@pytest.fixture
def connection(idle_connection: Connection) -> Iterator[Connection]:
    """The same in a transaction, which is committed at the end."""
    with idle_connection.begin():
        yield idle_connection
