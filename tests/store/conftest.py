"""Fixtures of the store's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from store import sqlite
from store.migrations import migrate


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A connection like the writer's, on a new database, in a transaction."""
    sqlite.create(tmp_path / "unbroken.db")
    engine = sqlite.writer_engine(tmp_path / "unbroken.db")
    with engine.connect() as connection:
        migrate(connection)
        with connection.begin():
            yield connection
    engine.dispose()
