"""What must hold of every database, whatever happened to it.

Each log is whole, each ended turn has one outcome, in its log, in its row and as the last thing
said, and the stored answer is the fold of the log (O1, O4, R3). Open turns are those that have a
task (P33).
"""

import json
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app import events as ev
from app.turns.state import State
from store import messages, segments, turns
from store.schema import stream, turn
from store.turns import TurnRow
from tests.app.world import Seen, World


async def check(world: World) -> None:
    """Raises AssertionError. The server runs; nothing may be on its way."""
    service = world.services.turns
    rows = await world.services.database.read(_check_all)
    live = {row.id: service.live(row.id) for row in rows}
    for row in rows:
        found = live[row.id]
        assert (row.ended_at is None) == (found is not None), f"turn {row.id}: {row.state}"
        assert found is None or found.state == row.state
    for thread in {row.thread for row in rows}:
        running = [row for row in rows if row.thread == thread and row.state == State.RUNNING]
        assert len(running) <= 1, "two turns of a thread run"


def _check_all(connection: Connection) -> list[TurnRow]:
    numbers = connection.scalars(select(turn.c.number).order_by(turn.c.number))
    rows = [turns.by_number(connection, number) for number in numbers.all()]
    for row in rows:
        _check_turn(connection, row)
    for thread in {row.thread for row in rows}:
        _check_tree(connection, thread)
    return rows


def _check_turn(connection: Connection, row: TurnRow) -> None:
    query = select(stream.c.number, stream.c.id, stream.c.ended_at, stream.c.successor)
    lives = connection.execute(query.where(stream.c.turn == row.number).order_by("number")).all()
    assert lives[-1].number == row.stream
    for life, after in zip(lives, [*lives[1:], None], strict=True):
        seen = log_of(connection, life.number, life.id)
        outcomes = [event for event in seen.events if isinstance(event, ev.Outcome)]
        assert all(event is seen.events[-1] for event in outcomes), "something follows an outcome"
        if after is not None:
            assert life.successor == after.number
            assert seen.events[-1] == ev.Superseded(after.id)
        elif row.ended_at is not None:
            _check_end(connection, row, seen)
        else:
            assert life.ended_at is None
            assert outcomes == []


def _check_end(connection: Connection, row: TurnRow, seen: Seen) -> None:
    assert row.outcome is not None
    assert ev.decode(row.outcome) == seen.outcome
    assert row.state == seen.outcome.outcome
    message = messages.find(connection, row.id)
    assert message is not None
    assert json.loads(message.parts) == seen.fold.parts()
    for part in seen.fold.parts():
        unsettled = ("streaming", "input-streaming", "input-available", "running")
        assert part.get("state") not in unsettled, part


def log_of(connection: Connection, number: int, id_: str) -> Seen:
    """A whole log as stored; raises AssertionError if it has a hole."""
    seen = Seen()
    for segment in segments.read_after(connection, number, 0):
        assert segment.last_seq == len(seen.ids) + segment.events
        seen.feed(segment.frames)
    assert seen.ids == [(id_, seq) for seq in range(1, len(seen.ids) + 1)]
    return seen


def _check_tree(connection: Connection, thread: str) -> None:
    rows = {row.id: row for row in messages.of_thread(connection, thread)}
    for row in rows.values():
        seen = {row.id}
        while row.parent is not None:
            row = rows[row.parent]  # a parent is of the same thread
            assert row.id not in seen, "the messages go round in a circle"
            seen.add(row.id)


def outcome(view: Any) -> ev.Outcome:
    """The outcome of an answer in a snapshot."""
    return msgspec.json.decode(view.turn.outcome, type=ev.Outcome)
