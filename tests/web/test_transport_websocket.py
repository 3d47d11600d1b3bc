"""WebSockets as web/transport serves them: close codes, the end of peers, loops that only send."""

import pytest
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from quart import abort, websocket
from trio.testing import MockClock
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Message,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)

from tests.web.serving import PATIENCE_SECONDS, Client, Serve, Server
from web.transport import App
from web.transport.connection import LINGER_SECONDS
from web.transport.server import MESSAGE_BYTES


class Peer:
    """A WebSocket client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []

    async def open(self, path: str = "/") -> Event:
        await self.send(Request(host="test", target=path))
        return await self.next()

    async def send(self, event: Event) -> None:
        await self.client.send(self._protocol.send(event))

    async def next(self) -> Event:
        """The next event but pings. Raises EOFError when the connection ends without one."""
        while True:
            while self._events:
                event = self._events.pop(0)
                if not isinstance(event, Ping):
                    return event
            data = await self.client.stream.receive_some(65536)
            if not data:
                raise EOFError
            self._protocol.receive_data(bytes(data))
            self._events += self._protocol.events()

    async def closed_with(self) -> tuple[int, str | None]:
        """Read to the close frame, answer it, and see the connection end."""
        with trio.fail_after(PATIENCE_SECONDS):
            while not isinstance(event := await self.next(), CloseConnection):
                pass
            await self.send(event.response())
            await self.client.read_to_end()
        await self.client.close()
        return event.code, event.reason


async def peer(server: Server, path: str = "/") -> Peer:
    opened = Peer(await server.connect())
    assert isinstance(await opened.open(path), AcceptConnection)
    return opened


class Echo:
    """An application that echoes, and tells when a handler has ended."""

    def __init__(self) -> None:
        self.app = App("echo")
        self.app.add_websocket("/", view_func=self.echo)
        self.ended = trio.Event()

    async def echo(self) -> None:
        try:
            while True:
                await websocket.send(await websocket.receive())
        finally:
            self.ended.set()


async def test_messages_go_both_ways(serve: Serve) -> None:
    echo = Echo()
    server = await serve(echo.app)
    talker = await peer(server)
    await talker.send(TextMessage(data="hello"))
    event = await talker.next()
    assert isinstance(event, Message)
    assert event.data == "hello"
    await talker.send(CloseConnection(code=1000))
    assert isinstance(await talker.next(), CloseConnection)
    assert await talker.client.read_to_end() == b""
    with trio.fail_after(PATIENCE_SECONDS):
        await echo.ended.wait()


@pytest.mark.parametrize("way", ["close", "reset"])
async def test_a_peer_that_leaves_ends_its_handler(serve: Serve, way: str) -> None:
    echo = Echo()
    server = await serve(echo.app)
    leaver = await peer(server)
    await (leaver.client.close() if way == "close" else leaver.client.reset())
    with trio.fail_after(PATIENCE_SECONDS):
        await echo.ended.wait()


@pytest.mark.timeout(30)  # what fails here freezes the process
async def test_sends_after_the_end_yield(serve: Serve) -> None:
    """Fault 5: after the end, Hypercorn's send returned at once and for ever."""
    ended = trio.Event()

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        with trio.move_on_after(0):
            while True:
                await send({"type": "websocket.send", "text": "x", "bytes": None})
        ended.set()

    server = await serve(app)
    leaver = await peer(server)
    await leaver.client.close()
    with trio.fail_after(PATIENCE_SECONDS):
        await ended.wait()


@pytest.mark.timeout(30)
async def test_a_loop_that_only_sends_ends_with_its_peer(serve: Serve) -> None:
    """Fault 5, as a handler of Quart meets it."""
    app = App("sender")
    ended = trio.Event()

    @app.websocket("/")
    async def only_send() -> None:
        try:
            while True:
                await websocket.send("x")
        finally:
            ended.set()

    server = await serve(app)
    leaver = await peer(server)
    await leaver.send(CloseConnection(code=1000))
    with trio.fail_after(PATIENCE_SECONDS):
        while not isinstance(await leaver.next(), CloseConnection):
            pass
        await ended.wait()


