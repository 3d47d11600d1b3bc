"""HTTP/1.1 as web/transport serves it: framing, and the end of responses.

Real sockets; time, where it matters, is Trio's mock clock. The fault numbers are those of
web/transport/__init__.py.
"""

import ssl
from collections.abc import AsyncGenerator

import pytest
import trio
from quart import request
from quart.typing import ResponseReturnValue
from trio.testing import MockClock

from tests.web.serving import LAST_CHUNK, Serve, Streams, chunks, open_stream
from web.transport import App, stream_response
from web.transport.server import KEEP_ALIVE_SECONDS

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


async def test_a_request_of_two_lengths_is_refused_with_all_that_follows(
    serve: Serve, streams: Streams
) -> None:
    """What one program takes for the body is a request to another (RFC 9112, 6.1)."""
    server = await serve(streams.app)
    client = await server.connect()
    await client.send(
        b"POST /short HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /short HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    answer = await client.read_to_end()
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


async def test_prior_knowledge_of_http2_is_refused(serve: Serve, streams: Streams) -> None:
    server = await serve(streams.app)
    client = await server.connect()
    await client.send(PREFACE)
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 505")


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
