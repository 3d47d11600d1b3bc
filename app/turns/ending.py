"""The terminal record: message, outcome and end of the stream are one transaction (O4)."""

from dataclasses import dataclass

import msgspec

from app import events as ev
from app.message import Part, text_of
from store import messages, search, streams, threads, turns
from store.database import Connection
from store.turns import TurnRow


def record_end(
    connection: Connection,
    number: int,
    stream: int,
    outcome: ev.Outcome,
    message: str,
    parts: list[Part],
) -> None:
    """Write it, in the caller's transaction.

    Args:
        number: the turn's. `stream`: number of the stream the caller writes to.
        message: id of the answer. `parts`: its final parts.

    Raises StreamClosedError if the turn has ended or is not on this stream any more.
    """
    turns.end(connection, number, stream, outcome.outcome, ev.encode(outcome), outcome.at)
    streams.close(connection, stream, outcome.at)
    messages.set_parts(connection, message, msgspec.json.encode(parts))


@dataclass(frozen=True)
class Ended:
    """What was done beside the record: the thread's version, the turn that was started."""

    version: int
    following: TurnRow | None


def follow_up(
    connection: Connection,
    thread: str,
    now: int,
    *,
    timeout_ms: int | None,
    promoting: bool,
) -> Ended:
    """What others wait for; `promoting`: the next in the queue is started."""
    following = promote(connection, thread, now, timeout_ms) if promoting else None
    return Ended(threads.touch(connection, thread, now) or 0, following)


def index(connection: Connection, message: str, parts: list[Part]) -> None:
    """Make the answer's words found."""
    search.put(connection, message, text_of(parts))


def promote(
    connection: Connection, thread: str, now: int, timeout_ms: int | None
) -> TurnRow | None:
    """Start the next queued turn of the thread, if its time has come. Returns it, running."""
    row = turns.next_queued(connection, thread)
    if row is None:
        return None
    turns.start(connection, row.number, now, None if timeout_ms is None else now + timeout_ms)
    threads.touch(connection, thread, now)
    return turns.by_number(connection, row.number)
