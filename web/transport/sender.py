"""The sending half of a connection: cheap while the socket takes all, bounded when it does not.

A send either completes or loses the connection: a chunk is never left half sent. None waits for its
peer longer than the write deadline, and after a drain no longer than the cut.
"""

import math
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]

# A peer that takes nothing for so long is cut; it resumes with Last-Event-ID when it is back.
WRITE_SECONDS = 20.0
# What must be taken within the write deadline: a slow reader (3 kB/s) of a long replay is not cut.
SLICE_BYTES = 2**16
# Sends between two checkpoints when the socket takes all: about 0.5 ms; a checkpoint costs 3.5 us.
BURST_SENDS = 64


@dataclass
class WritePatience:
    """Until when a send may wait for its peer; one for all connections of a transport."""

    # Absolute Trio time after which none may wait; set once, when the transport drains.
    cut_at: float = math.inf

    def deadline(self) -> float:
        return min(trio.current_time() + WRITE_SECONDS, self.cut_at)


class Sender:
    """Sends the bytes of any number of tasks, in order, over one stream."""

    def __init__(
        self,
        stream: Stream,
        raw: socket.socket | None,
        *,
        patience: WritePatience,
        on_loss: Callable[[], None],
    ) -> None:
        """`raw`: the plain socket below `stream`, or None where bytes must go through it (TLS).
        `on_loss` is called, perhaps more than once, when the peer is gone or given up."""
        self._stream = stream
        self._raw = raw
        self._patience = patience
        self._on_loss = on_loss
        # Nothing more is sent; writes return at once. Set by finish() and lose(), never unset.
        self.finished = False
        # Held by a send that waits for the peer; those behind it queue here, in order.
        self._lock = trio.Lock()
        self._waiting: trio.CancelScope | None = None
        self._burst = 0

    async def write(self, data: bytes) -> None:
        """Send all of it, or lose the connection; returns either way.

        While the socket takes all there is neither lock, nor shield, nor a checkpoint for each send
        (those cost 25 of Hypercorn's 37 us a chunk). Nothing awaits between looking at the lock
        and sending, so chunks of several tasks cannot mix.
        """
        rest: memoryview | bytes = data
        if self._lock.locked():
            await self._lock.acquire()
        else:
            rest = self._send_now(data)
            if not rest:
                await self._pace()
                return
            self._lock.acquire_nowait()  # half of it may be on the wire: no way back
        try:
            await self._send_waiting(rest)
        finally:
            self._lock.release()
        await trio.lowlevel.checkpoint()

    async def write_together(self, pieces: Sequence[bytes]) -> None:
        """As `write` of all of them, without a copy: nothing comes between two."""
        async with self._lock:
            for piece in pieces:
                await self._send_waiting(piece)
        await trio.lowlevel.checkpoint()

    def _send_now(self, data: bytes) -> memoryview | bytes:
        """Returns what the socket did not take at once."""
        if self.finished or not data:
            return b""
        if self._raw is None:
            return data
        try:
            sent = self._raw.send(data)
        except BlockingIOError:
            return data
        except OSError:
            self.lose()
            return b""
        return b"" if sent == len(data) else memoryview(data)[sent:]

    async def _pace(self) -> None:
        """Let others run now and then, also when nothing ever blocks."""
        self._burst += 1
        if self._burst >= BURST_SENDS:
            self._burst = 0
            await trio.lowlevel.checkpoint()

    async def _send_waiting(self, rest: memoryview | bytes) -> None:
        """Shielded: a cancelled request must not leave half a chunk before the next bytes. No
        checkpoint."""
        whole = memoryview(rest)
        for start in range(0, len(whole), SLICE_BYTES):
            if self.finished:
                break
            piece = whole[start : start + SLICE_BYTES]
            with trio.CancelScope(shield=True, deadline=self._patience.deadline()) as waiting:
                self._waiting = waiting
                try:
                    await self._stream.send_all(piece)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.lose()
            self._waiting = None
            if waiting.cancelled_caught:
                self.lose()
        self._burst = 0

    # Ending

    def finish(self) -> bool:
        """End our half after what was sent. False when that cannot be done without loss: under
        TLS, with a send that waits, or on a dead socket."""
        if self._raw is None or self._lock.locked():
            return False
        self.finished = True
        try:
            self._raw.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        return True

    def lose(self) -> None:
        """The peer is gone or given up: no send waits any longer. Idempotent."""
        self.finished = True
        if self._waiting is not None:
            self._waiting.cancel()
        self._on_loss()

    def hurry(self) -> None:
        """Apply a patience that has become shorter to the send that waits."""
        if self._waiting is not None:
            self._waiting.deadline = self._patience.deadline()
