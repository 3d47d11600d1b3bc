"""web/transport/sender: order and completeness of sends over a real socket pair."""

import socket
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from tests.web.serving import PATIENCE_SECONDS
from web.transport.sender import BURST_SENDS, WRITE_SECONDS, Sender, WritePatience


class Pipe:
    """A sender, and the socket at its other end."""

    def __init__(self, *, direct: bool = True) -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        self.peer = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        self.patience = WritePatience()
        self.losses = 0
        self.sender = Sender(
            self._stream,
            ours if direct else None,
            patience=self.patience,
            on_loss=self._lost,
        )

    def _lost(self) -> None:
        self.losses += 1

    async def read(self, size: int) -> bytes:
        data = b""
        with trio.fail_after(PATIENCE_SECONDS):
            while len(data) < size:
                piece = await self.peer.receive_some(size - len(data))
                assert piece
                data += piece
        return data

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
        await trio.aclose_forcefully(self.peer)


@pytest.fixture(params=[True, False], ids=["direct", "through the stream"])
async def pipe(request: pytest.FixtureRequest) -> AsyncIterator[Pipe]:
    made = Pipe(direct=request.param)
    yield made
    await made.aclose()


async def test_racing_chunks_neither_mix_nor_change_order(
    pipe: Pipe, nursery: trio.Nursery
) -> None:
    chunks = [bytes([65 + i]) * size for i, size in enumerate([100_000, 3, 70_000, 1, 5])]
    for chunk in chunks:
        nursery.start_soon(pipe.sender.write, chunk)
        await trio.testing.wait_all_tasks_blocked()
    expected = b"".join(chunks)
    assert await pipe.read(len(expected)) == expected


async def test_a_cancelled_write_is_completed(pipe: Pipe, nursery: trio.Nursery) -> None:
    """A request may be cancelled at any moment; the bytes after it must still make sense."""
    scope = trio.CancelScope()

    async def cancelled_request() -> None:
        with scope:
            await pipe.sender.write(b"a" * 300_000)

    nursery.start_soon(cancelled_request)
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()
    nursery.start_soon(pipe.sender.write, b"next")
    assert await pipe.read(300_004) == b"a" * 300_000 + b"next"
    assert pipe.losses == 0


async def test_pieces_stay_together_also_when_cancelled(pipe: Pipe, nursery: trio.Nursery) -> None:
    scope = trio.CancelScope()
    pieces = (b"head", b"a" * 300_000, b"tail")

    async def cancelled_request() -> None:
        with scope:
            await pipe.sender.write_together(pieces)

    nursery.start_soon(cancelled_request)
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()
    nursery.start_soon(pipe.sender.write, b"next")
    whole = b"".join((*pieces, b"next"))
    assert await pipe.read(len(whole)) == whole
    assert pipe.losses == 0


async def test_pieces_cancelled_before_the_first_are_not_sent(
    pipe: Pipe, nursery: trio.Nursery
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await pipe.sender.write_together((b"never", b"sent"))
    nursery.start_soon(pipe.sender.write, b"next")
    assert await pipe.read(4) == b"next"


async def test_a_write_cancelled_in_the_queue_sends_nothing(
    pipe: Pipe, nursery: trio.Nursery
) -> None:
    nursery.start_soon(pipe.sender.write, b"a" * 300_000)
    await trio.testing.wait_all_tasks_blocked()
    with trio.CancelScope() as scope:
        scope.cancel()
        await pipe.sender.write(b"never sent")
    nursery.start_soon(pipe.sender.write, b"next")
    assert await pipe.read(300_004) == b"a" * 300_000 + b"next"


async def test_a_peer_that_closes_in_a_write_is_lost(pipe: Pipe, nursery: trio.Nursery) -> None:
    for _ in range(2):
        nursery.start_soon(pipe.sender.write, b"a" * 300_000)
    await trio.testing.wait_all_tasks_blocked()
    await pipe.peer.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert pipe.losses >= 1
    assert pipe.sender.finished
    await pipe.sender.write(b"into the void")


async def test_a_lost_peer_is_found_by_the_next_write(pipe: Pipe) -> None:
    await pipe.peer.aclose()
    await pipe.sender.write(b"heartbeat")
    assert pipe.losses >= 1


async def test_a_write_waits_no_longer_than_the_deadline(
    pipe: Pipe, autojump_clock: MockClock
) -> None:
    await pipe.sender.write(b"a" * 300_000)
    assert trio.current_time() == pytest.approx(WRITE_SECONDS)
    assert pipe.losses >= 1


async def test_the_cut_shortens_waits_that_run_and_forbids_later_ones(
    pipe: Pipe, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    nursery.start_soon(pipe.sender.write, b"a" * 300_000)
    await trio.testing.wait_all_tasks_blocked()
    pipe.patience.cut_at = 1.0
    pipe.sender.hurry()
    await trio.sleep(1.5)
    assert pipe.losses >= 1
    late = Pipe()
    late.patience.cut_at = 1.0
    await late.sender.write(b"a" * 300_000)
    assert trio.current_time() == pytest.approx(1.5)
    assert late.losses >= 1
    await late.aclose()


async def test_finish_ends_our_half_only() -> None:
    pipe = Pipe()
    await pipe.sender.write(b"last")
    assert pipe.sender.finish()
    assert await pipe.read(4) == b"last"
    assert await pipe.peer.receive_some(1) == b""
    await pipe.sender.write(b"more")
    assert pipe.losses == 0
    await pipe.aclose()


async def test_finish_never_cuts_a_write_that_waits(pipe: Pipe, nursery: trio.Nursery) -> None:
    nursery.start_soon(pipe.sender.write, b"a" * 300_000)
    await trio.testing.wait_all_tasks_blocked()
    assert not pipe.sender.finish()
    assert await pipe.read(300_000) == b"a" * 300_000


async def test_a_burst_yields_to_others() -> None:
    """Each send alone would not: nothing in it waits."""
    pipe = Pipe()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(BURST_SENDS * 10):
            await pipe.sender.write(b"")
        assert turns >= 5
        nursery.cancel_scope.cancel()
    await pipe.aclose()
