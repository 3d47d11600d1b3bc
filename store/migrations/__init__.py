"""The schema's history. A new database is made from schema.py at the latest number; an older one is
brought forward by the numbered changes after its own, each committed together with its ledger row.

To add one: a module `m0003_what.py` with `apply(connection)`, an entry here, the same change in
schema.py. `tests/store/test_migrations.py` proves that both ways give the same database.
"""

import time
from collections.abc import Callable

from sqlalchemy import Connection, func, inspect, select

from store.errors import DatabaseTooNewError
from store.migrations import m0002_files_of_several_threads
from store.schema import metadata, migration

FIRST = 1
CHANGES: list[tuple[int, Callable[[Connection], None]]] = [
    (2, m0002_files_of_several_threads.apply),
]
LATEST = CHANGES[-1][0]


def migrate(connection: Connection) -> None:
    """Create or bring forward the schema. The caller holds the write lock of the database.

    Raises DatabaseTooNewError if a newer version of the program wrote it; nothing is changed then.
    """
    with connection.begin():
        if not inspect(connection).has_table(migration.name):
            metadata.create_all(connection)
            _record(connection, LATEST)
            return
    with connection.begin():
        present = connection.scalar(select(func.max(migration.c.number))) or FIRST
    if present > LATEST:
        raise DatabaseTooNewError(
            f"The database is of schema {present}, this version of Unbroken knows {LATEST}. "
            "Use the newer version, or another data folder."
        )
    for number, apply in CHANGES:
        if number > present:
            with connection.begin():
                apply(connection)
                _record(connection, number)


def _record(connection: Connection, number: int) -> None:
    connection.execute(migration.insert().values(number=number, applied_at=int(time.time() * 1000)))
