"""The feed of changes: numbers, what is kept, and the bell."""

import pytest
import trio

from app.feed import KEEP_CHANGES, Change, Feed


def change(version: int) -> Change:
    return Change("thread-01", version, "running")


def filled(count: int) -> Feed:
    feed = Feed()
    for version in range(1, count + 1):
        feed.publish(change(version))
    return feed


def test_changes_are_numbered_from_one() -> None:
    feed = filled(3)
    assert feed.newest == 3
    assert feed.after(0) == [(1, change(1)), (2, change(2)), (3, change(3))]


def test_a_reader_gets_what_follows_its_number() -> None:
    feed = filled(5)
    assert feed.after(3) == [(4, change(4)), (5, change(5))]
    assert feed.after(5) == []


@pytest.mark.parametrize("number", [6, -1])
def test_a_number_of_another_life_is_told_to_start_again(number: int) -> None:
    assert filled(5).after(number) is None


def test_a_new_feed_has_nothing_and_says_so() -> None:
    assert Feed().after(0) == []
    assert Feed().epoch != Feed().epoch


def test_what_is_not_kept_any_more_is_not_passed_over_in_silence() -> None:
    """L6: a hole is told, never skipped."""
    feed = filled(KEEP_CHANGES + 10)
    assert feed.after(9) is None
    kept = feed.after(10)
    assert kept is not None
    assert [number for number, _ in kept] == list(range(11, KEEP_CHANGES + 11))
    assert [one.version for _, one in kept] == [number for number, _ in kept]


async def test_every_waiting_reader_wakes() -> None:
    feed = Feed()
    woken = 0

    async def reader() -> None:
        nonlocal woken
        bell = feed.bell
        assert feed.after(0) == []
        await bell.wait()
        assert feed.after(0) == [(1, change(1))]
        woken += 1

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(reader)
        await trio.testing.wait_all_tasks_blocked()
        feed.publish(change(1))
    assert woken == 3


async def test_a_change_between_look_and_wait_is_not_missed() -> None:
    """The bell was taken before the look, so it has rung by the time of the wait."""
    feed = Feed()
    bell = feed.bell
    assert feed.after(0) == []
    feed.publish(change(1))
    with trio.fail_after(5):
        await bell.wait()
    assert feed.after(0) == [(1, change(1))]
