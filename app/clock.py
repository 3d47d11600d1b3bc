"""Wall-clock time and deadlines that hold through a suspended laptop and a restart (T3).

Trio's clock stops while the machine sleeps, so a scope's own deadline alone would let a turn that
may last an hour last a night. The keeper compares the two clocks and moves the deadlines when they
have drifted apart.
"""

import time
import weakref
from collections.abc import Callable

import trio

# How often the clocks are compared; the most a deadline can be late after a sleep.
COMPARE_SECONDS = 5.0
# Less than this is adjustment by the time service, not a sleep.
DRIFT_SECONDS = 1.0


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class WallClock:
    """`now_ms()` and scopes with deadlines in its terms. `source` is replaced in tests."""

    def __init__(self, source: Callable[[], int] = wall_ms) -> None:
        self.now_ms = source
        self._offset = self._measure()
        self._scopes: weakref.WeakKeyDictionary[trio.CancelScope, int]
        self._scopes = weakref.WeakKeyDictionary()

    def scope(self, deadline_ms: int | None) -> trio.CancelScope:
        """A cancel scope that expires at that wall-clock time; None: never."""
        scope = trio.CancelScope()
        if deadline_ms is not None:
            self.compare()  # it may just have been set: a new deadline must not lie in the past
            scope.deadline = deadline_ms / 1000 - self._offset
            self._scopes[scope] = deadline_ms
        return scope

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keeps the deadlines true to the wall clock until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(COMPARE_SECONDS)
            self.compare()

    def compare(self) -> None:
        """Move all deadlines if the clocks have drifted apart."""
        offset = self._measure()
        if abs(offset - self._offset) < DRIFT_SECONDS:
            return
        self._offset = offset
        for scope, deadline_ms in self._scopes.items():
            scope.deadline = deadline_ms / 1000 - offset

    def _measure(self) -> float:
        return self.now_ms() / 1000 - trio.current_time()
