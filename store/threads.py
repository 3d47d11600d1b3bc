"""Threads: what a list shows, and which leaf is selected."""

from typing import NamedTuple

from sqlalchemy import Connection, and_, case, delete, exists, or_, select, update

from store.schema import cancel_intent, segment, stream, thread, turn


class ThreadRow(NamedTuple):
    """`state`: running, queued or idle."""

    id: str
    title: str
    leaf: str | None
    version: int
    created_at: int
    updated_at: int
    state: str


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
    _STATE,
)


def find(connection: Connection, id_: str) -> ThreadRow | None:
    row = connection.execute(_SELECT.where(thread.c.id == id_)).first()
    return None if row is None else ThreadRow._make(row)


def page(
    connection: Connection, limit: int, before: tuple[int, str] | None = None
) -> list[ThreadRow]:
    """Newest change first. `before`: (updated_at, id) of the last row of the page before."""
    query = _SELECT.order_by(thread.c.updated_at.desc(), thread.c.id.desc()).limit(limit)
    if before is not None:
        at, id_ = before
        older = thread.c.updated_at < at
        query = query.where(or_(older, and_(thread.c.updated_at == at, thread.c.id < id_)))
    return [ThreadRow._make(row) for row in connection.execute(query)]


def create(connection: Connection, id_: str, title: str, now: int) -> None:
    connection.execute(
        thread.insert().values(id=id_, title=title, version=0, created_at=now, updated_at=now)
    )


def touch(
    connection: Connection,
    id_: str,
    now: int,
    *,
    leaf: str | None = None,
    title: str | None = None,
) -> int | None:
    """Count one change. Returns the new version; None for a thread that does not exist."""
    changes: dict[str, object] = {"version": thread.c.version + 1, "updated_at": now}
    if leaf is not None:
        changes["leaf"] = leaf
    if title is not None:
        changes["title"] = title
    query = update(thread).where(thread.c.id == id_).values(changes).returning(thread.c.version)
    return connection.execute(query).scalar()


def remove(connection: Connection, id_: str) -> bool:
    """Delete the thread with all it has. False if it does not exist."""
    numbers = (
        select(stream.c.number)
        .join(turn, turn.c.number == stream.c.turn)
        .where(turn.c.thread == id_)
    )
    connection.execute(delete(segment).where(segment.c.stream.in_(numbers)))
    connection.execute(delete(cancel_intent).where(cancel_intent.c.thread == id_))
    return connection.execute(delete(thread).where(thread.c.id == id_)).rowcount == 1
