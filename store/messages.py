"""Messages: the tree of a thread. `parts` is JSON the store never looks into."""

from typing import NamedTuple

from sqlalchemy import Connection, select, update

from store import search
from store.schema import message


class MessageRow(NamedTuple):
    id: str
    thread: str
    parent: str | None
    role: str
    parts: bytes
    created_at: int


_SELECT = select(
    message.c.id,
    message.c.thread,
    message.c.parent,
    message.c.role,
    message.c.parts,
    message.c.created_at,
)


def add(connection: Connection, row: MessageRow) -> None:
    values = row._asdict() | {"number": search.next_number(connection)}
    connection.execute(message.insert().values(values))


def find(connection: Connection, id_: str) -> MessageRow | None:
    row = connection.execute(_SELECT.where(message.c.id == id_)).first()
    return None if row is None else MessageRow._make(row)


def of_thread(connection: Connection, thread: str) -> list[MessageRow]:
    """All messages of all branches, in the order they were made."""
    query = _SELECT.where(message.c.thread == thread).order_by(message.c.number)
    return [MessageRow._make(row) for row in connection.execute(query)]


def path_to(connection: Connection, id_: str) -> list[MessageRow]:
    """The branch that ends with this message, oldest first."""
    chain = select(message.c.id, message.c.parent).where(message.c.id == id_)
    branch = chain.cte("branch", recursive=True)
    parents = select(message.c.id, message.c.parent).join(branch, message.c.id == branch.c.parent)
    branch = branch.union(parents)
    query = _SELECT.where(message.c.id.in_(select(branch.c.id))).order_by(message.c.number)
    by_id = {row.id: MessageRow._make(row) for row in connection.execute(query)}
    path: list[MessageRow] = []
    row = by_id.pop(id_, None)
    while row is not None:
        path.append(row)
        row = by_id.pop(row.parent or "", None)
    return path[::-1]


def set_parts(connection: Connection, id_: str, parts: bytes) -> None:
    connection.execute(update(message).where(message.c.id == id_).values(parts=parts))


def set_parent(connection: Connection, id_: str, parent: str) -> None:
    connection.execute(update(message).where(message.c.id == id_).values(parent=parent))
