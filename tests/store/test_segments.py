"""The log on disk: append, read after a cursor, refuse whoever has lost the stream."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import IntegrityError

from store import segments, streams, threads, turns
from store.schema import stream
from tests.store.rows import NOW, add_stream, frames, segment


def test_segments_come_back_in_order_with_their_bytes(connection: Connection) -> None:
    stream = add_stream(connection)
    for first, last in [(1, 3), (4, 4), (5, 9)]:
        assert segments.append(connection, [segment(stream, first, last)]) == set()
    found = segments.read_after(connection, stream, 0)
    assert [(s.last_seq, s.events) for s in found] == [(3, 3), (4, 1), (9, 5)]
    assert b"".join(s.frames for s in found) == frames(1, 9)
    assert segments.last_seq(connection, stream) == 9


def test_reading_after_a_cursor_begins_with_the_segment_that_holds_the_next_event(
    connection: Connection,
) -> None:
    stream = add_stream(connection)
    segments.append(connection, [segment(stream, 1, 3), segment(stream, 4, 6)])
    first = {
        seq: [s.last_seq for s in segments.read_after(connection, stream, seq)] for seq in range(8)
    }
    assert first == {0: [3, 6], 1: [3, 6], 2: [3, 6], 3: [6], 4: [6], 5: [6], 6: [], 7: []}


def test_streams_do_not_see_each_other(connection: Connection) -> None:
    one = add_stream(connection, "turn-0001")
    other = add_stream(connection, "turn-0002", thread="thread-02")
    segments.append(connection, [segment(one, 1, 2), segment(other, 1, 5)])
    assert [s.last_seq for s in segments.read_after(connection, one, 0)] == [2]
    assert segments.last_seq(connection, other) == 5
    assert segments.last_seq(connection, other + 1) == 0


def test_reading_stops_after_the_segment_that_reaches_the_limit(connection: Connection) -> None:
    stream = add_stream(connection)
    many = [segment(stream, seq, seq) for seq in range(1, 301)]
    segments.append(connection, many)
    size = len(many[0].frames)
    assert len(segments.read_after(connection, stream, 0, 1)) == 1
    assert len(segments.read_after(connection, stream, 0, size)) == 1
    assert len(segments.read_after(connection, stream, 0, size + 1)) == 2
    assert len(segments.read_after(connection, stream, 250)) == 50
    # A reader that goes on from where it stopped misses nothing.
    seen, seq = b"", 0
    while found := segments.read_after(connection, stream, seq, 1000):
        seen += b"".join(s.frames for s in found)
        seq = found[-1].last_seq
    assert seen == frames(1, 300)


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("events", [1, 2, 5])
def test_sealed_stream_refuses_segments(connection: Connection, events: int) -> None:
    """Also one that ends with the very seq of the seal: the sealed log has that seq already."""
    stream = add_stream(connection)
    other = add_stream(connection, "turn-0002", thread="thread-02")
    segments.append(connection, [segment(stream, 1, 3)])
    segments.append(connection, [segment(stream, 4, 4)])  # what `superseded` would be
    streams.close(connection, stream, NOW, other)
    late = segment(stream, 4, 3 + events)
    assert segments.append(connection, [late]) == {stream}
    assert segments.append(connection, [segment(other, 1, 2), late]) == {stream}
    assert segments.append(connection, [late, segment(other, 3, 4)]) == {stream}
    assert [s.last_seq for s in segments.read_after(connection, stream, 0)] == [3, 4]
    assert segments.last_seq(connection, other) == 4


@pytest.mark.requirement("R3")
def test_stream_that_does_not_exist_refuses_segments(connection: Connection) -> None:
    assert segments.append(connection, [segment(17, 1, 2)]) == {17}


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("alone", [False, True], ids=["in a transaction", "alone"])
@pytest.mark.parametrize("size", [1, 2, 3, 33, 2047, 2048, 2049, 4100])
def test_each_open_stream_of_a_commit_takes_its_segment_and_no_other_does(
    idle_connection: Connection, size: int, alone: bool
) -> None:
    """Whatever the size of the commit: it is one statement or several, with or without filling."""
    connection = idle_connection
    rng = random.Random(size)
    with connection.begin():
        turn = streams.get(connection, add_stream(connection)).turn
        row = {"turn": turn, "created_at": NOW, "pruned": 0}
        connection.execute(stream.insert(), [row | {"id": f"s{n}"} for n in range(size)])
        added = select(stream.c.number).where(stream.c.id != "s-turn-0001")
        numbers = sorted(connection.scalars(added))
        closed = {number for number in numbers if rng.random() < 0.1}
        connection.execute(update(stream).where(stream.c.number.in_(closed)).values(ended_at=NOW))
    first = [segment(number, 1, 1 + number % 3) for number in numbers]
    marked = [
        one._replace(checkpoint=b"mark %d" % one.stream) if one.stream % 50 == 7 else one
        for one in first
    ]
    if alone:
        assert segments.append_alone(connection, marked) == closed
    else:
        with connection.begin():
            assert segments.append(connection, marked) == closed
    taken = [one for one in marked if one.stream not in closed]
    with connection.begin():
        found = connection.execute(text("SELECT stream, last_seq, events, frames FROM segment"))
        assert sorted(found) == [one[:4] for one in taken]
        found = connection.execute(
            select(stream.c.number, stream.c.checkpoint).where(stream.c.checkpoint.is_not(None))
        )
        marks = {one.stream: one.checkpoint for one in taken if one.checkpoint is not None}
        assert dict(list(found)) == marks


def test_commit_alone_is_a_commit(idle_connection: Connection, tmp_path: Path) -> None:
    with idle_connection.begin():
        stream = add_stream(idle_connection)
    segments.append_alone(idle_connection, [segment(stream, 1, 2)])
    with closing(sqlite3.connect(tmp_path / "unbroken.db")) as other:
        assert other.execute("SELECT last_seq FROM segment").fetchall() == [(2,)]


@pytest.mark.requirement("R3")
def test_numbers_of_deleted_streams_and_turns_are_never_used_again(connection: Connection) -> None:
    """Otherwise a writer whose thread was deleted would write into a stranger's log."""
    stream = add_stream(connection)
    turn = streams.get(connection, stream).turn
    assert threads.remove(connection, "thread-01")
    following = add_stream(connection, "turn-0002", thread="thread-02")
    assert following > stream
    assert streams.get(connection, following).turn > turn
    assert segments.append(connection, [segment(stream, 1, 2)]) == {stream}
    with pytest.raises(LookupError):
        turns.by_number(connection, turn)


