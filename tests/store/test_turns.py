"""Turns: queue, lives, the one terminal record, steps, and the wish to stop."""

import pytest
from sqlalchemy import Connection

from store import streams, turns
from store.errors import StreamClosedError
from tests.store.rows import NOW, add_stream, add_turn


@pytest.mark.requirement("T4")
def test_queue_runs_in_order_of_position_then_of_arrival(connection: Connection) -> None:
    add_turn(connection, "second-a", position=NOW + 1)
    add_turn(connection, "first", position=NOW)
    add_turn(connection, "second-b", position=NOW + 1)
    add_turn(connection, "other", thread="thread-02", position=0)
    assert ids(turns.open_turns(connection, "thread-01")) == ["first", "second-a", "second-b"]
    assert turns.count_open(connection) == 4
    order = []
    while (row := turns.next_queued(connection, "thread-01")) is not None:
        turns.start(connection, row.number, NOW, None)
        assert turns.next_queued(connection, "thread-01") is None, "one at a time"
        end(connection, row.number)
        order.append(row.id)
    assert order == ["first", "second-a", "second-b"]
    assert turns.count_open(connection) == 1


@pytest.mark.requirement("T4")
def test_queue_passes_over_what_somebody_stopped(connection: Connection) -> None:
    numbers = [add_turn(connection, f"turn-{n}", position=n) for n in range(3)]
    assert turns.request_cancel(connection, numbers[0], NOW)
    following = turns.next_queued(connection, "thread-01")
    assert following is not None
    assert following.id == "turn-1"
    turns.request_cancel(connection, numbers[1], NOW)
    turns.request_cancel(connection, numbers[2], NOW)
    assert turns.next_queued(connection, "thread-01") is None
    assert len(turns.open_turns(connection, "thread-01")) == 3, "they still want their end"


@pytest.mark.requirement("O1")
def test_turn_ends_once(connection: Connection) -> None:
    number = add_turn(connection, running=True)
    end(connection, number, b'{"first":1}')
    with pytest.raises(StreamClosedError):
        end(connection, number, b'{"second":1}')
    row = turns.by_number(connection, number)
    assert (row.state, row.outcome, row.ended_at) == ("finished", b'{"first":1}', NOW + 9)
    assert not turns.request_cancel(connection, number, NOW)
    assert turns.by_number(connection, number).cancel_requested_at is None


@pytest.mark.requirement("R3")
def test_turn_is_ended_only_by_its_present_life(connection: Connection) -> None:
    stream = add_stream(connection)
    number = streams.get(connection, stream).turn
    second = streams.create(connection, "second", number, NOW)
    streams.close(connection, stream, NOW, second)
    turns.recover(connection, number, second, counted=True)
    with pytest.raises(StreamClosedError):
        turns.end(connection, number, stream, "finished", b"{}", NOW)
    assert turns.by_number(connection, number).ended_at is None
    turns.end(connection, number, second, "finished", b"{}", NOW)
    assert streams.count(connection, number) == 2


@pytest.mark.requirement("R2")
def test_only_lives_that_crashed_are_counted(connection: Connection) -> None:
    number = add_turn(connection, running=True)
    stream = turns.by_number(connection, number).stream
    turns.recover(connection, number, stream, counted=True)
    turns.release(connection, [number])
    assert turns.by_number(connection, number).released == 1
    turns.recover(connection, number, stream, counted=False)
    row = turns.by_number(connection, number)
    assert (row.recoveries, row.released) == (1, 0)


@pytest.mark.requirement("R3")
def test_stream_is_closed_once(connection: Connection) -> None:
    stream = add_stream(connection)
    streams.close(connection, stream, NOW, None)
    with pytest.raises(StreamClosedError):
        streams.close(connection, stream, NOW + 1, 7)
    row = streams.get(connection, stream)
    assert (row.ended_at, row.successor) == (NOW, None)
    with pytest.raises(LookupError):
        streams.get(connection, stream + 1)
    assert streams.find(connection, "nobody") is None


def test_steps_come_back_in_order_and_by_turn(connection: Connection) -> None:
    numbers = [add_turn(connection, f"turn-{n}") for n in range(3)]
    for ordinal in (1, 0, 2):
        turns.add_step(connection, numbers[0], ordinal, b"a%d" % ordinal)
    turns.add_step(connection, numbers[1], 0, b"b0")
    assert turns.steps(connection, numbers[0]) == [b"a0", b"a1", b"a2"]
    assert turns.steps_by_turn(connection, ["turn-0", "turn-1", "turn-2", "x"]) == {
        "turn-0": [b"a0", b"a1", b"a2"],
        "turn-1": [b"b0"],
    }


@pytest.mark.requirement("C1")
def test_wish_to_stop_a_message_that_is_not_there_is_kept_and_used_once(
    connection: Connection,
) -> None:
    turns.add_intent(connection, "message-1", "thread-01", NOW)
    turns.add_intent(connection, "message-1", "thread-01", NOW + 5)
    turns.add_intent(connection, "message-2", "thread-01", NOW + 5)
    assert turns.take_intent(connection, "message-1")
    assert not turns.take_intent(connection, "message-1")
    turns.prune_intents(connection, NOW + 5)
    assert turns.take_intent(connection, "message-2"), "it is not older"
    turns.add_intent(connection, "message-3", "thread-01", NOW)
    turns.prune_intents(connection, NOW + 1)
    assert not turns.take_intent(connection, "message-3")


@pytest.mark.requirement("L8")
def test_only_streams_of_turns_that_ended_before_are_expired(connection: Connection) -> None:
    running, ended, pruned, recent = (
        add_stream(connection, f"turn-{n}", thread=f"thread-{n}") for n in range(4)
    )
    number = streams.get(connection, running).turn
    second = streams.create(connection, "second", number, NOW)
    streams.close(connection, running, NOW, second)  # superseded long ago, its turn still runs
    for stream, at in [(ended, NOW), (pruned, NOW), (recent, NOW + 100)]:
        streams.close(connection, stream, at)
        turn = streams.get(connection, stream).turn
        turns.end(connection, turn, stream, "finished", b"{}", at)
    streams.mark_pruned(connection, [pruned])
    assert streams.expired(connection, NOW + 50, 10) == [ended]
    assert streams.expired(connection, NOW + 500, 10) == [ended, recent]
    assert streams.expired(connection, NOW + 500, 1) == [ended]
    assert streams.expired(connection, NOW, 10) == []


def ids(rows: list[turns.TurnRow]) -> list[str]:
    return [row.id for row in rows]


def end(connection: Connection, number: int, outcome: bytes = b"{}") -> None:
    stream = turns.by_number(connection, number).stream
    turns.end(connection, number, stream, "finished", outcome, NOW + 9)
