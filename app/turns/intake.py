"""Accepting a message: one transaction that makes message, answer, turn and stream, or none."""

import secrets
from collections import Counter
from typing import Literal

import msgspec

from app import events as ev
from app.errors import ConflictError, NotFoundError, UnavailableError
from app.message import Part, text_of
from app.turns.state import State
from store import attachments, messages, search, streams, threads, turns
from store.database import Connection
from store.messages import MessageRow
from store.threads import ThreadRow
from store.turns import TurnRow

TITLE_CHARS = 80
# What the log of a turn in the queue says.
WAITING = ev.Status("queued", "Waiting for the answer before.")

During = Literal["queue", "interrupt", "reject"]


class Submission(msgspec.Struct, frozen=True):
    """A message to be answered, or one of before to be answered again.

    Args:
        key: the client's id of this request: the same one again starts nothing.
        message: id of the question. With a new one it is the key.
        parts: of the new question; None: it is there already, and gets another answer.
        model: name; None: the thread's, or else `default_model`.
        instructions: None: the thread's.
        parent: UNSET: the selected leaf; None: the root of a new branch.
        replaces: the question that this one is a new version of. Where its answer waits, this one
            takes its place, and what waits behind it; where that is being written, it interrupts.
    """

    thread: str
    key: str
    message: str
    parts: list[Part] | None
    default_model: str
    model: str | None = None
    instructions: str | None = None
    during: During = "queue"
    parent: str | msgspec.UnsetType | None = msgspec.UNSET
    replaces: str | None = None


class Accepted(msgspec.Struct, frozen=True):
    """What the transaction did. `repeated`: the message was accepted before; nothing was done.

    `stopped`: it was stopped before it arrived. `interrupted`: id of the turn that it stops, be it
    running or waiting.
    """

    turn: TurnRow
    version: int
    repeated: bool = False
    stopped: bool = False
    interrupted: str | None = None


def accept(
    connection: Connection,
    submission: Submission,
    now: int,
    *,
    timeout_ms: int | None,
    max_streams: int,
) -> Accepted:
    """The transaction.

    Args:
        timeout_ms: how long the turn may take from its start.
        max_streams: how many turns of the server may be open, this one included.

    Raises ConflictError (TURN_RUNNING, MESSAGE_CONFLICT), UnavailableError (STREAM_LIMIT_REACHED)
    and NotFoundError (MESSAGE_NOT_FOUND, ATTACHMENT_NOT_FOUND).
    """
    known = turns.by_key(connection, submission.key)
    if known is not None:
        if known.thread != submission.thread:
            raise _conflict()
        return Accepted(known, 0, repeated=True)
    waiting = _admitted(connection, submission, max_streams)
    stopped = turns.take_intent(connection, submission.key)
    submission, old = _replacing(submission, [] if stopped else waiting)
    thread = _thread(connection, submission, now)
    answer = new_id(now)
    follower = _question(connection, submission, thread, waiting, now)
    reply = MessageRow(answer, submission.thread, submission.message, "assistant", b"[]", now)
    messages.add(connection, reply)
    if old is not None:
        follower = _behind(connection, submission.thread, old)
    if follower is not None:  # the branch stays a line: what waits there follows this answer
        messages.set_parent(connection, follower, answer)
    position = _position(submission, _queued(waiting), now) if old is None else old.position
    number = _turn(connection, submission, thread, answer, position, now)
    if stopped:
        turns.request_cancel(connection, number, now)
    elif not waiting:
        turns.start(connection, number, now, None if timeout_ms is None else now + timeout_ms)
    elif submission.during == "interrupt":
        old = next((row for row in waiting if row.state == State.RUNNING), None)
    if old is not None:  # on record, so that a crash does not forget it
        turns.request_cancel(connection, old.number, now)
    # The selected leaf is the answer that will be last on its line.
    changes = {} if follower is not None else {"leaf": answer}
    version = threads.touch(connection, submission.thread, now, **changes) or 0
    row = turns.by_number(connection, number)
    return Accepted(row, version, stopped=stopped, interrupted=None if old is None else old.id)


def _admitted(connection: Connection, submission: Submission, max_streams: int) -> list[TurnRow]:
    """The turns of the thread that are running or waiting, if there may be one more."""
    if turns.count_open(connection) >= max_streams:
        raise UnavailableError(
            "Too many answers are being written", code="STREAM_LIMIT_REACHED", retry_after=5
        )
    waiting = turns.open_turns(connection, submission.thread)
    if waiting and submission.during == "reject":
        raise ConflictError("A turn of this thread is running", code="TURN_RUNNING")
    return waiting


def _replacing(submission: Submission, waiting: list[TurnRow]) -> tuple[Submission, TurnRow | None]:
    """The submission as it is meant, and the waiting turn whose place it takes, if any."""
    old = next((row for row in waiting if row.question == submission.replaces), None)
    if old is None:
        return submission, None
    if old.state == State.RUNNING:  # perhaps its time came meanwhile
        return msgspec.structs.replace(submission, during="interrupt"), None
    return msgspec.structs.replace(submission, during="queue"), old


