"""Blocking calls that ignore cancellation: abandoned by who waits, never made twice at once (E3).

A refresh of credentials can hang in a network or a helper program for minutes. Trio cannot stop it,
but nothing has to wait for it: each waiter leaves when its own deadline, or the person, says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import trio

T = TypeVar("T")

# Who comes later than this after a call began does not join it: it has hung.
PATIENCE_SECONDS = 60.0
# Calls that hang, and so threads that are lost; then nobody begins another one.
MOST_CALLS = 4


@dataclass(eq=False)
class _Call:
    began: float
    done: trio.Event = field(default_factory=trio.Event)
    # trio's `outcome`: set together with `done`.
    outcome: Any = None


class SharedCall(Generic[T]):
    """A blocking function. Of those who want its result at the same time, each gets the same."""

    def __init__(self, function: Callable[[], T], *, name: str) -> None:
        """`name`: of the thread. What the function raises reaches every waiter."""
        self._function = function
        self._name = name
        # Those under way, the newest last.
        self._calls: list[_Call] = []

    async def __call__(self) -> T:
        """Wait for a call, begun for this or under way already. Cancellation ends the wait."""
        now = trio.current_time()
        last = self._calls[-1] if self._calls else None
        if last is None or (now - last.began > PATIENCE_SECONDS and len(self._calls) < MOST_CALLS):
            last = self._begin(now)
        await last.done.wait()
        error = getattr(last.outcome, "error", None)
        if error is not None:
            raise error
        result: T = last.outcome.value
        return result

    def _begin(self, now: float) -> _Call:
        call = _Call(now)
        token = trio.lowlevel.current_trio_token()

        def finished(outcome: Any) -> None:
            call.outcome = outcome
            call.done.set()
            self._calls.remove(call)

        def deliver(outcome: Any) -> None:  # in the thread
            try:
                token.run_sync_soon(finished, outcome)
            except trio.RunFinishedError:
                pass  # the program has ended meanwhile

        self._calls.append(call)
        # A thread of trio's own cache: a daemon, so it does not hold up the end of the program.
        trio.lowlevel.start_thread_soon(self._function, deliver, self._name)
        return call