def test_one_seq_is_stored_once(connection: Connection) -> None:
    stream = add_stream(connection)
    segments.append(connection, [segment(stream, 1, 3)])
    with pytest.raises(IntegrityError):
        segments.append(connection, [segment(stream, 2, 3)])


@pytest.mark.requirement("L8")
def test_pruned_streams_lose_their_segments_and_no_others(connection: Connection) -> None:
    numbers = [add_stream(connection, f"turn-{n:04d}", thread=f"thread-{n}") for n in range(4)]
    segments.append(connection, [segment(n, 1, 3) for n in numbers])
    segments.prune(connection, numbers[1:3])
    left = [n for n in numbers if segments.read_after(connection, n, 0)]
    assert left == [numbers[0], numbers[3]]


@pytest.mark.requirement("L5")
def test_any_cut_into_segments_reads_the_same(connection: Connection) -> None:
    rng = random.Random(5)
    for n in range(30):
        stream = add_stream(connection, f"turn-{n:04d}", thread=f"thread-{n}")
        seq, total = 0, rng.randint(1, 60)
        while seq < total:
            last = min(total, seq + rng.randint(1, 9))
            segments.append(connection, [segment(stream, seq + 1, last)])
            seq = last
        for after in range(total + 1):
            found = segments.read_after(connection, stream, after)
            assert sum(s.events for s in found) >= total - after
            first = found[0].last_seq - found[0].events + 1 if found else total + 1
            assert first <= after + 1
            assert b"".join(s.frames for s in found) == frames(first, total)
