"""Hypercorn's HTTP/1.1 protocol with its faults closed and a short path for body chunks."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.events import Body, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.ws_stream import ASGIWebsocketState, WSStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState, H11SendableEvent
from wsproto.connection import ConnectionState as WebsocketState

SERVICE_RESTART = 1012  # RFC 6455 registry: come back in a moment
# A larger chunk is sent as it is, between its length and its end: a copy would be held for each
# reader for as long as it takes, and many may be sent the same bytes.
COPY_BYTES = 64 * 1024


class Wire(Protocol):
    """What the protocol needs of its connection."""

    async def write(self, data: bytes) -> None: ...
    async def write_together(self, pieces: Sequence[bytes]) -> None: ...
    async def send(self, event: Event) -> None: ...
    async def read_ahead(self) -> None: ...


class ConnectionTasks(TaskGroup):
    """The tasks of one connection. Its background task (WebSocket pings: Hypercorn spawns at most
    one a connection) can be ended; it would sleep on for a whole interval."""

    def __init__(self) -> None:
        super().__init__()
        self.background = trio.CancelScope()

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any) -> None:
        super().spawn(self._in_background, func, *args)

    async def _in_background(self, func: Callable[..., Awaitable[None]], *args: Any) -> None:
        with self.background:
            await func(*args)


class Pause:
    """Hypercorn's event "the next request may be read", whose wait keeps reading (fault 3).

    h11 pauses when a client sends anything beyond its request (a pipelined request, a stray line
    end, or an upgrade we do not make). Hypercorn then stops reading the socket until the response
    is complete, so it does not notice that the client has gone.
    """

    def __init__(self, read_ahead: Callable[[], Awaitable[None]]) -> None:
        self._read_ahead = read_ahead
        # Cancelled by set(); replaced by clear(). Entered once, by the one reader.
        self._scope = trio.CancelScope()

    async def clear(self) -> None:
        self._scope = trio.CancelScope()

    async def set(self) -> None:
        self._scope.cancel()

    async def wait(self) -> None:
        with self._scope:
            await self._read_ahead()

    def is_set(self) -> bool:
        return self._scope.cancel_called


class Http11(H11Protocol):
    """One per connection. The reader calls `handle`; requests call `stream_send`."""

    def __init__(
        self,
        wire: Wire,
        *,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        tasks: TaskGroup,
        ssl: bool,
        client: tuple[str, int] | None,
        server: tuple[str, int] | None,
    ) -> None:
        state = ConnectionState({})
        super().__init__(app, config, context, tasks, state, ssl, client, server, wire.send)
        self._write, self._write_together = wire.write, wire.write_together
        self.can_read = Pause(wire.read_ahead)
        # h11 frames the present body in chunks. Set with each response head.
        self._chunked = False

    @property
    def peer_may_be_sending(self) -> bool:
        """It has not finished its request, or is a WebSocket, or talks nonsense."""
        return self.connection.their_state not in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)

    @property
    def open_websocket(self) -> WSStream | None:
        """The accepted WebSocket that the application has not closed, if there is one."""
        stream = self.stream
        if isinstance(stream, WSStream) and stream.state is ASGIWebsocketState.CONNECTED:
            return stream
        return None

    # Receiving

    async def handle(self, event: Event) -> None:
        await super().handle(event)
        if isinstance(event, RawData) and self._refused_a_message():
            await self._maybe_recycle()

    def _refused_a_message(self) -> bool:
        """Hypercorn closed the WebSocket with 1009 by itself; it then leaves the connection open
        and the application in the dark (fault 8)."""
        websocket = self.open_websocket
        return websocket is not None and (
            websocket.connection.state is WebsocketState.LOCAL_CLOSING
        )

    async def _check_protocol(self, event: h11.Request) -> None:
        """Hypercorn would change to HTTP/2 here, by h2c upgrade or prior knowledge (fault 2)."""

    async def _create_stream(self, request: h11.Request) -> None:
        names = {name for name, _ in request.headers}
        version_known = request.http_version in (b"1.0", b"1.1")
        if not version_known or {b"content-length", b"transfer-encoding"} <= names:
            # Two lengths: what one program takes for the body is a request to another (RFC 9112,
            # 6.1). What follows on this connection is nobody's.
            await self._send_error_response(400 if version_known else 505)
            await self.send(Closed())
            return
        await super()._create_stream(request)
        if self.stream is not None and self.stream.closed:
            # A handshake it has refused by itself: Hypercorn promised to close, and does not.
            await self._maybe_recycle()

    # Sending

    async def stream_send(self, event: StreamEvent) -> None:
        if type(event) is Body and self._chunked and event.data:
            # h11 would copy and count (9 us a chunk); its state stays SEND_BODY either way.
            size = len(event.data)
            if size <= COPY_BYTES:
                await self._write(b"%x\r\n%b\r\n" % (size, event.data))
            else:
                await self._write_together((b"%x\r\n" % size, event.data, b"\r\n"))
        else:
            await super().stream_send(event)

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        """As Hypercorn's, and learns from h11's own bytes how the body is framed."""
        try:
            data = self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        if type(event) is h11.Response:
            self._chunked = b"\r\ntransfer-encoding: chunked\r\n" in data.lower()
        await self._write(data)

    # Closing

    async def restart(self) -> None:
        """The server stops: close an open WebSocket with 1012. Streams of HTTP end by themselves,
        their generators know."""
        websocket = self.open_websocket
        if websocket is not None:
            await websocket.app_send(
                {"type": "websocket.close", "code": SERVICE_RESTART, "reason": "restarting"}
            )
            await self.stream_send(StreamClosed(stream_id=STREAM_ID))
