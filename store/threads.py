"""Threads: what a list shows, and which leaf is selected."""

from typing import NamedTuple

from sqlalchemy import Connection, case, delete, exists, literal, select, tuple_, update

from store import attachments
from store.schema import cancel_intent, segment, stream, thread, turn


class ThreadRow(NamedTuple):
    """`state`: running, queued or idle."""

    id: str
    title: str
    leaf: str | None
    version: int
    created_at: int
    updated_at: int
    pinned: int
    model: str | None
    instructions: str | None
    state: str

    @property
    def position(self) -> "Position":
        return Position(self.pinned, self.updated_at, self.id)


class Position(NamedTuple):
    """Where a thread stands in the list: what a page begins after."""

    pinned: int
    updated_at: int
    id: str


def _has_turn(state: str) -> object:
    open_turn = exists().where(turn.c.thread == thread.c.id, turn.c.ended_at.is_(None))
    return open_turn.where(turn.c.state == state)


_STATE = case((_has_turn("running"), "running"), (_has_turn("queued"), "queued"), else_="idle")  # type: ignore[arg-type]
_SELECT = select(
    thread.c.id,
    thread.c.title,
    thread.c.leaf,
    thread.c.version,
    thread.c.created_at,
    thread.c.updated_at,
    thread.c.pinned,
    thread.c.model,
    thread.c.instructions,
    _STATE,
)


def find(connection: Connection, id_: str) -> ThreadRow | None:
    row = connection.execute(_SELECT.where(thread.c.id == id_)).first()
    return None if row is None else ThreadRow._make(row)


def page(connection: Connection, limit: int, after: Position | None = None) -> list[ThreadRow]:
    """Pinned ones first, then the newest change first; those that come after a position."""
    order = (thread.c.pinned, thread.c.updated_at, thread.c.id)
    query = _SELECT.order_by(*(column.desc() for column in order)).limit(limit)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*(literal(value) for value in after)))
    return [ThreadRow._make(row) for row in connection.execute(query)]


def create(connection: Connection, id_: str, title: str, now: int) -> None:
    row = {"id": id_, "title": title, "version": 0, "created_at": now, "updated_at": now}
    connection.execute(thread.insert().values(row | {"pinned": 0}))


def touch(
    connection: Connection, id_: str, now: int | None, **changes: str | int | None
) -> int | None:
    """Count one change, of these columns if any.

    Args:
        now: the time of what happened; None: nothing happened that moves it up in the list.
        changes: leaf, title, pinned, model, instructions.

    Returns the new version; None for a thread that does not exist.
    """
    values: dict[str, object] = {"version": thread.c.version + 1, **changes}
    if now is not None:
        values["updated_at"] = now
    query = update(thread).where(thread.c.id == id_).values(values).returning(thread.c.version)
    return connection.execute(query).scalar()


def remove(connection: Connection, id_: str) -> bool:
    """Delete the thread with all it has, and the files that only it used. False if it does not
    exist.

    Its words in the index, which nothing finds any more, are left to `search.forget`.
    """
    numbers = (
        select(stream.c.number)
        .join(turn, turn.c.number == stream.c.turn)
        .where(turn.c.thread == id_)
    )
    connection.execute(delete(segment).where(segment.c.stream.in_(numbers)))
    attachments.release(connection, id_)  # before its links are gone with it
    connection.execute(delete(cancel_intent).where(cancel_intent.c.thread == id_))
    return connection.execute(delete(thread).where(thread.c.id == id_)).rowcount == 1
