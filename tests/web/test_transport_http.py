"""HTTP/1.1 as web/transport serves it: framing, the end of responses, the end of readers.

Real sockets; time, where it matters, is Trio's mock clock. The fault numbers are those of
web/transport/__init__.py.
"""

import logging
import ssl
from collections.abc import AsyncGenerator

import pytest
import trio
import trustme
from quart import request
from quart.typing import ResponseReturnValue
from trio.testing import MockClock

from tests.web.serving import PATIENCE_SECONDS, Client, Serve
from web.transport import App, stream_response
from web.transport.connection import READ_AHEAD_BYTES
from web.transport.server import KEEP_ALIVE_SECONDS

LAST_CHUNK = b"0\r\n\r\n"


class Streams:
    """An application with one stream, which sends a line for each `say` and tells when it ends."""

    def __init__(self) -> None:
        self.app = App("streams")
        self.app.add_url_rule("/stream", view_func=self.stream)
        self.app.add_url_rule("/short", view_func=self.short)
        self.ended = trio.Event()
        self._lines, self._source = trio.open_memory_channel[bytes](100)

    def say(self, line: bytes) -> None:
        self._lines.send_nowait(line)

    async def short(self) -> ResponseReturnValue:
        return "short"

    async def stream(self) -> ResponseReturnValue:
        return stream_response(self._body())

    async def _body(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b": open\n\n"
            while True:
                line = await self._source.receive()
                if line == b"end":
                    return
                if line == b"fail":
                    raise ValueError("a fault of the generator")
                yield line
        finally:
            self.ended.set()

    async def has_ended(self) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            await self.ended.wait()


@pytest.fixture
def streams() -> Streams:
    return Streams()


def chunks(body: bytes) -> list[bytes]:
    """Decode a chunked body strictly; without the last chunk it is not one."""
    found: list[bytes] = []
    while True:
        size, _, body = body.partition(b"\r\n")
        chunk, body = body[: int(size, 16)], body[int(size, 16) :]
        assert body[:2] == b"\r\n"
        body = body[2:]
        if not chunk:
            assert body == b""
            return found
        found.append(chunk)


async def open_stream(client: Client, *headers: str) -> bytes:
    """The head of the response."""
    await client.get("/stream", *headers)
    head = await client.read_until(b"\r\n\r\n")
    assert b": open" in await client.read_until(b"\n\n\r\n")
    return head


# The end of a response


async def test_an_idle_connection_is_closed_after_a_response(
    serve: Serve, streams: Streams, autojump_clock: MockClock
) -> None:
    """Fault 1: Quart's cancellation used to hit Hypercorn before it armed its idle timer."""
    autojump_clock.autojump_threshold = 0.05
    server = await serve(streams.app)
    client = await server.connect()
    await client.get("/short")
    await client.read_until(b"short")
    started = trio.current_time()
    with trio.fail_after(KEEP_ALIVE_SECONDS * 2):
        assert await client.stream.receive_some(1) == b""
    assert trio.current_time() - started == pytest.approx(KEEP_ALIVE_SECONDS, abs=1)


async def test_connection_close_is_obeyed(serve: Serve, streams: Streams) -> None:
    """Fault 1."""
    server = await serve(streams.app)
    client = await server.connect()
    await client.get("/short", "Connection: close")
    answer = await client.read_to_end()
    assert answer.endswith(b"short")
    assert b"connection: close" in answer.lower()


async def test_a_connection_is_used_again_after_a_stream(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    await open_stream(client)
    streams.say(b"end")
    await client.read_until(LAST_CHUNK)
    await client.get("/short")
    assert (await client.read_until(b"short")).startswith(b"HTTP/1.1 200")


async def test_the_thousandth_request_is_not_the_last(serve: Serve, streams: Streams) -> None:
    """Fault 6: Hypercorn ends a connection after 1000 requests, with the streams on it."""
    server = await serve(streams.app)
    client = await server.connect()
    for _ in range(1001):
        await client.get("/short")
        await client.read_until(b"short")
    head = await open_stream(client)
    assert b"connection: close" not in head.lower()


async def test_a_response_outlives_quarts_own_limit(
    serve: Serve, streams: Streams, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    server = await serve(streams.app)
    client = await server.connect()
    await open_stream(client)
    await trio.sleep(3600)
    streams.say(b"still here\n\n")
    await client.read_until(b"still here")


async def test_streams_are_marked_for_proxies(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    head = (await open_stream(client, "Accept-Encoding: gzip, br")).lower()
    assert b"content-type: text/event-stream\r\n" in head
    assert b"cache-control: no-cache, no-transform\r\n" in head
    assert b"x-accel-buffering: no\r\n" in head
    for unwanted in (b"connection:", b"content-encoding", b"content-length", b"server:"):
        assert unwanted not in head


# Framing


async def test_chunks_are_framed_as_http_wants(serve: Serve) -> None:
    """The short path for chunks, up to sizes the socket does not take at once."""
    sizes = [1, 15, 16, 4096, 1_000_000, 3]
    app = App("sizes")

    @app.get("/")
    async def sized() -> ResponseReturnValue:
        async def body() -> AsyncGenerator[bytes, None]:
            for size in sizes:
                yield b"x" * size
                yield b""

        return stream_response(body())

    server = await serve(app)
    client = await server.connect()
    await client.get("/", "Connection: close")
    await client.read_until(b"\r\n\r\n")
    assert [len(chunk) for chunk in chunks(await client.read_to_end())] == sizes


async def test_http_1_0_gets_the_bare_body_and_the_end(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    await client.get("/stream", version="1.0")
    head = await client.read_until(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    streams.say(b"line\n\n")
    streams.say(b"end")
    assert await client.read_to_end() == b": open\n\nline\n\n"


async def test_head_has_no_body(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    streams.say(b"end")
    await client.get("/stream", method="HEAD")
    await client.read_until(b"\r\n\r\n")
    await client.get("/short")
    assert (await client.read_until(b"short")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_body_has_none(serve: Serve, status: int) -> None:
    app = App("empty")

    @app.get("/")
    async def nothing() -> ResponseReturnValue:
        return b"", status

    server = await serve(app)
    client = await server.connect()
    for _ in range(2):
        await client.get("/")
        assert f" {status} ".encode() in await client.read_until(b"\r\n\r\n")
    await client.get("/", "Connection: close")
    assert (await client.read_to_end()).endswith(b"\r\n\r\n")


async def test_a_stated_length_is_kept(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """h11 still counts here: what is too short is cut, and what is too long never passes."""
    app = App("lengths")

    @app.get("/<int:stated>")
    async def sized(stated: int) -> ResponseReturnValue:
        async def body() -> AsyncGenerator[bytes, None]:
            yield b"12345"
            yield b"67890"

        return stream_response(body(), headers={"content-length": str(stated)})

    server = await serve(app)
    for stated, expected in [(10, b"1234567890"), (12, b"1234567890"), (7, b"12345")]:
        client = await server.connect()
        await client.get(f"/{stated}", "Connection: close")
        head = await client.read_until(b"\r\n\r\n")
        assert b"transfer-encoding" not in head.lower()
        assert await client.read_to_end() == expected
    assert len(caplog.records) == 2


async def test_a_request_may_wait_for_100_continue(serve: Serve) -> None:
    app = App("echo")

    @app.post("/")
    async def echo() -> ResponseReturnValue:
        return await request.get_data()

    server = await serve(app)
    client = await server.connect()
    await client.get("/", "Content-Length: 4", "Expect: 100-continue", method="POST")
    assert b" 100 " in await client.read_until(b"\r\n\r\n")
    await client.send(b"ping")
    await client.read_until(b"\r\n\r\nping")


async def test_a_refused_upload_reads_its_refusal(serve: Serve) -> None:
    """Closing with unread bytes sends a reset, which would overtake the answer."""
    app = App("uploads")

    @app.post("/")
    async def refuse() -> ResponseReturnValue:
        return "too large", 413

    server = await serve(app)
    client = await server.connect()
    await client.get("/", "Content-Length: 4000000", method="POST")
    await client.send(b"x" * 3_000_000)
    answer = await client.read_to_end()
    assert answer.startswith(b"HTTP/1.1 413")
    assert answer.endswith(b"too large")


async def test_nonsense_is_answered_and_closed(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    await client.send(b"\x16\x03\x01 is not HTTP\r\n\r\n")
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 400")


# No HTTP/2 (fault 2)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


async def test_an_upgrade_to_h2c_is_not_made(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    head = await open_stream(
        client, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"
    )
    assert head.startswith(b"HTTP/1.1 200")
    await client.close()
    await streams.has_ended()  # and its disconnect is seen, though h11 pauses


async def test_prior_knowledge_of_http2_is_refused(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    await client.send(PREFACE)
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 505")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def test_tls_agrees_on_http_1_1(
    serve: Serve, streams: Streams, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    server = await serve(streams.app, tls=server_tls)
    assert server.url.startswith("https://")
    client = await server.connect(tls=client_tls)
    await open_stream(client)
    assert isinstance(client.stream, trio.SSLStream)
    assert client.stream.selected_alpn_protocol() == "http/1.1"
    streams.say(b"x" * 300_000)
    streams.say(b"end")
    body = await client.read_until(LAST_CHUNK)
    assert chunks(body) == [b"x" * 300_000]


async def test_a_client_that_does_not_speak_tls_is_dropped(
    serve: Serve, streams: Streams, server_tls: ssl.SSLContext
) -> None:
    server = await serve(streams.app, tls=server_tls)
    client = await server.connect()
    await client.get("/short")
    assert b"short" not in await client.read_to_end()


# The end of a reader


@pytest.mark.parametrize("way", ["close", "reset", "half-close"])
async def test_a_reader_that_leaves_ends_its_stream(
    serve: Serve, streams: Streams, way: str
) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    await open_stream(client)
    if way == "close":
        await client.close()
    elif way == "reset":
        await client.reset()
    else:
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
    await streams.has_ended()


@pytest.mark.parametrize("way", ["close", "reset"])
async def test_a_reader_that_leaves_tls_ends_its_stream(
    serve: Serve,
    streams: Streams,
    server_tls: ssl.SSLContext,
    client_tls: ssl.SSLContext,
    way: str,
) -> None:
    server = await serve(streams.app, tls=server_tls)
    client = await server.connect(tls=client_tls)
    await open_stream(client)
    await (client.close() if way == "close" else client.reset())
    await streams.has_ended()


async def test_a_reader_that_said_more_is_seen_leaving(serve: Serve, streams: Streams) -> None:
    """Fault 3: after a stray line end Hypercorn would not read on until the response ends."""
    server = await serve(streams.app)
    client = await server.connect()
    await open_stream(client)
    await client.send(b"\r\n")
    await client.close()
    await streams.has_ended()


async def test_a_reader_that_said_far_too_much_is_found_by_a_write(
    serve: Serve, streams: Streams
) -> None:
    """Fault 3: what is read ahead is bounded; beyond it the heartbeat finds the disconnect."""
    server = await serve(streams.app)
    client = await server.connect()
    await open_stream(client)
    await client.send(b"\r\n" * READ_AHEAD_BYTES)
    await client.close()
    for _ in range(100):  # heartbeats
        streams.say(b": 7\n\n")
        with trio.move_on_after(0.1):
            await streams.ended.wait()
            break
    assert streams.ended.is_set()


async def test_a_pipelined_request_is_answered_next(serve: Serve, streams: Streams) -> None:
    """What is read ahead is not lost."""
    server = await serve(streams.app)
    client = await server.connect()
    await open_stream(client)
    for _ in range(2):
        await client.get("/short", "X-Padding: " + "x" * 1000)
        await trio.testing.wait_all_tasks_blocked()
    streams.say(b"end")
    await client.read_until(LAST_CHUNK)
    for _ in range(2):
        assert (await client.read_until(b"short")).startswith(b"HTTP/1.1 200")


async def test_a_failing_generator_cuts_the_stream_and_is_logged_once(
    serve: Serve, streams: Streams, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    await open_stream(client)
    streams.say(b"fail")
    assert await client.read_to_end() == b""  # no last chunk: the client sees a cut
    await streams.has_ended()
    assert [record.name for record in caplog.records] == ["web.transport"]
    assert "a fault of the generator" in caplog.text


async def test_leaving_is_not_logged(
    serve: Serve, streams: Streams, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="web.transport"):
        server = await serve(streams.app)
        client = await server.connect()
        await open_stream(client)
        await client.reset()
        await streams.has_ended()
        await server.stop()
    assert caplog.records == []


async def test_a_fault_of_one_connection_spares_the_others(
    serve: Serve,
    streams: Streams,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = await serve(streams.app)
    healthy, doomed = await server.connect(), await server.connect()
    await open_stream(healthy)

    def fail(self: object, event: object) -> None:
        raise RuntimeError("a fault of the protocol")

    with monkeypatch.context() as patch:
        patch.setattr("web.transport.http11.Http11._check_protocol", fail)
        await doomed.get("/short")
        assert await doomed.read_to_end() == b""
        await trio.testing.wait_all_tasks_blocked()
    assert "a fault of the protocol" in caplog.text
    streams.say(b"alive\n\n")
    await healthy.read_until(b"alive")
