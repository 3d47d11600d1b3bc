"""Streams: who may still append to which log, and what became of it."""

from typing import NamedTuple

from sqlalchemy import Connection, func, select, update

from store.errors import StreamClosedError
from store.schema import stream, turn


class StreamRow(NamedTuple):
    """`ended_at` None: its writer may append. `successor`: number of the stream after it."""

    number: int
    id: str
    turn: int
    ended_at: int | None
    successor: int | None
    pruned: int
    checkpoint: bytes | None


_COLUMNS = (
    stream.c.number,
    stream.c.id,
    stream.c.turn,
    stream.c.ended_at,
    stream.c.successor,
    stream.c.pruned,
    stream.c.checkpoint,
)


def create(
    connection: Connection, id_: str, turn_number: int, now: int, checkpoint: bytes | None = None
) -> int:
    """A new, empty stream. Returns its number. `checkpoint`: its predecessor's."""
    row = {
        "id": id_,
        "turn": turn_number,
        "created_at": now,
        "pruned": 0,
        "checkpoint": checkpoint,
    }
    made = connection.execute(stream.insert().values(row).returning(stream.c.number))
    return int(made.scalar_one())


def find(connection: Connection, id_: str) -> StreamRow | None:
    row = connection.execute(select(*_COLUMNS).where(stream.c.id == id_)).first()
    return None if row is None else StreamRow._make(row)


def get(connection: Connection, number: int) -> StreamRow:
    """Raises LookupError for a number that does not exist."""
    row = connection.execute(select(*_COLUMNS).where(stream.c.number == number)).first()
    if row is None:
        raise LookupError(f"stream {number}")
    return StreamRow._make(row)


def close(connection: Connection, number: int, now: int, successor: int | None = None) -> None:
    """End the stream (no successor) or seal it: from here it takes no more segments.

    Raises StreamClosedError if it was closed before: whoever comes second has lost it.
    """
    changed = connection.execute(
        update(stream)
        .where(stream.c.number == number, stream.c.ended_at.is_(None))
        .values(ended_at=now, successor=successor)
    )
    if changed.rowcount != 1:
        raise StreamClosedError(f"stream {number} is closed")


def count(connection: Connection, turn_number: int) -> int:
    """How many streams the turn has had."""
    query = select(func.count()).select_from(stream).where(stream.c.turn == turn_number)
    return connection.scalar(query) or 0


def expired(connection: Connection, before: int, limit: int) -> list[int]:
    """Numbers of streams whose turn ended before that time and whose segments are still kept."""
    query = (
        select(stream.c.number)
        .join(turn, turn.c.number == stream.c.turn)
        .where(stream.c.ended_at.is_not(None), stream.c.pruned == 0, turn.c.ended_at < before)
        .limit(limit)
    )
    return list(connection.scalars(query))


def mark_pruned(connection: Connection, numbers: list[int]) -> None:
    connection.execute(update(stream).where(stream.c.number.in_(numbers)).values(pruned=1))
