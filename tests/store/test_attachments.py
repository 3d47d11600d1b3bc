"""Attached files: they live as long as a thread uses them, and unsent ones until they are old."""

from typing import Any

from sqlalchemy import Connection, event, text

from store import attachments, threads
from store.attachments import AttachmentRow
from tests.store.rows import NOW, add_thread

SIZE = 200_000


def test_a_file_of_two_threads_stays_until_both_are_deleted(connection: Connection) -> None:
    add_file(connection, "shared")
    add_file(connection, "own")
    use(connection, "thread-01", "shared", "own")
    use(connection, "thread-02", "shared")

    threads.remove(connection, "thread-01")
    assert files(connection) == ["shared"]
    assert attachments.find(connection, ["shared"])["shared"].data == b"x" * SIZE
    threads.remove(connection, "thread-02")
    assert files(connection) == []
    assert links(connection) == []


def test_the_last_thread_may_be_the_first_that_used_it(connection: Connection) -> None:
    add_file(connection, "shared")
    use(connection, "thread-01", "shared")
    use(connection, "thread-02", "shared")
    threads.remove(connection, "thread-02")
    assert files(connection) == ["shared"]
    assert links(connection) == [("shared", "thread-01")]
    threads.remove(connection, "thread-01")
    assert files(connection) == []


def test_a_thread_uses_a_file_once_however_often_it_names_it(connection: Connection) -> None:
    add_file(connection, "file")
    for ids in (["file"], ["file", "file"], ["file", "unknown"], []):
        use(connection, "thread-01", *ids)
    assert links(connection) == [("file", "thread-01")]
    threads.remove(connection, "thread-01")
    assert files(connection) == []


def test_only_old_files_that_no_thread_uses_are_pruned(connection: Connection) -> None:
    for id_ in ("shared", "own", "unsent"):
        add_file(connection, id_)
    add_file(connection, "new", NOW + 1)
    use(connection, "thread-01", "shared", "own")
    use(connection, "thread-02", "shared")
    attachments.prune(connection, NOW)
    assert files(connection) == ["new", "own", "shared", "unsent"]
    attachments.prune(connection, NOW + 1)
    assert files(connection) == ["new", "own", "shared"]
    threads.remove(connection, "thread-01")
    attachments.prune(connection, NOW + 1)
    assert files(connection) == ["new", "shared"]
    attachments.prune(connection, NOW + 2)
    assert files(connection) == ["shared"]


def test_a_deleted_thread_leaves_unsent_files_alone(connection: Connection) -> None:
    add_file(connection, "unsent")
    add_thread(connection, "thread-01")
    threads.remove(connection, "thread-01")
    assert files(connection) == ["unsent"]


def test_a_deletion_that_is_not_committed_has_deleted_nothing(idle_connection: Connection) -> None:
    with idle_connection.begin():
        add_file(idle_connection, "file")
        use(idle_connection, "thread-01", "file")
    with idle_connection.begin() as transaction:
        threads.remove(idle_connection, "thread-01")
        assert files(idle_connection) == []
        transaction.rollback()
    with idle_connection.begin():
        assert files(idle_connection) == ["file"]
        assert links(idle_connection) == [("file", "thread-01")]


def test_the_bytes_of_a_deleted_file_are_room_for_others(idle_connection: Connection) -> None:
    with idle_connection.begin():
        add_file(idle_connection, "file")
        use(idle_connection, "thread-01", "file")
        use(idle_connection, "thread-02", "file")
    with idle_connection.begin():
        threads.remove(idle_connection, "thread-01")
    assert free_bytes(idle_connection) < SIZE // 2
    with idle_connection.begin():
        threads.remove(idle_connection, "thread-02")
    assert free_bytes(idle_connection) > SIZE // 2


def test_nothing_reads_through_all_files(connection: Connection) -> None:
    """Their rows are megabytes long, and housekeeping comes every minute."""
    add_thread(connection)
    plans: list[str] = []

    def explain(_c: object, cursor: Any, statement: str, values: Any, *_more: object) -> None:
        plan = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        plans.extend(row[3] for row in plan)

    event.listen(connection, "before_cursor_execute", explain)
    attachments.use(connection, ["file"], "thread-01")
    attachments.prune(connection, NOW)
    attachments.release(connection, "thread-01")
    # Both references are followed with each deletion of what they refer to.
    for column in ("attachment", "thread"):
        connection.execute(text(f"DELETE FROM attachment_use WHERE {column} = 'a'"))
    event.remove(connection, "before_cursor_execute", explain)
    assert len(plans) >= 5
    assert not [step for step in plans if step.startswith("SCAN") and "CONSTANT" not in step]


def add_file(connection: Connection, id_: str, now: int = NOW) -> None:
    attachments.add(connection, AttachmentRow(id_, id_, "text/plain", SIZE, b"x" * SIZE), now)


def use(connection: Connection, thread: str, *ids: str) -> None:
    add_thread(connection, thread)
    attachments.use(connection, ids, thread)


def files(connection: Connection) -> list[str]:
    return list(connection.scalars(text("SELECT id FROM attachment ORDER BY id")))


def links(connection: Connection) -> list[tuple[str, str]]:
    query = "SELECT attachment, thread FROM attachment_use ORDER BY attachment, thread"
    return [(row.attachment, row.thread) for row in connection.execute(text(query))]


def free_bytes(connection: Connection) -> int:
    with connection.begin():
        pages = connection.execute(text("PRAGMA freelist_count")).scalar_one()
        size = connection.execute(text("PRAGMA page_size")).scalar_one()
    return int(pages * size)
