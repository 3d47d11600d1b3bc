"""Full text: every message's words, found anywhere in a word, without case and accents.

SQLite's trigram index over text that was made plain by `plain`; so the same version of SQLite that
comes with any supported Python finds the same things. A deleted message is not found any more, and
its words are taken out later.
"""

import time
from typing import NamedTuple

from sqlalchemy import Connection, text

from store.plain import plain

# The index knows sequences of three characters; shorter words are looked for in what it found.
TRIGRAM = 3


class Hit(NamedTuple):
    """A message that has all the words. `parts`: JSON, as stored."""

    thread: str
    title: str
    message: str
    role: str
    created_at: int
    parts: bytes


def put(connection: Connection, message: str, words: str) -> None:
    """The message, by its id, has this text now. Replaces what it had."""
    number = text("(SELECT number FROM message WHERE id = :id)")
    row = {"id": message, "words": plain(words)}
    connection.execute(text(f"DELETE FROM message_text WHERE rowid = {number}"), row)
    connection.execute(
        text(f"INSERT INTO message_text (rowid, text) VALUES ({number}, :words)"), row
    )


def next_number(connection: Connection) -> int:
    """For a new message: one that neither a message nor words left over from one have."""
    query = (
        "SELECT 1 + max(coalesce((SELECT max(number) FROM message), 0),"
        " coalesce((SELECT max(id) FROM message_text_docsize), 0))"
    )
    return int(connection.execute(text(query)).scalar_one())


def left_over(connection: Connection, limit: int) -> list[int]:
    """Numbers of deleted messages whose words are still in the index; nothing finds them there.

    Taking the words of 1 MB out takes 0.13 s, as putting them in does: too long for a thread of
    many to be deleted in one transaction, in which nobody's answer gets on record.
    """
    # The index' own table with the lengths of texts: that with the texts is much larger.
    query = (
        "SELECT id FROM message_text_docsize"
        " WHERE id NOT IN (SELECT number FROM message) ORDER BY id LIMIT :limit"
    )
    return list(connection.scalars(text(query), {"limit": limit}))


def forget(connection: Connection, numbers: list[int], seconds: float) -> list[int]:
    """Take out the words of deleted messages, one at least, until so much time is over.

    Returns the numbers that are left.
    """
    until = time.monotonic() + seconds
    query = (
        "DELETE FROM message_text WHERE rowid = :number"
        " AND NOT EXISTS (SELECT 1 FROM message WHERE number = :number)"
    )
    for done, number in enumerate(numbers, start=1):
        connection.execute(text(query), {"number": number})
        if time.monotonic() >= until:
            return numbers[done:]
    return []


def find(connection: Connection, words: list[str], limit: int) -> list[Hit]:
    """Messages that have every one of the words, newest first."""
    wanted = [plain(word) for word in words]
    long = [word for word in wanted if len(word) >= TRIGRAM]
    conditions = [f"f.text LIKE :w{n} ESCAPE '\\'" for n in range(len(wanted))]
    values: dict[str, object] = {f"w{n}": f"%{_like(word)}%" for n, word in enumerate(wanted)}
    if long:
        conditions.insert(0, "f.message_text MATCH :match")
        values["match"] = " AND ".join('"' + word.replace('"', '""') + '"' for word in long)
    query = (
        "SELECT m.thread, t.title, m.id, m.role, m.created_at, m.parts FROM message_text f"
        " JOIN message m ON m.number = f.rowid JOIN thread t ON t.id = m.thread"
        f" WHERE {' AND '.join(conditions)} ORDER BY m.number DESC LIMIT :limit"
    )
    rows = connection.execute(text(query), values | {"limit": limit})
    return [Hit._make(row) for row in rows]


def _like(word: str) -> str:
    for char in ("\\", "%", "_"):
        word = word.replace(char, f"\\{char}")
    return word
