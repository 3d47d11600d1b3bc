"""A file may be used by several threads: a table of links takes the place of one owning thread.

With one owner, deleting that thread took the file from all others.
"""

import contextlib
import json

from sqlalchemy import Connection

# SQLite cannot drop a column that is a foreign key, so the table is made anew.
_TABLES = (
    "ALTER TABLE attachment RENAME TO attachment_1",
    """CREATE TABLE attachment (
        id TEXT NOT NULL,
        name TEXT NOT NULL,
        media_type TEXT NOT NULL,
        size BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (id)
    )""",
    "CREATE INDEX attachment_age ON attachment (created_at, id)",
    """CREATE TABLE attachment_use (
        attachment TEXT NOT NULL,
        thread TEXT NOT NULL,
        PRIMARY KEY (attachment, thread),
        FOREIGN KEY(attachment) REFERENCES attachment (id) ON DELETE CASCADE,
        FOREIGN KEY(thread) REFERENCES thread (id) ON DELETE CASCADE
    ) WITHOUT ROWID""",
    "CREATE INDEX attachment_use_thread ON attachment_use (thread)",
)
# One file at a time: a statement on all of them would keep in memory what it must be able to undo,
# and the next one has the room of the last.
_MOVE = (
    """INSERT INTO attachment (id, name, media_type, size, created_at, data)
        SELECT id, name, media_type, size, created_at, data FROM attachment_1 WHERE id = ?""",
    "DELETE FROM attachment_1 WHERE id = ?",
)
# Not of a file that is gone: its first thread was deleted before this change.
_LINK = """INSERT OR IGNORE INTO attachment_use (attachment, thread)
    SELECT id, ? FROM attachment WHERE id = ?"""
_NAMING = """SELECT thread, parts FROM message
    WHERE role = 'user' AND instr(parts, CAST('"attachment"' AS BLOB))"""


def apply(connection: Connection) -> None:
    for statement in _TABLES:
        connection.exec_driver_sql(statement)
    owned = connection.exec_driver_sql("SELECT id, thread FROM attachment_1").all()
    for file, _ in owned:
        for statement in _MOVE:
            connection.exec_driver_sql(statement, (file,))
    connection.exec_driver_sql("DROP TABLE attachment_1")
    links = [(thread, file) for file, thread in owned if thread is not None]
    # The other threads that use a file are known from their messages alone.
    messages = connection.exec_driver_sql(_NAMING)
    links += [(thread, file) for thread, parts in messages for file in _files(parts)]
    if links:
        connection.exec_driver_sql(_LINK, links)


def _files(parts: bytes) -> list[str]:
    """Ids of the files that a message names; of one that cannot be read none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return [part["attachment"] for part in json.loads(parts) if part["type"] == "file"]
    return []
