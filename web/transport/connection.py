"""One accepted connection: its reader, its requests, its end.

The reader's scope is the life of the connection: whoever wants to end it cancels that scope or
gives it a deadline (idle, lingering), and the reader alone tells the application.
"""

import math
import socket

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper
from hypercorn.utils import parse_socket_addr

from web.transport.http11 import ConnectionTasks, Http11
from web.transport.sender import Sender, Stream, WritePatience

# What is read from a client beyond its request, while that is being answered.
READ_AHEAD_BYTES = 2**16
RECEIVE_BYTES = 2**16
# We said our last while the peer was still talking: closing at once would reset the connection,
# and the reset can overtake our answer (413, a WebSocket's close frame).
LINGER_SECONDS = 1.0
HANDSHAKE_SECONDS = 30.0

Address = tuple[str, int] | None


class Connection:
    """Serves the requests of one connection, one after the other."""

    def __init__(
        self,
        stream: Stream,
        raw: socket.socket | None,
        *,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        patience: WritePatience,
    ) -> None:
        """`raw`: as for `Sender`."""
        self._stream = stream
        self._app = app
        self._config = config
        self._context = context
        # The life of the connection. Its deadline is finite while idle or lingering.
        self._reading = trio.CancelScope(deadline=trio.current_time() + config.keep_alive_timeout)
        self._sender = Sender(stream, raw, patience=patience, on_loss=self._reading.cancel)
        # Parts of the protocol's Wire, called for each chunk.
        self.write, self.write_together = self._sender.write, self._sender.write_together
        self._protocol: Http11 | None = None  # from the handshake on

    async def run(self) -> None:
        """Returns when the connection has ended and its requests with it; closes the stream."""
        try:
            if await self._handshake():
                await self._converse(*self._addresses())
        except OSError:
            pass  # it has gone before we came
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _handshake(self) -> bool:
        if isinstance(self._stream, trio.SSLStream):
            try:
                with trio.fail_after(HANDSHAKE_SECONDS):
                    await self._stream.do_handshake()
            except (trio.BrokenResourceError, trio.TooSlowError):
                return False
        return True

    def _addresses(self) -> tuple[Address, Address]:
        stream = self._stream
        plain = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        return (
            parse_socket_addr(plain.socket.family, plain.socket.getpeername()),
            parse_socket_addr(plain.socket.family, plain.socket.getsockname()),
        )

    async def _converse(self, client: Address, server: Address) -> None:
        tasks = ConnectionTasks()
        async with tasks:
            self._protocol = Http11(
                self,
                app=self._app,
                config=self._config,
                context=self._context,
                tasks=tasks,
                ssl=isinstance(self._stream, trio.SSLStream),
                client=client,
                server=server,
            )
            await self._read(self._protocol)
            tasks.background.cancel()

    # Receiving

    async def _read(self, protocol: Http11) -> None:
        with self._reading:
            data = b"at first"
            while data:
                data = await self._receive()
                if not self._sender.finished:
                    await protocol.handle(RawData(data))
        self._sender.lose()
        await protocol.handle(Closed())

    async def _receive(self) -> bytes:
        """Empty when the peer has closed or is lost."""
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def read_ahead(self) -> None:
        """Read while h11 pauses, to notice the peer's end. Waits until the caller cancels it."""
        assert self._protocol is not None
        room = READ_AHEAD_BYTES
        while room > 0:
            data = await self._receive()
            if not data:
                self._sender.lose()
            elif not self._sender.finished:
                self._protocol.connection.receive_data(data)
                room -= len(data)
        await trio.sleep_forever()  # a flood is held back; the next write finds the disconnect

    # Sending

    async def send(self, event: Event) -> None:
        """What Hypercorn's protocol says to its connection.

        `Closed` and `Updated` come at the end of a request, just after the application was told of
        that end; Quart then cancels the very task that is in here. So nothing may await (fault 1).
        """
        if isinstance(event, RawData):
            await self.write(event.data)
        elif isinstance(event, Closed):
            self.close()
        elif isinstance(event, Updated):
            idle_until = trio.current_time() + self._config.keep_alive_timeout
            self._reading.deadline = idle_until if event.idle else math.inf

    # Closing

    def close(self) -> None:
        """We have said our last: end our half, and the whole as soon as the peer has heard it."""
        if self._sender.finished:
            return
        assert self._protocol is not None
        if self._sender.finish() and self._protocol.peer_may_be_sending:
            self._reading.deadline = trio.current_time() + LINGER_SECONDS
        else:
            self._sender.lose()

    def drain(self) -> None:
        """Between requests it ends at once; what waits for its peer gets until the cut."""
        if self._reading.deadline != math.inf:
            self._reading.cancel()
        self._sender.hurry()

    @property
    def holds_websocket(self) -> bool:
        return self._protocol is not None and self._protocol.open_websocket is not None

    async def restart(self) -> None:
        """Tell a WebSocket's peer why (see `Http11.restart`)."""
        assert self._protocol is not None
        await self._protocol.restart()
