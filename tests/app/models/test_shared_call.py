"""Blocking work that ignores cancellation: abandoned, shared, bounded (PROTOCOLS.md, E3)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from app.models.shared_call import MOST_CALLS, PATIENCE_SECONDS, SharedCall

pytestmark = pytest.mark.requirement("S2")


class Slow:
    """A blocking function that returns how many calls began before it, when it is let go."""

    def __init__(self) -> None:
        self.calls = 0
        self.go = threading.Event()
        self._began = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        self._began.release()
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        return number

    async def begun(self) -> None:
        """Wait until one more call is in its thread."""
        assert await trio.to_thread.run_sync(self._began.acquire, True, 30)


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.go.set()  # no thread outlives its test


async def test_those_who_wait_together_share_one_call(slow: Slow) -> None:
    shared = SharedCall(slow, name="test")
    found: list[int] = []

    async def ask() -> None:
        found.append(await shared())

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
        await slow.begun()
        slow.go.set()
    assert found == [1] * 20
    assert await shared() == 2  # what was found is not kept here


@pytest.mark.requirement("C2")
async def test_a_waiter_leaves_at_once_and_the_others_stay(slow: Slow) -> None:
    shared = SharedCall(slow, name="test")
    found: list[int] = []

    async def stay() -> None:
        found.append(await shared())

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0.01) as scope:
            await shared()  # the one that began it
        assert scope.cancelled_caught
        assert not slow.go.is_set()
        nursery.start_soon(stay)
        await trio.testing.wait_all_tasks_blocked()
        slow.go.set()
    assert found == [1]


async def test_an_error_reaches_every_waiter(slow: Slow) -> None:
    shared = SharedCall(slow, name="test")
    slow.error = OSError("no")
    failed = 0

    async def ask() -> None:
        nonlocal failed
        with pytest.raises(OSError, match="no"):
            await shared()
        failed += 1

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        slow.go.set()
    assert (failed, slow.calls) == (3, 1)


async def test_a_call_that_hangs_is_given_up_but_not_for_ever_anew(
    slow: Slow, mock_clock: MockClock
) -> None:
    shared = SharedCall(slow, name="test")
    for number in range(1, MOST_CALLS + 3):
        with trio.CancelScope() as scope:
            scope.cancel(reason="this waiter leaves")
            await shared()
        mock_clock.jump(PATIENCE_SECONDS + 1)
        while slow.calls < min(number, MOST_CALLS):  # its thread begins
            await trio.lowlevel.checkpoint()
    assert slow.calls == MOST_CALLS
    slow.go.set()
    assert await shared() >= MOST_CALLS


def test_the_end_of_the_program_waits_for_no_call(slow: Slow) -> None:
    shared = SharedCall(slow, name="test")

    async def main() -> None:
        with trio.move_on_after(0.01):
            await shared()

    trio.run(main)
    assert slow.calls == 1
    assert not slow.go.is_set()


def test_a_result_after_the_end_of_the_program_is_nobodys(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Any] = []
    monkeypatch.setattr(
        "trio.lowlevel.start_thread_soon", lambda _function, deliver, _name: threads.append(deliver)
    )

    async def main() -> None:
        with trio.move_on_after(0):
            await SharedCall(slow, name="test")()

    trio.run(main)
    [deliver] = threads
    deliver(None)  # in its thread, which must not end with an error that nobody sees
