"""Turns: their state, their queue, their steps, and the wish to stop one."""

from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, select, update

from store.errors import StreamClosedError
from store.schema import cancel_intent, step, stream, turn


class TurnRow(NamedTuple):
    """`stream` and `stream_id` are of the turn's present life. `outcome`: JSON of the event."""

    number: int
    id: str
    thread: str
    question: str
    state: str
    position: int
    model: str
    instructions: str | None
    stream: int
    stream_id: str
    recoveries: int
    released: int
    cancel_requested_at: int | None
    created_at: int
    started_at: int | None
    deadline_at: int | None
    ended_at: int | None
    outcome: bytes | None


_SELECT = select(
    turn.c.number,
    turn.c.id,
    turn.c.thread,
    turn.c.question,
    turn.c.state,
    turn.c.position,
    turn.c.model,
    turn.c.instructions,
    turn.c.stream,
    stream.c.id.label("stream_id"),
    turn.c.recoveries,
    turn.c.released,
    turn.c.cancel_requested_at,
    turn.c.created_at,
    turn.c.started_at,
    turn.c.deadline_at,
    turn.c.ended_at,
    turn.c.outcome,
).join(stream, stream.c.number == turn.c.stream)

_OPEN = turn.c.ended_at.is_(None)


def create(connection: Connection, values: dict[str, Any]) -> int:
    """A new turn, queued; `stream` is set by `attach`. Returns its number."""
    row = {"stream": 0, "recoveries": 0, "released": 0, **values}
    made = connection.execute(turn.insert().values(row).returning(turn.c.number))
    return int(made.scalar_one())


def attach(connection: Connection, number: int, stream_number: int) -> None:
    """The turn's present life writes to this stream."""
    connection.execute(update(turn).where(turn.c.number == number).values(stream=stream_number))


def by_number(connection: Connection, number: int) -> TurnRow:
    """Raises LookupError."""
    row = connection.execute(_SELECT.where(turn.c.number == number)).first()
    if row is None:
        raise LookupError(f"turn {number}")
    return TurnRow._make(row)


def by_key(connection: Connection, key: str) -> TurnRow | None:
    row = connection.execute(_SELECT.where(turn.c.key == key)).first()
    return None if row is None else TurnRow._make(row)


def of_thread(connection: Connection, thread: str) -> list[TurnRow]:
    query = _SELECT.where(turn.c.thread == thread).order_by(turn.c.number)
    return [TurnRow._make(row) for row in connection.execute(query)]


def open_turns(connection: Connection, thread: str | None = None) -> list[TurnRow]:
    """Running and queued ones, in the order they are to run; of one thread or of all."""
    query = _SELECT.where(_OPEN).order_by(turn.c.thread, turn.c.position, turn.c.number)
    if thread is not None:
        query = query.where(turn.c.thread == thread)
    return [TurnRow._make(row) for row in connection.execute(query)]


def count_open(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(turn).where(_OPEN)) or 0


def start(connection: Connection, number: int, now: int, deadline_at: int | None) -> None:
    """Queued -> running. The caller has checked that no other turn of the thread runs."""
    values = {"state": "running", "started_at": now, "deadline_at": deadline_at}
    connection.execute(update(turn).where(turn.c.number == number).values(values))


def next_queued(connection: Connection, thread: str) -> TurnRow | None:
    """The queued turn whose time has come; None while one runs, or if nobody waits."""
    waiting = open_turns(connection, thread)
    if any(row.state == "running" for row in waiting):
        return None
    return next((row for row in waiting if row.cancel_requested_at is None), None)


def recover(connection: Connection, number: int, stream_number: int, *, counted: bool) -> None:
    """The turn begins another life on another stream; counted unless it was released cleanly."""
    values = {"stream": stream_number, "released": 0}
    if counted:
        values["recoveries"] = turn.c.recoveries + 1  # type: ignore[assignment]
    connection.execute(update(turn).where(turn.c.number == number).values(values))


def release(connection: Connection, numbers: list[int]) -> None:
    """A clean shutdown gives the turns up: the next start goes on with those that did not end."""
    connection.execute(update(turn).where(turn.c.number.in_(numbers), _OPEN).values(released=1))


def end(
    connection: Connection, number: int, stream_number: int, state: str, outcome: bytes, now: int
) -> None:
    """The one terminal record.

    Raises StreamClosedError if the turn has ended or lives on another stream now.
    """
    changed = connection.execute(
        update(turn)
        .where(turn.c.number == number, turn.c.stream == stream_number, _OPEN)
        .values(state=state, outcome=outcome, ended_at=now, released=0)
    )
    if changed.rowcount != 1:
        raise StreamClosedError(f"turn {number} is not this runner's any more")


# steps


def add_step(connection: Connection, number: int, ordinal: int, record: bytes) -> None:
    connection.execute(step.insert().values(turn=number, ordinal=ordinal, record=record))


def steps(connection: Connection, number: int) -> list[bytes]:
    query = select(step.c.record).where(step.c.turn == number).order_by(step.c.ordinal)
    return list(connection.scalars(query))


def steps_by_turn(connection: Connection, turn_ids: list[str]) -> dict[str, list[bytes]]:
    """The step records of several turns, by the turn's id."""
    query = (
        select(turn.c.id, step.c.record)
        .join(step, step.c.turn == turn.c.number)
        .where(turn.c.id.in_(turn_ids))
        .order_by(step.c.turn, step.c.ordinal)
    )
    found: dict[str, list[bytes]] = {}
    for id_, record in connection.execute(query):
        found.setdefault(id_, []).append(record)
    return found


# stopping


def request_cancel(connection: Connection, number: int, now: int) -> bool:
    """Keep the wish to stop. False if the turn has ended."""
    changed = connection.execute(
        update(turn).where(turn.c.number == number, _OPEN).values(cancel_requested_at=now)
    )
    return changed.rowcount == 1


def add_intent(connection: Connection, message: str, thread: str, now: int) -> None:
    """Somebody stops a message that has not arrived. Idempotent."""
    if connection.scalar(_intent(message)) is None:
        row = {"message": message, "thread": thread, "created_at": now}
        connection.execute(cancel_intent.insert().values(row))


def take_intent(connection: Connection, message: str) -> bool:
    """True if a stop was asked for this message before it arrived; it is used up by this."""
    gone = delete(cancel_intent).where(cancel_intent.c.message == message)
    return connection.execute(gone).rowcount == 1


def prune_intents(connection: Connection, before: int) -> None:
    connection.execute(delete(cancel_intent).where(cancel_intent.c.created_at < before))


def _intent(message: str) -> Any:
    return select(cancel_intent.c.message).where(cancel_intent.c.message == message)
