"""Threads as clients see them: the list, and a snapshot to follow a stream from (L7)."""

import json
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.errors import NotFoundError
from app.feed import Change, Feed, ThreadState
from app.message import Part
from app.turns.service import TurnService, state_of
from app.turns.turn import LiveTurn
from store import messages, streams, threads, turns
from store.database import Connection, Database
from store.messages import MessageRow
from store.threads import Position as Position
from store.threads import ThreadRow
from store.turns import TurnRow

# How often what changes under our hands is looked at again, before it is taken as it is.
ROUNDS = 10


class ThreadView(msgspec.Struct, frozen=True, rename="camel"):
    """A thread as the list shows it. Times in ms since 1970."""

    id: str
    title: str
    created_at: int
    updated_at: int
    version: int
    state: str
    leaf: str | None
    pinned: bool
    model: str | None
    instructions: str | None


class ThreadChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person changes of a thread; what is UNSET stays. `leaf` selects a branch."""

    title: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    leaf: str | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    instructions: Annotated[str, Meta(max_length=100_000)] | UnsetType | None = UNSET


class TurnView(msgspec.Struct, frozen=True, rename="camel"):
    """`cursor`: what the parts are exact for; None once the turn has ended."""

    state: str
    stream: str
    cursor: str | None
    model: str
    status: Any
    outcome: Any


class MessageView(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    id: str
    role: str
    created_at: int
    parts: list[Part]
    parent: str | None
    turn: TurnView | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """A whole thread at one moment."""

    thread: ThreadView
    messages: list[MessageView]


class Threads:
    """Reads and changes threads; turns are the turn service's."""

    def __init__(self, database: Database, service: TurnService, feed: Feed) -> None:
        self._database = database
        self._service = service
        self._feed = feed

    async def list(
        self, limit: int, after: Position | None = None
    ) -> tuple[list[ThreadView], Position | None]:
        """One page, newest change first, and after what the next one begins (None: there is none).

        Pinned threads come before all others.
        """
        rows = await self._database.read(lambda c: threads.page(c, limit + 1, after))
        more = rows[limit - 1].position if len(rows) > limit else None
        return [_thread(row) for row in rows[:limit]], more

    async def snapshot(self, id_: str) -> Snapshot:
        """Raises NotFoundError (THREAD_NOT_FOUND).

        What has ended is read in one transaction; a running turn is taken from the fold of its
        committed events. If one ended in between, its row is stale and everything is read again.
        One that stays without a task here is another process': it is to be followed from its start.
        """
        for _ in range(ROUNDS):
            thread, rows, turn_rows = await self._database.read(lambda c: _read(c, id_))
            begun = [row.id for row in turn_rows if not row.ended_at]
            live = {turn: found for turn in begun if (found := self._service.live(turn))}
            if len(live) == len(begun):
                break
        by_id = {row.id: row for row in turn_rows}
        views = [_message(row, by_id.get(row.id), live.get(row.id)) for row in rows]
        ours = state_of(live.values()) if len(live) == len(begun) else None
        return Snapshot(_thread(thread, ours), views)

    async def change(self, id_: str, change: ThreadChange) -> ThreadView:
        """Raises NotFoundError (THREAD_NOT_FOUND, MESSAGE_NOT_FOUND for a leaf)."""
        values = {k: v for k, v in msgspec.structs.asdict(change).items() if v is not UNSET}

        def write(connection: Connection) -> ThreadRow | None:
            if isinstance(change.leaf, str):
                row = messages.find(connection, change.leaf)
                if row is None or row.thread != id_:
                    raise NotFoundError("No such message", code="MESSAGE_NOT_FOUND")
            threads.touch(connection, id_, None, **values)
            return threads.find(connection, id_)

        row = await self._database.write(write)
        if row is None:
            raise NotFoundError("No such conversation", code="THREAD_NOT_FOUND")
        self._feed.publish(Change(id_, row.version, self._service.thread_state(id_)))
        return _thread(row)

    async def remove(self, id_: str) -> None:
        """Stop its turns, then delete all of it. Idempotent."""

        def write(connection: Connection, last: bool) -> bool | None:
            if turns.open_turns(connection, id_) and not last:
                return None
            return threads.remove(connection, id_)

        for left in reversed(range(ROUNDS)):  # a message may have arrived since
            await self._service.stop_thread(id_)
            gone = await self._database.write(partial(write, last=left == 0))
            if gone is not None:
                break
        if gone:
            self._feed.publish(Change(id_, 0, "idle", deleted=True))

    async def active_stream(self, id_: str) -> str | None:
        """Id of the stream of the running turn, or of the first in the queue; None: idle."""
        rows = await self._database.read(lambda c: turns.open_turns(c, id_))
        rows.sort(key=lambda row: row.state != "running")
        return rows[0].stream_id if rows else None

    async def owning(self, id_: str, stream: str) -> str:
        """The stream itself, if it is one of this thread's.

        Raises NotFoundError (STREAM_NOT_FOUND).
        """

        def find(connection: Connection) -> bool:
            row = streams.find(connection, stream)
            return row is not None and turns.by_number(connection, row.turn).thread == id_

        if not await self._database.read(find):
            raise NotFoundError("No such stream in this conversation", code="STREAM_NOT_FOUND")
        return stream


def _read(connection: Connection, id_: str) -> tuple[ThreadRow, list[MessageRow], list[TurnRow]]:
    thread = threads.find(connection, id_)
    if thread is None:
        raise NotFoundError("No such conversation", code="THREAD_NOT_FOUND")
    return thread, messages.of_thread(connection, id_), turns.of_thread(connection, id_)


def _thread(row: ThreadRow, state: ThreadState | None = None) -> ThreadView:
    return ThreadView(
        row.id,
        row.title,
        row.created_at,
        row.updated_at,
        row.version,
        state or row.state,
        row.leaf,
        bool(row.pinned),
        row.model,
        row.instructions,
    )


def _message(row: MessageRow, turn: TurnRow | None, live: LiveTurn | None) -> MessageView:
    if live is not None:
        tail = live.tail
        cursor = f"{tail.id}:{tail.durable}"
        view = TurnView(live.state, tail.id, cursor, live.model, tail.fold.status, None)
        return _view(row, tail.fold.parts(), view)
    known = None
    if turn is not None:
        outcome = msgspec.Raw(turn.outcome) if turn.outcome else None
        start = None if turn.outcome else f"{turn.stream_id}:0"
        known = TurnView(turn.state, turn.stream_id, start, turn.model, None, outcome)
    return _view(row, json.loads(row.parts), known)


def _view(row: MessageRow, parts: list[Part], turn: TurnView | None) -> MessageView:
    return MessageView(row.id, row.role, row.created_at, parts, row.parent, turn)
