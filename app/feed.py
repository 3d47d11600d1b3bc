"""Which threads changed: versions without content, for lists, badges and other tabs.

Kept in memory only: whoever missed more than is kept, or knew another process, loads the list
again.
"""

import secrets
from collections import deque
from typing import Literal

import msgspec
import trio

KEEP_CHANGES = 1_000

ThreadState = Literal["idle", "queued", "running"]


class Change(msgspec.Struct, frozen=True):
    """One change of one thread. `version` as in the thread; 0 for a deleted one."""

    thread: str
    version: int
    state: ThreadState
    deleted: bool = False


class Feed:
    """Numbered changes of this process' life. `epoch` names that life."""

    def __init__(self) -> None:
        self.epoch = secrets.token_urlsafe(9)
        self.newest = 0
        self.bell = trio.Event()  # swapped at each ring: take it, look, then wait for it
        self._kept: deque[Change] = deque(maxlen=KEEP_CHANGES)

    def publish(self, change: Change) -> None:
        self._kept.append(change)
        self.newest += 1
        self.ring()

    def ring(self) -> None:
        """Wake every waiting reader."""
        bell, self.bell = self.bell, trio.Event()
        bell.set()

    def after(self, number: int) -> list[tuple[int, Change]] | None:
        """The changes after that number, with theirs; None if some are not kept any more."""
        missing = self.newest - number
        if not 0 <= missing <= len(self._kept):
            return None
        first = self.newest - len(self._kept) + 1
        return [(n, c) for n, c in enumerate(self._kept, first) if n > number]
