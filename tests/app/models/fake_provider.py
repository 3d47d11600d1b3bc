"""A provider on a real socket that plays scripts of raw bytes, pauses and ends.

No HTTP library: what goes over the wire is what the test wrote, so that servers which get HTTP or
SSE wrong can be played as well as those that get it right.
"""

import json
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import trio

END = b"0\r\n\r\n"  # of a chunked body: the connection is kept

# What a script is made of besides bytes.


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Until:
    """Wait for the test."""

    event: trio.Event


@dataclass(frozen=True)
class Repeat:
    """The same bytes for ever, `seconds` apart."""

    data: bytes
    seconds: float


class _Marker:
    def __init__(self, name: str) -> None:
        self.name = name


HANG = _Marker("say nothing until the client closes")
FIN = _Marker("close")
RST = _Marker("close with a reset")

Step = bytes | Pause | Until | Repeat | _Marker


def head(
    status: int = 200, kind: str = "text/event-stream", *, chunked: bool = True, **headers: str
) -> bytes:
    """A response head; without `chunked` the body ends where the connection does."""
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines.append("transfer-encoding: chunked" if chunked else "connection: close")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def part(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def frame(value: Any) -> bytes:
    """One SSE frame, as a chunk."""
    text = value if isinstance(value, str) else json.dumps(value)
    return part(f"data: {text}\n\n".encode())


def reply(status: int, body: Any, **headers: str) -> list[Step]:
    """A whole response that is no stream, with JSON or text."""
    kind = "text/plain" if isinstance(body, str) else "application/json"
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = headers.pop("kind", kind)
    return [head(status, kind, chunked=True, **headers), part(data), END]


@dataclass
class Exchange:
    """One request and what became of it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    # When it arrived, by Trio's clock.
    at: float = field(default_factory=trio.current_time)
    # Set when the client closed or reset the connection while the script was being played.
    closed: trio.Event = field(default_factory=trio.Event)
    bytes_sent: int = 0

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class FakeProvider:
    """Plays one script a request, in the order of `play`; a request without a script fails the
    test by a 599.

    `requests`: all of them. `asked`: without those that `aside` answered. `aside`: gives the script
    for a request that is not what the test is about (a list of models, a cancel); None for others.
    """

    def __init__(self) -> None:
        self.requests: list[Exchange] = []
        self.asked: list[Exchange] = []
        self.aside: Callable[[Exchange], Iterable[Step] | None] = lambda _: None
        self.connections = 0
        self.url = ""
        self.ssl_context: Any = None
        self._scripts: list[Iterable[Step]] = []
        self._arrived = trio.Event()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def play(self, *steps: Step) -> None:
        """Queue a script for one request."""
        self._scripts.append(steps)

    def stream(self, *values: Any) -> None:
        """Queue a well-formed event stream of these frames."""
        self.play(head(), *(frame(value) for value in values), END)

    async def arrived(self, count: int = 1) -> Exchange:
        """Wait for the request number `count`, and return it."""
        while len(self.requests) < count:
            await self._arrived.wait()
        return self.requests[count - 1]

    # serving

    async def serve(
        self, *, task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED
    ) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        scheme = "https" if self.ssl_context else "http"
        self.url = f"{scheme}://127.0.0.1:{port}"
        await trio.serve_listeners(self._connection, listeners, task_status=task_status)

    async def _connection(self, plain: trio.SocketStream) -> None:
        self.connections += 1
        number = self.connections
        stream: trio.abc.Stream = plain
        try:
            if self.ssl_context:
                stream = trio.SSLStream(plain, self.ssl_context, server_side=True)
            while exchange := await _read_request(stream, number):
                self.requests.append(exchange)
                self._arrived.set()
                self._arrived = trio.Event()
                script = self.aside(exchange)
                if script is None:
                    self.asked.append(exchange)
                    script = self._scripts.pop(0) if self._scripts else reply(599, "no script")
                if not await _play(script, stream, plain, exchange):
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # a client that leaves is what many tests are about
        finally:
            await trio.aclose_forcefully(plain)


async def _read_request(stream: trio.abc.ReceiveStream, number: int) -> Exchange | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = await stream.receive_some()
        if not piece:
            return None
        data += piece
    top, _, body = data.partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive_some()
    method, path, _ = first.split(" ")
    return Exchange(method, path, headers, body, number)


async def _play(
    script: Iterable[Step],
    stream: trio.abc.Stream,
    plain: trio.SocketStream,
    exchange: Exchange,
) -> bool:
    """Returns whether the connection can take another request."""
    kept = False
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            try:
                assert await stream.receive_some() == b"", "a request while another is answered"
            except trio.BrokenResourceError:
                pass
            exchange.closed.set()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        try:
            for step in script:
                kept = await _step(step, stream, plain, exchange) and step == END
                if step in (FIN, RST):
                    break
        except trio.BrokenResourceError:
            kept = False
            exchange.closed.set()
        nursery.cancel_scope.cancel()
    return kept


async def _step(
    step: Step, stream: trio.abc.Stream, plain: trio.SocketStream, exchange: Exchange
) -> bool:
    if isinstance(step, bytes):
        await stream.send_all(step)
        exchange.bytes_sent += len(step)
    elif isinstance(step, Pause):
        await trio.sleep(step.seconds)
    elif isinstance(step, Until):
        await step.event.wait()
    elif isinstance(step, Repeat):
        while True:
            await stream.send_all(step.data)
            exchange.bytes_sent += len(step.data)
            await trio.sleep(step.seconds)
    elif step is HANG:
        await trio.sleep_forever()
    elif step is RST:
        linger = struct.pack("ii", 1, 0)
        plain.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return False
    elif step is FIN:
        return False
    return True


# chat completions


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, **members: Any
) -> dict[str, Any]:
    """One chunk as OpenAI sends it."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fake",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
        **members,
    }


def say(text: str) -> dict[str, Any]:
    return chunk({"content": text})


def tool(index: int | None, id_: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    """One chunk with one piece of a tool call; None leaves a member out."""
    function = {"name": name, "arguments": arguments}
    piece: dict[str, Any] = {"type": "function"}
    piece["function"] = {key: value for key, value in function.items() if value is not None}
    if index is not None:
        piece["index"] = index
    if id_ is not None:
        piece["id"] = id_
    return chunk({"tool_calls": [piece]})


STOP = chunk(finish="stop")
DONE = "[DONE]"
