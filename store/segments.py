"""The log on disk: append the segments of a commit, read after a cursor, prune."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select

from store.schema import segment, stream


class Segment(NamedTuple):
    """Events `last_seq - events + 1` … `last_seq` of stream number `stream`, as SSE frames.

    `checkpoint`: what the provider's response can be resumed with after them; None: as before.
    """

    stream: int
    last_seq: int
    events: int
    frames: bytes
    checkpoint: bytes | None = None


# The one hot statement, at driver level: SQLAlchemy's own insert costs 50-80 % more. It takes all
# rows of a commit, so that the interpreter's lock is given up and won back once, not once for each
# row. A sealed or ended stream takes no row: whoever lost it cannot write, whatever it believes
# (R3).
_INSERT = """
INSERT INTO segment (stream, last_seq, events, frames)
SELECT column1, column2, column3, column4
FROM (VALUES {}) CROSS JOIN stream ON number = column1 WHERE ended_at IS NULL
"""
# What one statement takes: a power of two, far below SQLite's limit of 32 766 parameters.
_ROWS = 2048

_MARK = "UPDATE stream SET checkpoint = ? WHERE number = ? AND ended_at IS NULL"

_READ = (
    select(segment.c.stream, segment.c.last_seq, segment.c.events, segment.c.frames)
    .where(segment.c.stream == bindparam("stream_number"))
    .where(segment.c.last_seq > bindparam("after"))
    .order_by(segment.c.last_seq)
)

# Rows fetched at once; a row holds one commit of a stream.
_FETCH = 64


def append(connection: Connection, segments: Sequence[Segment]) -> set[int]:
    """Insert the segments of one commit. Returns the numbers of streams that refused theirs."""
    taken = 0
    for first in range(0, len(segments), _ROWS):
        statement, values = _insertion(segments[first : first + _ROWS])
        taken += connection.exec_driver_sql(statement, tuple(values)).rowcount
    if marks := [(s.checkpoint, s.stream) for s in segments if s.checkpoint is not None]:
        connection.exec_driver_sql(_MARK, marks)
    return _refused(connection, segments, taken)


def append_alone(connection: Connection, segments: Sequence[Segment]) -> set[int]:
    """As `append`, on a connection that is in no transaction: this is the whole commit.

    A statement outside of a transaction is one by itself, without a BEGIN and a COMMIT, each of
    which gives up the interpreter's lock too. Nearly all commits are of this kind; CPU for 1, 100,
    500 segments: 17, 290, 720 us, in a transaction 34, 470, 990.
    """
    if len(segments) > _ROWS or any(s.checkpoint is not None for s in segments):
        with connection.begin():
            return append(connection, segments)
    cursor = connection.connection.cursor()
    try:
        cursor.execute(*_insertion(segments))
        taken = cursor.rowcount
    finally:
        cursor.close()
    if taken == len(segments):
        return set()
    with connection.begin():
        return _refused(connection, segments, taken)


def _insertion(segments: Sequence[Segment]) -> tuple[str, list[Any]]:
    """The statement and its parameters. Rows are filled up to a power of two with ones that join
    nothing: so there are few statements, and the driver finds them prepared."""
    size = 1 << (len(segments) - 1).bit_length()
    values: list[Any] = [value for s in segments for value in s[:4]]
    values += [None] * (4 * (size - len(segments)))
    return _statement(size), values


@cache
def _statement(rows: int) -> str:
    return _INSERT.format(", ".join(["(?, ?, ?, ?)"] * rows))


def _refused(connection: Connection, segments: Sequence[Segment], taken: int) -> set[int]:
    if taken == len(segments):
        return set()
    return {s.stream for s in segments} - _open(connection, segments)


def read_after(
    connection: Connection, number: int, seq: int, max_bytes: int | None = None
) -> list[Segment]:
    """The segments that hold events after `seq`, oldest first; the first may begin before it.

    Args:
        number: the stream's.
        max_bytes: stop after the segment that reaches it; None: all.
    """
    found: list[Segment] = []
    size = 0
    rows = connection.execute(
        _READ.execution_options(yield_per=_FETCH), {"stream_number": number, "after": seq}
    )
    for row in rows:
        found.append(Segment(*row))
        size += len(row.frames)
        if max_bytes is not None and size >= max_bytes:
            rows.close()
            break
    return found


def last_seq(connection: Connection, number: int) -> int:
    """The seq of the newest event; 0 for an empty stream."""
    query = (
        select(segment.c.last_seq)
        .where(segment.c.stream == number)
        .order_by(segment.c.last_seq.desc())
        .limit(1)
    )
    return connection.scalar(query) or 0


def prune(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete all segments of the streams."""
    connection.execute(delete(segment).where(segment.c.stream.in_(numbers)))


def _open(connection: Connection, wanted: Sequence[Segment]) -> set[int]:
    """Those streams that take segments. The row of a seal may have the very seq of a late one, so
    whether a seq is there says nothing."""
    numbers = [s.stream for s in wanted]
    query = select(stream.c.number).where(stream.c.number.in_(numbers), stream.c.ended_at.is_(None))
    return set(connection.scalars(query))
