"""A TCP proxy between browser and server that does what networks do to streams.

It knows just enough of HTTP/1.1 to tell the streams of a thread from other answers, and to end one
so cleanly that nobody could tell it from a finished one.
"""

import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, NoReturn

# "end": as HTTP ends a response (P01). "close": FIN in the middle of a chunk. "reset": RST there.
How = Literal["end", "close", "reset"]

HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class Cut(NamedTuple):
    """Let so many bytes of a stream's body pass, whatever they end in, then end it."""

    after: int
    how: How


class Proxy:
    """Make it with `proxy_to`."""

    def __init__(self, port: int) -> None:
        self.cuts: deque[Cut] = deque()  # for the next streams, one each; none left: all pass
        self.within: tuple[bytes, How] | None = None  # made once, by `cut_within`
        self.done: list[How] = []  # the cuts that were made
        self.streams = 0  # that were opened through us
        self._upstream = ("127.0.0.1", port)
        self._flowing = threading.Event()  # cleared: nothing passes, as in a hole of the network
        self._flowing.set()
        self._closing = False
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def cut_within(self, words: bytes, how: How) -> None:
        """Let a stream pass up to the middle of these words, once."""
        self.within = (words, how)

    def hold(self) -> None:
        """Pass nothing on, in neither direction, and say nothing of it."""
        self._flowing.clear()

    def release(self) -> None:
        """Pass on what was held, and what comes."""
        self._flowing.set()

    def cut_all(self, how: How = "reset") -> None:
        """End every connection there is now."""
        for sock in list(self._sockets):
            _end(sock, how)

    def close(self) -> None:
        self._closing = True
        self._flowing.set()
        _end(self._listener, "close")
        self._listener.close()
        self.cut_all()
        for thread in list(self._threads):
            thread.join()

    def _start(self, function: object, *args: object) -> None:
        thread = threading.Thread(target=function, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._upstream)
            except OSError:  # it is down: so are we
                _end(client, "reset")
                client.close()
                continue
            self._sockets.update((client, server))
            connection = _Connection(self, client, server)
            self._start(connection.upwards)
            self._start(connection.downwards)

    def pass_on(self, sock: socket.socket, data: bytes) -> None:
        self._flowing.wait()
        sock.sendall(data)

    def forget(self, sock: socket.socket) -> None:
        self._sockets.discard(sock)
        sock.close()


class _Connection:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._path = b""  # of the last request
        self._pumps = threading.Semaphore(1)  # taken by the first that ends; the second closes

    def upwards(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(65536):
                first = data.split(b"\r\n", 1)[0].split(b" ")
                if len(first) == 3 and first[2].startswith(b"HTTP/"):
                    self._path = first[1]
                self._proxy.pass_on(self._server, data)
        self._finish()

    def downwards(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(65536):
                head, end, body = data.partition(HEAD_END)
                if self._is_stream(head):
                    self._proxy.streams += 1
                    self._proxy.pass_on(self._client, head + end)
                    self._stream(body)
                else:
                    self._proxy.pass_on(self._client, data)
        self._finish()

    def _is_stream(self, head: bytes) -> bool:
        """Of a thread; the feed is none."""
        begins = head.startswith(b"HTTP/1.1 200")  # a piece of a file may contain such words, too
        return begins and b"text/event-stream" in head and b"/api/feed" not in self._path

    def _stream(self, data: bytes) -> None:
        """Chunk by chunk, to its end or its cut."""
        cut = self._proxy.cuts.popleft() if self._proxy.cuts else None
        left = cut.after if cut is not None else sys.maxsize
        while True:
            while (chunk := _chunk(data)) is None:
                more = self._server.recv(65536)
                if not more:
                    raise ConnectionResetError
                data += more
            whole, payload = chunk
            data = data[len(whole) :]
            within = self._proxy.within
            if within is not None and within[0] in payload:
                self._proxy.within = None
                self._cut(within[1], payload[: payload.index(within[0]) + len(within[0]) // 2])
            if cut is not None and payload and len(payload) > left:
                self._cut(cut.how, payload[:left])
            self._proxy.pass_on(self._client, whole)
            left -= len(payload)
            if not payload:
                assert data == b"", "nobody pipelines here"
                return

    def _cut(self, how: How, last: bytes) -> NoReturn:
        framed = b"%x\r\n%b\r\n" % (len(last), last) if last else b""
        if how == "end":
            self._proxy.pass_on(self._client, framed + LAST_CHUNK)
        else:
            self._proxy.pass_on(self._client, framed[: len(framed) // 2])
        self._proxy.done.append(how)
        _end(self._client, how)
        raise ConnectionResetError

    def _finish(self) -> None:
        for sock in (self._client, self._server):
            _end(sock, "close")
        if not self._pumps.acquire(blocking=False):
            self._proxy.forget(self._client)
            self._proxy.forget(self._server)


def _chunk(data: bytes) -> tuple[bytes, bytes] | None:
    """The first chunk of a body, with its framing and without; None while it is not complete."""
    size, end, rest = data.partition(b"\r\n")
    if not end or len(rest) < int(size, 16) + 2:
        return None
    payload = rest[: int(size, 16)]
    return data[: len(size) + len(payload) + 4], payload


def _end(sock: socket.socket, how: How) -> None:
    """Wake the thread that waits in `recv`; FIN or RST goes out when it closes."""
    with suppress(OSError):
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RD)


@contextmanager
def proxy_to(url: str) -> Iterator[Proxy]:
    """A proxy to the server at this address, closed at the end."""
    proxy = Proxy(int(url.rpartition(":")[2].strip("/")))
    try:
        yield proxy
    finally:
        proxy.close()
