"""Attached files: their bytes, and which thread uses them."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update

from store.schema import attachment


class AttachmentRow(NamedTuple):
    """`size` in bytes."""

    id: str
    name: str
    media_type: str
    size: int
    data: bytes


_COLUMNS = (
    attachment.c.id,
    attachment.c.name,
    attachment.c.media_type,
    attachment.c.size,
    attachment.c.data,
)


def add(connection: Connection, row: AttachmentRow, now: int) -> None:
    """Keep it. One that is there already stays as it is."""
    if connection.scalar(select(attachment.c.id).where(attachment.c.id == row.id)) is None:
        connection.execute(attachment.insert().values(row._asdict() | {"created_at": now}))


def find(connection: Connection, ids: Sequence[str]) -> dict[str, AttachmentRow]:
    rows = connection.execute(select(*_COLUMNS).where(attachment.c.id.in_(ids)))
    return {row.id: AttachmentRow._make(row) for row in rows}


def use(connection: Connection, ids: Sequence[str], thread: str) -> None:
    """A message of this thread has them: they live and die with it."""
    unused = attachment.c.thread.is_(None)
    connection.execute(
        update(attachment).where(attachment.c.id.in_(ids), unused).values(thread=thread)
    )


def prune(connection: Connection, before: int) -> None:
    """Delete what was attached before that time and never sent."""
    old = attachment.c.created_at < before
    connection.execute(delete(attachment).where(attachment.c.thread.is_(None), old))
