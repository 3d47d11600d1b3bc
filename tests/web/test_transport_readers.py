"""What web/transport does when a reader leaves, a generator fails, a connection breaks."""

import logging
import ssl

import pytest
import trio

from tests.web.serving import LAST_CHUNK, Serve, Streams, open_stream
from web.transport.connection import READ_AHEAD_BYTES


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
