"""Accepting a message: one transaction that makes message, answer, turn and stream, or none."""

import secrets
from typing import Any, Literal

import msgspec

from app.errors import ConflictError, NotFoundError
from app.turns.state import State
from store import messages, streams, threads, turns
from store.database import Connection
from store.messages import MessageRow
from store.turns import TurnRow

TITLE_CHARS = 80

During = Literal["queue", "interrupt", "reject"]


class Submission(msgspec.Struct, frozen=True):
    """A message to be answered. `parent` UNSET: the selected leaf; None: a new branch's root."""

    thread: str
    message: str
    parts: list[dict[str, Any]]
    model: str
    during: During = "queue"
    parent: str | msgspec.UnsetType | None = msgspec.UNSET


class Accepted(msgspec.Struct, frozen=True):
    """What the transaction did. `repeated`: the message was accepted before; nothing was done.

    `stopped`: it was stopped before it arrived. `running`: id of the turn of this thread that runs.
    """

    turn: TurnRow
    version: int
    repeated: bool = False
    stopped: bool = False
    running: str | None = None


def accept(
    connection: Connection, submission: Submission, now: int, timeout_ms: int | None
) -> Accepted:
    """The transaction. `timeout_ms`: how long the turn may take from its start.

    Raises ConflictError (TURN_RUNNING, MESSAGE_CONFLICT) and NotFoundError (MESSAGE_NOT_FOUND).
    """
    known = turns.by_key(connection, submission.message)
    if known is not None:
        if known.thread != submission.thread:
            raise _conflict()
        return Accepted(known, 0, repeated=True)
    if messages.find(connection, submission.message) is not None:
        raise _conflict()
    waiting = turns.open_turns(connection, submission.thread)
    running = next((row for row in waiting if row.state == State.RUNNING), None)
    if waiting and submission.during == "reject":
        raise ConflictError("A turn of this thread is running", code="TURN_RUNNING")
    stopped = turns.take_intent(connection, submission.message)
    number, stream = _insert(connection, submission, waiting, now, stopped=stopped)
    if not waiting and not stopped:
        turns.start(connection, number, now, None if timeout_ms is None else now + timeout_ms)
    leaf = _leaf(submission, waiting, turns.by_number(connection, number))
    version = threads.touch(connection, submission.thread, now, leaf=leaf) or 0
    row = turns.by_number(connection, number)
    assert row.stream == stream
    return Accepted(row, version, stopped=stopped, running=None if running is None else running.id)


def _insert(
    connection: Connection,
    submission: Submission,
    waiting: list[TurnRow],
    now: int,
    *,
    stopped: bool,
) -> tuple[int, int]:
    thread = threads.find(connection, submission.thread)
    if thread is None:
        threads.create(connection, submission.thread, title_of(submission.parts), now)
    answer = new_id(now)
    queued = [row for row in waiting if row.state == State.QUEUED]
    first = submission.during == "interrupt" and bool(queued)
    parent = _parent(connection, submission, thread.leaf if thread else None, waiting)
    question = MessageRow(
        submission.message,
        submission.thread,
        parent,
        "user",
        msgspec.json.encode(submission.parts),
        now,
    )
    messages.add(connection, question)
    reply = MessageRow(answer, submission.thread, submission.message, "assistant", b"[]", now)
    messages.add(connection, reply)
    if first:  # the branch stays a line: what was first in the queue now follows this answer
        messages.set_parent(connection, queued[0].question, answer)
    number = turns.create(
        connection,
        {
            "id": answer,
            "thread": submission.thread,
            "question": submission.message,
            "key": submission.message,
            "state": State.QUEUED.value,
            "position": queued[0].position - 1 if first else now,
            "model": submission.model,
            "created_at": now,
            "cancel_requested_at": now if stopped else None,
        },
    )
    stream = streams.create(connection, new_stream_id(), number, now)
    turns.attach(connection, number, stream)
    return number, stream


def _parent(
    connection: Connection, submission: Submission, leaf: str | None, waiting: list[TurnRow]
) -> str | None:
    if submission.parent is msgspec.UNSET:
        running = [row.id for row in waiting if row.state == State.RUNNING]
        return running[0] if submission.during == "interrupt" and running else leaf
    if submission.parent is None:
        return None
    row = messages.find(connection, submission.parent)
    if row is None or row.thread != submission.thread:
        raise NotFoundError("The parent message does not exist", code="MESSAGE_NOT_FOUND")
    return submission.parent


def _leaf(submission: Submission, waiting: list[TurnRow], row: TurnRow) -> str:
    """The answer that will be last: with an interruption, that of the end of the queue."""
    queued = [other.id for other in waiting if other.state == State.QUEUED]
    return queued[-1] if submission.during == "interrupt" and queued else row.id


def title_of(parts: list[dict[str, Any]]) -> str:
    """The first line of the first text, shortened."""
    text = next((part["text"] for part in parts if part.get("type") == "text"), "")
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = "".join(char for char in line if char.isprintable())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def new_stream_id() -> str:
    """192 random bits: whoever knows it was told it."""
    return secrets.token_urlsafe(24)


def new_id(now_ms: int) -> str:
    """A UUIDv7 (RFC 9562, 5.7): sorts by time."""
    value = now_ms << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62
    digits = f"{value | secrets.randbits(62):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _conflict() -> ConflictError:
    return ConflictError("This id was used for another message", code="MESSAGE_CONFLICT")
