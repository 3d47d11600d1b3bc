"""Rows that tests of the store need, made with the store's own functions."""

from typing import Any

from sqlalchemy import Connection, inspect, text

from store import messages, streams, threads, turns
from store.messages import MessageRow
from store.segments import Segment

NOW = 1_800_000_000_000


def add_thread(connection: Connection, thread: str = "thread-01", now: int = NOW) -> None:
    if threads.find(connection, thread) is None:
        threads.create(connection, thread, thread, now)


def add_message(
    connection: Connection,
    id_: str,
    parent: str | None = None,
    *,
    thread: str = "thread-01",
    role: str = "user",
) -> str:
    add_thread(connection, thread)
    messages.add(connection, MessageRow(id_, thread, parent, role, b"[]", NOW))
    return id_


def add_turn(
    connection: Connection,
    id_: str = "turn-0001",
    *,
    thread: str = "thread-01",
    position: int = NOW,
    running: bool = False,
    **values: Any,
) -> int:
    """A queued turn with a stream named after it. Returns the turn's number."""
    add_thread(connection, thread)
    row = {
        "id": id_,
        "thread": thread,
        "question": f"question-of-{id_}",
        "key": f"key-of-{id_}",
        "state": "queued",
        "position": position,
        "model": "demo",
        "created_at": NOW,
    }
    number = turns.create(connection, row | values)
    turns.attach(connection, number, streams.create(connection, f"s-{id_}", number, NOW))
    if running:
        turns.start(connection, number, NOW, None)
    return number


def add_stream(connection: Connection, id_: str = "turn-0001", **values: Any) -> int:
    """A running turn. Returns the number of its stream."""
    number = add_turn(connection, id_, running=True, **values)
    return turns.by_number(connection, number).stream


def frames(first: int, last: int, stream: str = "s") -> bytes:
    return b"".join(frame(seq, stream) for seq in range(first, last + 1))


def frame(seq: int, stream: str = "s") -> bytes:
    return b'id: %b:%d\ndata: {"n":%d}\n\n' % (stream.encode(), seq, seq)


def segment(stream: int, first: int, last: int) -> Segment:
    return Segment(stream, last, last - first + 1, frames(first, last))


def row_counts(connection: Connection) -> dict[str, int]:
    """Rows of each table that has any."""
    found = {}
    for table in inspect(connection).get_table_names():
        count = connection.scalar(text(f'SELECT count(*) FROM "{table}"'))
        if count:
            found[table] = count
    return found
