"""After a crash or a restart: one transaction per orphaned turn, before the port answers.

Seal the old stream (its last event names the successor), open the successor with a snapshot of what
is kept, count one recovery. Kept are completed steps and settled tools; the broken attempt is
withdrawn and will be asked again; a tool that may have happened is told as unknown, not run again.

The snapshot is in that transaction too: a second crash, right after it, must find what the first
one left.
"""

from contextlib import suppress
from dataclasses import dataclass

import msgspec

from app import events as ev
from app.message import Fold, Part
from app.tail import frame
from app.tools.registry import Toolbox
from app.turns import outcomes
from app.turns.ending import record_end
from app.turns.intake import WAITING, new_stream_id
from app.turns.outcomes import Ending
from app.turns.state import State
from app.turns.steps import StepRecord, decode_step
from store import segments, streams, turns
from store.database import Connection
from store.segments import Segment
from store.turns import TurnRow

GOING_ON = ev.Status("recovering", "The server was restarted. The answer goes on.")
UNKNOWN_TEXT = "The server stopped while this ran: it may have had its effect. It is not run again."


@dataclass(frozen=True)
class Recovered:
    """A turn with a fresh stream, and how to go on with it.

    `life`: how many streams it had before. `first`: the events its new stream begins with, which
    are on record. `ending`: it is not run again, only ended. `checkpoint`: what the response that
    was under way may be resumed with; its output is kept then.
    """

    row: TurnRow
    life: int
    records: list[StepRecord]
    first: list[ev.Event]
    ending: Ending | None = None
    checkpoint: bytes | None = None


def recover(
    connection: Connection,
    row: TurnRow,
    toolbox: Toolbox,
    now: int,
    max_recoveries: int,
    *,
    readable: bool = True,
) -> Recovered | None:
    """The transaction for one turn that was running or waiting when its process ended.

    `readable` False: what it had said cannot be read, so it is ended with nothing.

    Returns None if its log already held an outcome: then only the bookkeeping was made up for.
    """
    if not readable:
        return _given_up(connection, row, now)
    found = segments.read_after(connection, row.stream, 0)
    fold = Fold()
    for event in decoded(found):
        fold.apply(event)
    if fold.outcome is not None:
        record_end(connection, row.number, row.stream, fold.outcome, row.id, fold.parts())
        return None
    records = [decode_step(data) for data in turns.steps(connection, row.number)]
    ending = _ending(row, now, max_recoveries)
    waits = row.state == State.QUEUED
    checkpoint = streams.get(connection, row.stream).checkpoint or None
    parts = fold.parts()  # what was said is kept (C3), unless it will be said again
    if ending is None and checkpoint is None:
        parts = settled(kept_parts(parts, len(records)), toolbox, now)
    first: list[ev.Event] = [ev.Snapshot(parts), WAITING if waits else GOING_ON]
    successor = _succeed(connection, row, first, now, checkpoint)
    # What only waited did not end the process: it is not counted, however often it waits in vain.
    turns.recover(connection, row.number, successor, counted=not waits and not row.released)
    life = streams.count(connection, row.number) - 1
    recovered = turns.by_number(connection, row.number)
    return Recovered(recovered, life, records, first, ending, checkpoint)


def _given_up(connection: Connection, row: TurnRow, now: int) -> Recovered:
    first: list[ev.Event] = [ev.Snapshot([]), GOING_ON]
    turns.recover(connection, row.number, _succeed(connection, row, first, now, None), counted=True)
    life = streams.count(connection, row.number) - 1
    recovered = turns.by_number(connection, row.number)
    return Recovered(recovered, life, [], first, outcomes.UNREADABLE)


def _succeed(
    connection: Connection,
    row: TurnRow,
    first: list[ev.Event],
    now: int,
    checkpoint: bytes | None,
) -> int:
    """Seal the turn's stream. Returns the number of the one that follows."""
    last = segments.last_seq(connection, row.stream)
    stream_id = new_stream_id()
    successor = streams.create(connection, stream_id, row.number, now, checkpoint)
    seal = frame(row.stream_id, last + 1, ev.Superseded(stream_id))
    frames = b"".join(frame(stream_id, seq, event) for seq, event in enumerate(first, 1))
    count = len(first)
    segments.append(
        connection,
        [Segment(row.stream, last + 1, 1, seal), Segment(successor, count, count, frames)],
    )
    streams.close(connection, row.stream, now, successor)
    return successor


def _ending(row: TurnRow, now: int, max_recoveries: int) -> Ending | None:
    if row.cancel_requested_at is not None:
        return outcomes.CANCELLED
    if row.state == State.QUEUED:
        return None
    if row.deadline_at is not None and row.deadline_at <= now:
        return outcomes.timed_out(row.started_at, row.deadline_at)
    if row.recoveries >= max_recoveries and not row.released:
        return outcomes.RECOVERY_EXHAUSTED
    return None


def kept_parts(parts: list[Part], complete: int) -> list[Part]:
    """The parts of the first `complete` steps: what follows belongs to a broken attempt."""
    seen = 0
    for index, part in enumerate(parts):
        if part["type"] == "step-start":
            seen += 1
            if seen > complete:
                return parts[:index]
    return parts


def settled(parts: list[Part], toolbox: Toolbox, now: int) -> list[Part]:
    """Calls that were dispatched and have no result become "outcome unknown" (S5).

    An idempotent tool is put back to where it can be run again.
    """
    for part in parts:
        if part["type"] != "tool" or part["state"] != "running":
            continue
        tool = toolbox.get(part["toolName"])
        if tool is not None and tool.idempotent:
            part["state"] = "input-available"
        else:
            part.update(state="output-error", errorText=UNKNOWN_TEXT, unknown=True, endedAt=now)
    return parts


def decoded(found: list[Segment]) -> list[ev.AnyEvent]:
    """The events of stored segments, in order.

    Those of an unknown type are left out, as every reader does (web/PROTOCOL.md, "Events"): a newer
    version wrote them, and a turn of it must not keep this one from starting.
    """
    events = []
    for segment in found:
        for one in segment.frames.split(b"\n\n")[:-1]:
            with suppress(msgspec.ValidationError):
                events.append(ev.decode(one[one.index(b"\ndata: ") + 7 :]))
    return events
