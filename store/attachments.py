"""Attached files: their bytes, and which threads use them."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, exists, literal, select

from store.schema import attachment, attachment_use


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
    """A message of this thread has them. Idempotent; other threads may have them too."""
    known = exists().where(
        attachment_use.c.attachment == attachment.c.id, attachment_use.c.thread == thread
    )
    new = select(attachment.c.id, literal(thread)).where(attachment.c.id.in_(ids), ~known)
    connection.execute(attachment_use.insert().from_select(["attachment", "thread"], new))


def release(connection: Connection, thread: str) -> None:
    """The thread is about to be deleted: delete what no other one uses."""
    its = select(attachment_use.c.attachment).where(attachment_use.c.thread == thread)
    elsewhere = exists().where(
        attachment_use.c.attachment == attachment.c.id, attachment_use.c.thread != thread
    )
    connection.execute(delete(attachment).where(attachment.c.id.in_(its), ~elsewhere))


def prune(connection: Connection, before: int) -> None:
    """Delete what was attached before that time and never sent."""
    used = exists().where(attachment_use.c.attachment == attachment.c.id)
    connection.execute(delete(attachment).where(attachment.c.created_at < before, ~used))
