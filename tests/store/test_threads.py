"""Threads: pages of a list, versions, and deleting all a thread has."""

import random

import pytest
from sqlalchemy import Connection, text

from store import attachments, messages, search, segments, streams, threads, turns
from store.attachments import AttachmentRow
from tests.store.rows import NOW, add_message, add_stream, add_thread, add_turn, row_counts, segment


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_have_no_hole_and_no_repeat_under_equal_times(
    connection: Connection, limit: int
) -> None:
    rng = random.Random(limit)
    for n in rng.sample(range(40), 40):
        add_thread(connection, f"thread-{n:02d}", NOW + n // 8)
        if n % 9 == 0:
            threads.touch(connection, f"thread-{n:02d}", None, pinned=1)
    whole = threads.page(connection, 1_000)
    assert [row.pinned for row in whole] == [1] * 5 + [0] * 35
    for pinned in (0, 1):
        times = [row.updated_at for row in whole if row.pinned == pinned]
        assert times == sorted(times, reverse=True)

    seen: list[str] = []
    page = threads.page(connection, limit)
    while page:
        assert len(page) <= limit
        seen += [row.id for row in page]
        page = threads.page(connection, limit, page[-1].position)
    assert seen == [row.id for row in whole]
    assert len(set(seen)) == 40


def test_each_change_counts_one_version(connection: Connection) -> None:
    add_thread(connection)
    assert threads.touch(connection, "thread-01", NOW + 5, leaf="m1") == 1
    assert threads.touch(connection, "thread-01", None, title="Renamed") == 2
    row = threads.find(connection, "thread-01")
    assert row is not None
    assert (row.leaf, row.title, row.version) == ("m1", "Renamed", 2)
    assert (row.created_at, row.updated_at) == (NOW, NOW + 5)
    assert threads.touch(connection, "thread-02", NOW) is None


def test_state_is_that_of_the_open_turns(connection: Connection) -> None:
    add_thread(connection)
    assert state(connection) == "idle"
    first = add_turn(connection, "turn-0001")
    assert state(connection) == "queued"
    turns.start(connection, first, NOW, None)
    add_turn(connection, "turn-0002")
    assert state(connection) == "running"
    stream = turns.by_number(connection, first).stream
    turns.end(connection, first, stream, "finished", b"{}", NOW)
    assert state(connection) == "queued"
    assert [row.state for row in threads.page(connection, 10)] == ["queued"]


def test_removing_leaves_no_row_in_any_table(connection: Connection) -> None:
    fill(connection, "thread-02", "b")
    kept, kept_words = row_counts(connection), words(connection)
    fill(connection, "thread-01", "a")
    grown = row_counts(connection)
    tables = ["thread", "message", "turn", "step", "stream", "segment", "cancel_intent"]
    assert all(grown[name] > kept[name] for name in [*tables, "attachment", "attachment_use"])
    assert words(connection) > kept_words

    assert threads.remove(connection, "thread-01")
    assert not search.forget(connection, search.left_over(connection, 1_000), 60)
    left = {name: count for name, count in row_counts(connection).items() if name in kept}
    assert {n: c for n, c in left.items() if not n.startswith("message_text_")} == {
        n: c for n, c in kept.items() if not n.startswith("message_text_")
    }
    assert words(connection) == kept_words
    assert not threads.remove(connection, "thread-01")


def test_words_of_a_deleted_message_are_found_no_more_and_never_as_another_one_s(
    connection: Connection,
) -> None:
    search.put(connection, add_message(connection, "m1", thread="thread-01"), "left over")
    threads.remove(connection, "thread-01")
    assert search.find(connection, ["left"], 10) == []
    # Numbers of messages are used again; an answer that begins has no words of its own yet.
    add_message(connection, "m2", thread="thread-02", role="assistant")
    assert search.find(connection, ["left"], 10) == []
    search.put(connection, "m2", "words that stay")
    assert not search.forget(connection, search.left_over(connection, 10), 60)
    assert words(connection) == 1
    assert [hit.message for hit in search.find(connection, ["stay"], 10)] == ["m2"]


def test_words_are_taken_out_in_pieces(connection: Connection) -> None:
    for n in range(5):
        search.put(connection, add_message(connection, f"m{n}"), "left over")
    assert search.left_over(connection, 10) == []
    threads.remove(connection, "thread-01")
    numbers = search.left_over(connection, 3)
    assert len(numbers) == 3
    assert search.forget(connection, numbers, 0) == numbers[1:], "one at least"
    assert words(connection) == 4
    # What has become a message's in the meantime stays.
    search.put(connection, add_message(connection, "m9", thread="thread-02"), "stays")
    number = connection.execute(text("SELECT number FROM message")).scalar_one()
    assert search.forget(connection, [number], 60) == []
    assert words(connection) == 5


def fill(connection: Connection, thread: str, mark: str) -> None:
    """A row of the thread in every table that can have one."""
    question = add_message(connection, f"{mark}-question", thread=thread)
    search.put(connection, question, "some words")
    id_ = add_message(connection, f"{mark}-answer", question, thread=thread, role="assistant")
    messages.set_parts(connection, id_, b"[1]")
    first = add_stream(connection, id_, thread=thread)
    number = streams.get(connection, first).turn
    second = streams.create(connection, f"{mark}-second", number, NOW)
    segments.append(connection, [segment(first, 1, 2), segment(second, 1, 3)])
    streams.close(connection, first, NOW, second)
    turns.recover(connection, number, second, counted=True)
    turns.add_step(connection, number, 0, b"{}")
    turns.add_intent(connection, f"{mark}-other", thread, NOW)
    file = AttachmentRow(f"{mark}-file", "name", "text/plain", 3, b"abc")
    attachments.add(connection, file, NOW)
    attachments.use(connection, [file.id], thread)


def words(connection: Connection) -> int:
    return int(connection.execute(text("SELECT count(*) FROM message_text")).scalar_one())


def state(connection: Connection) -> str:
    row = threads.find(connection, "thread-01")
    assert row is not None
    return row.state