def _thread(connection: Connection, submission: Submission, now: int) -> ThreadRow:
    """The thread as it is for this turn; made if this is its first message."""
    id_ = submission.thread
    if threads.find(connection, id_) is None:
        if submission.parts is None:
            raise _no_message("The message does not exist")
        threads.create(connection, id_, title_of(submission.parts), now)
    chosen = {"model": submission.model, "instructions": submission.instructions}
    threads.touch(connection, id_, now, **{k: v for k, v in chosen.items() if v is not None})
    row = threads.find(connection, id_)
    assert row is not None
    return row


def _question(
    connection: Connection,
    submission: Submission,
    thread: ThreadRow,
    waiting: list[TurnRow],
    now: int,
) -> str | None:
    """The question's place in the tree. Returns the waiting question that must follow its answer;
    None if there is none."""
    present = messages.find(connection, submission.message)
    if submission.parts is None:
        if present is None or present.thread != thread.id or present.role != "user":
            raise _no_message("The message does not exist")
        return None
    if present is not None:
        raise _conflict()
    parts = _with_files(connection, submission.parts, thread.id)
    parent, follower = _place(connection, submission, thread.leaf, _queued(waiting))
    encoded = msgspec.json.encode(parts)
    row = MessageRow(submission.message, thread.id, parent, "user", encoded, now)
    messages.add(connection, row)
    search.put(connection, submission.message, text_of(parts))
    return follower


def _with_files(connection: Connection, parts: list[Part], thread: str) -> list[Part]:
    """The parts with what is known of their attachments, which stay as long as the thread."""
    ids = [part["attachment"] for part in parts if part["type"] == "file"]
    if not ids:
        return parts
    found = attachments.find(connection, ids)
    if len(found) != len(set(ids)):
        raise NotFoundError("An attached file does not exist", code="ATTACHMENT_NOT_FOUND")
    attachments.use(connection, ids, thread)

    def described(part: Part) -> Part:
        row = found.get(part.get("attachment", ""))
        if row is None:
            return part
        return {**part, "name": row.name, "mediaType": row.media_type, "size": row.size}

    return [described(part) for part in parts]


def _turn(
    connection: Connection,
    submission: Submission,
    thread: ThreadRow,
    answer: str,
    position: int,
    now: int,
) -> int:
    """The turn, queued, with its stream. Returns its number."""
    number = turns.create(
        connection,
        {
            "id": answer,
            "thread": submission.thread,
            "question": submission.message,
            "key": submission.key,
            "state": State.QUEUED.value,
            "position": position,
            "model": thread.model or submission.default_model,
            "instructions": thread.instructions,
            "created_at": now,
        },
    )
    turns.attach(connection, number, streams.create(connection, new_stream_id(), number, now))
    return number


def _position(submission: Submission, queued: list[TurnRow], now: int) -> int:
    """Before all of these, or after them, also where the clock was set back."""
    if submission.during == "interrupt" and queued:
        return queued[0].position - 1
    return max([now, *(row.position + 1 for row in queued)])


def _behind(connection: Connection, thread: str, turn: TurnRow) -> str | None:
    """The question that follows the answer of a turn which has not begun; None: none does."""
    rows = messages.of_thread(connection, thread)
    return next((row.id for row in rows if row.parent == turn.id), None)


def _queued(waiting: list[TurnRow]) -> list[TurnRow]:
    return [row for row in waiting if row.state == State.QUEUED]


def _place(
    connection: Connection, submission: Submission, leaf: str | None, queued: list[TurnRow]
) -> tuple[str | None, str | None]:
    """The parent of the question, and the waiting question that goes behind its answer, if any."""
    parent = leaf if submission.parent is msgspec.UNSET else submission.parent
    if parent is not None and parent != leaf:
        row = messages.find(connection, parent)
        if row is None or row.thread != submission.thread:
            raise _no_message("The parent message does not exist")
    # Who names another place than the end of the line means that one.
    if submission.during != "interrupt" or not queued or parent != leaf:
        return parent, None
    return _before_queue(connection, submission.thread, parent, queued)


def _before_queue(
    connection: Connection, thread: str, leaf: str | None, queued: list[TurnRow]
) -> tuple[str | None, str | None]:
    """The last message of a branch that does not wait, and the question that waits behind it."""
    rows = messages.of_thread(connection, thread)
    parents = {row.id: row.parent for row in rows}
    answers = Counter(row.parent for row in rows if row.role == "assistant")
    waits = {row.id: row.question for row in queued}
    follower = None
    # A question that has another answer too keeps its place.
    while leaf in waits and answers[waits[leaf]] == 1:
        follower = waits[leaf]
        leaf = parents[follower]
    return leaf, follower


def title_of(parts: list[Part]) -> str:
    """The first line of the first text, shortened."""
    text = next((part["text"] for part in parts if part["type"] == "text"), "")
    text = text or next((part["name"] for part in parts if "name" in part), "")
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


def _no_message(text: str) -> NotFoundError:
    return NotFoundError(text, code="MESSAGE_NOT_FOUND")


def _conflict() -> ConflictError:
    return ConflictError("This id was used for another message", code="MESSAGE_CONFLICT")