# Close codes (fault 8)


async def test_a_failing_handler_closes_with_1011(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("failing")

    @app.websocket("/")
    async def fail() -> None:
        await websocket.accept()
        raise ValueError("a fault of the handler")

    server = await serve(app)
    assert (await (await peer(server)).closed_with())[0] == 1011
    assert len(caplog.records) == 1
    assert "a fault of the handler" in caplog.text


async def test_a_handler_that_fails_before_accepting_answers_500(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("failing")

    @app.websocket("/")
    async def fail() -> None:
        raise ValueError("a fault of the handler")

    server = await serve(app)
    caller = Peer(await server.connect())
    answer = await caller.open()
    assert isinstance(answer, RejectConnection)
    assert answer.status_code == 500
    assert await caller.client.read_to_end() == b""
    assert len(caplog.records) == 1


async def test_a_refusal_keeps_its_status(serve: Serve) -> None:
    app = App("refusing")

    @app.websocket("/")
    async def refuse() -> None:
        abort(403)

    server = await serve(app)
    answer = await Peer(await server.connect()).open()
    assert isinstance(answer, RejectConnection)
    assert answer.status_code == 403


async def test_a_refusal_without_length_is_framed_once(serve: Serve) -> None:
    """Its empty last piece must not become the last chunk, which follows."""

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await send({"type": "websocket.http.response.start", "status": 403, "headers": []})
        for body, more in [(b"no", True), (b"", False)]:
            await send({"type": "websocket.http.response.body", "body": body, "more_body": more})

    server = await serve(app)
    client = await server.connect()
    await client.send(WSConnection(ConnectionType.CLIENT).send(Request(host="test", target="/")))
    answer = await client.read_to_end()
    assert answer.endswith(b"\r\n\r\n2\r\nno\r\n0\r\n\r\n")


async def test_a_handler_that_returns_closes_with_1000(serve: Serve) -> None:
    app = App("short")

    @app.websocket("/")
    async def short() -> None:
        await websocket.send("all")

    server = await serve(app)
    assert (await (await peer(server)).closed_with())[0] == 1000


@pytest.mark.requirement("T7")
async def test_a_drain_closes_with_1012(serve: Serve) -> None:
    echo = Echo()
    server = await serve(echo.app)
    listener = await peer(server)
    server.draining.set()
    assert (await listener.closed_with())[0] == 1012
    await server.stop()
    assert echo.ended.is_set()


async def test_a_silent_peer_does_not_hold_up_the_drain(
    serve: Serve, autojump_clock: MockClock
) -> None:
    """Neither does the task that sends pings: it would sleep on for 20 s."""
    autojump_clock.autojump_threshold = 0.05
    echo = Echo()
    server = await serve(echo.app)
    await peer(server)
    started = trio.current_time()
    server.draining.set()
    await server.ended.wait()
    assert trio.current_time() - started == pytest.approx(LINGER_SECONDS, abs=0.2)


async def test_a_message_too_big_closes_with_1009(serve: Serve) -> None:
    """Hypercorn sends the close frame, but neither tells the handler nor ends the connection."""
    echo = Echo()
    server = await serve(echo.app)
    talker = await peer(server)
    await talker.send(TextMessage(data="x" * (MESSAGE_BYTES + 1)))
    with trio.fail_after(PATIENCE_SECONDS):
        while not isinstance(event := await talker.next(), CloseConnection):
            pass
        assert event.code == 1009
        assert await talker.client.read_to_end() == b""  # though we did not answer
        await echo.ended.wait()


async def test_a_bad_handshake_is_closed(serve: Serve) -> None:
    """Hypercorn answers `Connection: close`, and does not close."""
    server = await serve(Echo().app)
    client = await server.connect()
    await client.get("/", "Connection: Upgrade", "Upgrade: websocket")
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 400")
