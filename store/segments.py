"""The log on disk: append the segments of a commit, read after a cursor, prune."""

from collections.abc import Sequence
from typing import NamedTuple

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


# The one hot statement, at driver level: SQLAlchemy's own insert costs 50-80 % more. A sealed or
# ended stream takes no row: whoever lost it cannot write, whatever it believes (R3).
_INSERT = """
INSERT INTO segment (stream, last_seq, events, frames)
SELECT ?, ?, ?, ? FROM stream WHERE number = ? AND ended_at IS NULL
"""

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
    if not segments:
        return set()
    rows = [(s.stream, s.last_seq, s.events, s.frames, s.stream) for s in segments]
    result = connection.exec_driver_sql(_INSERT, rows if len(rows) > 1 else rows[0])
    if marks := [(s.checkpoint, s.stream) for s in segments if s.checkpoint is not None]:
        connection.exec_driver_sql(_MARK, marks)
    if result.rowcount == len(rows):
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
