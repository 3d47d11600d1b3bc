"""The end of web/transport, bounded whatever its peers do; and peers that stop reading.

"Stalled" is a reader that keeps its connection and reads nothing. Its server blocks once the
sockets' buffers are full; the mock clock then moves only when nothing else can happen.
"""

import ssl
import tracemalloc
from collections.abc import AsyncGenerator

import pytest
import trio
from quart import Response
from trio.testing import MockClock

from tests.web.serving import PATIENCE_SECONDS, Client, Serve, Server
from web.transport import App, stream_response
from web.transport.sender import SLICE_BYTES, WRITE_SECONDS
from web.transport.server import CUT_SECONDS, GRACE_SECONDS


class Flood:
    """An application that sends for ever, and tells when that ended."""

    def __init__(self, chunk: int = SLICE_BYTES) -> None:
        self.app = App("flood")
        self.app.add_url_rule("/", view_func=self.stream)
        self.chunk = b"x" * chunk
        self.ended = trio.Event()

    async def stream(self) -> Response:
        return stream_response(self._body())

    async def _body(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield self.chunk
        finally:
            self.ended.set()


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    """Jumps once real sockets have been quiet for 50 ms."""
    autojump_clock.autojump_threshold = 0.05
    return autojump_clock


async def stall(server: Server, tls: ssl.SSLContext | None = None) -> Client:
    """A reader that reads the head and nothing more."""
    client = await server.connect(tls=tls, receive_buffer=8192)
    await client.get("/")
    await client.read_until(b"\r\n\r\n")
    return client


async def elapsed(event: trio.Event) -> float:
    started = trio.current_time()
    with trio.fail_after(1000):
        await event.wait()
    return trio.current_time() - started


# A stalled reader


async def test_a_stalled_reader_is_cut(serve: Serve, clock: MockClock) -> None:
    """Fault 4."""
    flood = Flood()
    server = await serve(flood.app)
    await stall(server)
    assert await elapsed(flood.ended) == pytest.approx(WRITE_SECONDS, abs=1)


async def test_a_stalled_reader_is_cut_under_tls(
    serve: Serve, clock: MockClock, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    flood = Flood()
    server = await serve(flood.app, tls=server_tls)
    await stall(server, client_tls)
    assert await elapsed(flood.ended) == pytest.approx(WRITE_SECONDS, abs=1)


async def test_a_slow_reader_is_not_cut(serve: Serve, clock: MockClock) -> None:
    """One chunk may take longer than the write deadline, as long as something is taken."""
    size = 40 * SLICE_BYTES
    app = App("replay")

    @app.get("/")
    async def replay() -> Response:
        async def body() -> AsyncGenerator[bytes, None]:
            yield b"x" * size
            yield b"end"

        return stream_response(body())

    server = await serve(app)
    client = await stall(server)
    started = trio.current_time()
    while trio.current_time() < started + 3 * WRITE_SECONDS:
        await client.read_exactly(SLICE_BYTES)
        await trio.sleep(WRITE_SECONDS / 4)
    await client.read_until(b"end\r\n0\r\n\r\n")


@pytest.mark.requirement("L5")
async def test_stalled_readers_of_the_same_bytes_cost_them_once(serve: Serve) -> None:
    chunk, readers = b"x" * 4_000_000, 20
    app = App("large")

    @app.get("/")
    async def large() -> Response:
        async def body() -> AsyncGenerator[bytes, None]:
            yield chunk

        return stream_response(body())

    server = await serve(app)
    tracemalloc.start()
    try:
        for _ in range(readers):
            await stall(server)
        await trio.testing.wait_all_tasks_blocked(0.05)
        present, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert present < 2 * len(chunk)


@pytest.mark.parametrize("way", ["close", "half-close"])
async def test_a_stalled_reader_that_leaves_ends_at_once(serve: Serve, way: str) -> None:
    flood = Flood()
    server = await serve(flood.app)
    client = await stall(server)
    await trio.testing.wait_all_tasks_blocked(0.05)
    if way == "close":
        await client.close()
    else:
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
    with trio.fail_after(WRITE_SECONDS / 2):
        await flood.ended.wait()


async def test_a_flood_lets_others_run(serve: Serve) -> None:
    """Nothing in this generator awaits, and the socket may take all: the transport must yield."""
    flood = Flood(chunk=20)
    app = flood.app

    @app.get("/other")
    async def other() -> str:
        return "other"

    server = await serve(app)
    reader, second = await server.connect(), await server.connect()
    await reader.get("/")
    await second.get("/other")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_away, reader)
        await second.read_until(b"\r\n\r\nother")
        nursery.cancel_scope.cancel()


async def read_away(client: Client) -> None:
    while await client.stream.receive_some(2**20):
        pass


# Shutdown


@pytest.mark.requirement("T7")
async def test_a_stalled_reader_does_not_block_shutdown(serve: Serve, clock: MockClock) -> None:
    """Fault 4, case P34: Hypercorn would wait for it, shielded, for as long as it likes."""
    flood = Flood()
    server = await serve(flood.app)
    await stall(server)
    await trio.testing.wait_all_tasks_blocked(0.01)
    server.draining.set()
    assert await elapsed(server.ended) == pytest.approx(CUT_SECONDS, abs=0.2)
    assert flood.ended.is_set()


@pytest.mark.requirement("T7")
async def test_readers_are_told_and_idle_connections_end(serve: Serve, clock: MockClock) -> None:
    app = App("draining")
    draining = trio.Event()

    @app.get("/stream")
    async def stream() -> Response:
        async def body() -> AsyncGenerator[bytes, None]:
            yield b": open\n\n"
            await draining.wait()
            yield b": draining\n\n"

        return stream_response(body())

    @app.get("/short")
    async def short() -> str:
        return "short"

    server = await serve(app)
    reader, idle, fresh = [await server.connect() for _ in range(3)]
    await reader.get("/stream")
    await reader.read_until(b": open\n\n")
    await idle.get("/short")
    await idle.read_until(b"short")
    draining.set()
    server.draining.set()
    assert await elapsed(server.ended) == 0
    assert (await reader.read_to_end()).endswith(b": draining\n\n\r\n0\r\n\r\n")
    assert await idle.read_to_end() == b""
    assert await fresh.read_to_end() == b""
    with pytest.raises(OSError, match="refused"):
        await server.connect()


async def test_a_request_may_finish_within_the_grace(serve: Serve, clock: MockClock) -> None:
    app = App("slow")

    @app.get("/<float:seconds>")
    async def slow(seconds: float) -> str:
        await trio.sleep(seconds)
        return "done"

    server = await serve(app)
    quick, late = await server.connect(), await server.connect()
    await quick.get("/1.5")
    await late.get("/60.0")
    await trio.testing.wait_all_tasks_blocked(0.01)
    server.draining.set()
    assert await elapsed(server.ended) == pytest.approx(GRACE_SECONDS, abs=0.2)
    assert (await quick.read_to_end()).endswith(b"done")
    assert (await late.read_to_end()).startswith(b"HTTP/1.1 500")


async def test_a_stream_that_ignores_the_drain_is_cut(serve: Serve, clock: MockClock) -> None:
    app = App("deaf")

    @app.get("/")
    async def deaf() -> Response:
        async def body() -> AsyncGenerator[bytes, None]:
            yield b": open\n\n"
            await trio.sleep_forever()

        return stream_response(body())

    server = await serve(app)
    client = await server.connect()
    await client.get("/")
    await client.read_until(b": open\n\n\r\n")
    server.draining.set()
    assert await elapsed(server.ended) == pytest.approx(GRACE_SECONDS, abs=0.2)
    assert await client.read_to_end() == b""  # no last chunk


async def test_cancelling_the_server_ends_it_at_once(serve: Serve, clock: MockClock) -> None:
    """A second signal does not wait, not even for a stalled reader."""
    flood = Flood()
    server = await serve(flood.app)
    await stall(server)
    await trio.testing.wait_all_tasks_blocked(0.01)
    server.cancel_scope.cancel()
    assert await elapsed(server.ended) == 0


async def test_a_server_ends_with_its_test(serve: Serve) -> None:
    """Fault 9: quart-trio's test client would hang here; tests use this server instead."""
    flood = Flood()
    server = await serve(flood.app)
    await stall(server)
    with trio.fail_after(PATIENCE_SECONDS):
        await server.close_clients()
        await flood.ended.wait()
        await server.stop()
