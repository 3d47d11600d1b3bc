"""Messages: the tree of a thread and its branches."""

import random

from sqlalchemy import Connection

from store import messages
from tests.store.rows import add_message


def test_path_is_the_branch_from_its_root_to_the_message(connection: Connection) -> None:
    #  a ── b ── c ── d
    #       └─── e ── f ── g        x ── y   (another root of the same thread)
    add_tree(connection, "a ", "ba", "cb", "eb", "fe", "dc", "x ", "gf", "yx")
    paths = {id_: path(connection, id_) for id_ in "abcdefgxy"}
    assert paths == {
        "a": "a",
        "b": "ab",
        "c": "abc",
        "d": "abcd",
        "e": "abe",
        "f": "abef",
        "g": "abefg",
        "x": "x",
        "y": "xy",
    }
    assert [row.id for row in messages.of_thread(connection, "thread-01")] == list("abcefdxgy")


def test_path_of_an_unknown_message_is_empty(connection: Connection) -> None:
    add_message(connection, "a")
    assert path(connection, "b") == ""


def test_path_follows_the_parent_that_was_set_last(connection: Connection) -> None:
    """An interruption puts an answer before a question that waits: the parent is the newer row."""
    add_tree(connection, "a ", "ba", "dc", "cb")
    add_message(connection, "n", "b")
    messages.set_parent(connection, "d", "n")
    assert path(connection, "d") == "abnd"


def test_path_of_any_tree_is_what_walking_up_gives(connection: Connection) -> None:
    rng = random.Random(11)
    parents: dict[str, str | None] = {}
    for n in range(300):
        parent = rng.choice([None, *list(parents)[-20:]]) if parents else None
        id_ = f"m{n:03d}"
        parents[id_] = add_message(connection, id_, parent) and parent
    for id_ in parents:
        walked: list[str] = []
        at: str | None = id_
        while at is not None:
            walked.insert(0, at)
            at = parents[at]
        assert [row.id for row in messages.path_to(connection, id_)] == walked


def test_long_branch_is_read_whole(connection: Connection) -> None:
    parent = None
    ids = [f"m{n}" for n in range(1_500)]
    for id_ in ids:
        parent = add_message(connection, id_, parent)
    assert [row.id for row in messages.path_to(connection, ids[-1])] == ids


def test_ring_of_parents_does_not_hold_the_reader(connection: Connection) -> None:
    """No function makes one; a database that has one must not hang its readers for ever."""
    add_message(connection, "a", "b")
    add_message(connection, "b", "a")
    assert path(connection, "a") == "ba"


def test_parts_are_the_bytes_that_were_set(connection: Connection) -> None:
    add_message(connection, "a")
    messages.set_parts(connection, "a", b'[{"type":"text","text":"\xc3\xa9|"}]')
    row = messages.find(connection, "a")
    assert row is not None
    assert row.parts == b'[{"type":"text","text":"\xc3\xa9|"}]'
    assert messages.find(connection, "b") is None


def add_tree(connection: Connection, *edges: str) -> None:
    """Messages with names of one letter, each with that of its parent behind it."""
    for edge in edges:
        add_message(connection, edge[0], edge[1].strip() or None)


def path(connection: Connection, id_: str) -> str:
    return "".join(row.id for row in messages.path_to(connection, id_))
