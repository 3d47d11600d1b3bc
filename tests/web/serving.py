"""Real servers on real sockets, for tests of what web serves.

Quart-Trio's test client is not used for streams: leaving it after a disconnect hangs for ever
(fault 9 of web/transport).
"""

import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable

import trio
from quart.typing import ResponseReturnValue

from web.transport import App, Transport, stream_response

# No wait of a test on a healthy machine comes near it.
PATIENCE_SECONDS = 30


class Client:
    """The client's end of one connection, at the level of bytes."""

    def __init__(self, stream: trio.abc.Stream, plain: trio.SocketStream) -> None:
        self.stream = stream
        self._plain = plain
        self._unread = b""

    async def send(self, data: bytes) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            await self.stream.send_all(data)

    async def get(
        self, path: str, *headers: str, method: str = "GET", version: str = "1.1"
    ) -> None:
        """Send the head of a request."""
        lines = [f"{method} {path} HTTP/{version}", "Host: test", *headers, "", ""]
        await self.send("\r\n".join(lines).encode())

    async def read_until(self, end: bytes) -> bytes:
        """Up to and with `end`. Raises EOFError, with what came, when the peer ends before."""
        while end not in self._unread:
            piece = await self._receive()
            if not piece:
                raise EOFError(self._unread)
            self._unread += piece
        cut = self._unread.index(end) + len(end)
        result, self._unread = self._unread[:cut], self._unread[cut:]
        return result

    async def read_exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            piece = await self._receive()
            if not piece:
                raise EOFError(self._unread)
            self._unread += piece
        result, self._unread = self._unread[:size], self._unread[size:]
        return result

    async def read_to_end(self) -> bytes:
        """All there is until the peer ends its half."""
        while piece := await self._receive():
            self._unread += piece
        result, self._unread = self._unread, b""
        return result

    async def _receive(self) -> bytes:
        with trio.fail_after(PATIENCE_SECONDS):
            return bytes(await self.stream.receive_some(65536))

    async def close(self) -> None:
        await self.stream.aclose()

    async def reset(self) -> None:
        """End with RST, as a killed process or a lost network behind a firewall does."""
        self._plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self._plain.aclose()


class Server:
    """A running transport."""

    def __init__(self, transport: Transport, port: int) -> None:
        self.url = transport.urls[0]
        self.port = port
        self.draining = trio.Event()
        self.ended = trio.Event()
        self.cancel_scope = trio.CancelScope()
        self._transport = transport
        self._clients: list[Client] = []

    async def run(self, *, task_status: trio.TaskStatus[list[str]]) -> None:
        with self.cancel_scope:
            await self._transport.serve(self.draining, task_status=task_status)
        self.ended.set()

    async def stop(self) -> None:
        """Drain and wait. Idempotent."""
        self.draining.set()
        with trio.fail_after(PATIENCE_SECONDS):
            await self.ended.wait()

    async def close_clients(self) -> None:
        for client in self._clients:
            await trio.aclose_forcefully(client.stream)

    async def connect(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
        send_buffer: int | None = None,
    ) -> Client:
        """`receive_buffer`, `send_buffer`: bytes, to make a connection that soon blocks."""
        sock = trio.socket.socket()
        for option, value in (
            (socket.SO_RCVBUF, receive_buffer),
            (socket.SO_SNDBUF, send_buffer),
        ):
            if value is not None:
                sock.setsockopt(socket.SOL_SOCKET, option, value)
        try:
            await sock.connect(("127.0.0.1", self.port))
        except OSError:
            sock.close()
            raise
        plain = trio.SocketStream(sock)
        stream: trio.abc.Stream = plain
        if tls is not None:
            stream = trio.SSLStream(plain, tls, server_hostname="localhost", https_compatible=True)
        client = Client(stream, plain)
        self._clients.append(client)
        return client


Serve = Callable[..., Awaitable[Server]]


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
