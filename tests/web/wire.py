"""The native wire as a client sees it: a whole server on a real socket, and a strict reader."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h11
import trio

from app.lifetime import Services
from tests.app.world import World, world
from web.edge import WebEdge

# Longer than anything is made to wait by the server, also on the mock clock.
WAIT_SECONDS = 100

THREAD = "thread-01"
EVENTS = "text/event-stream"
JSON = "application/json"

# What a stream may consist of (web/PROTOCOL.md, "Frames"), block by block.
_FRAME = re.compile(rb"(?:id: ([A-Za-z0-9_-]+:[1-9][0-9]*)\n)?data: (\{[^\n]*\})")
_FEED_FRAME = re.compile(rb"id: ([A-Za-z0-9_-]+:[0-9]+)\ndata: (\{[^\n]*\})")
_COMMENT = re.compile(rb": ([a-z]+|[0-9]+)")
OPEN = b": open\nretry: 1000"


class Frame(NamedTuple):
    id: str | None
    event: dict[str, Any]

    @property
    def stream(self) -> str:
        assert self.id is not None
        return self.id.rpartition(":")[0]

    @property
    def seq(self) -> int:
        assert self.id is not None
        return int(self.id.rpartition(":")[2])


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == JSON, self
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a refusal, which has the documented shape."""
        assert set(self.json) == {"code", "message"}, self.body
        assert self.json["message"], self.body
        return str(self.json["code"])


class Exchange:
    """One request on a connection of its own, and its response, piece by piece."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self.status = 0
        self.headers: dict[str, str] = {}

    async def send(self, *events: Any) -> None:
        for event in events:
            data = self._http.send(event)
            if data:
                with trio.fail_after(WAIT_SECONDS):
                    await self.stream.send_all(data)

    async def head(self) -> None:
        """Wait for the head of the response."""
        event = await self._next()
        assert isinstance(event, h11.Response), event
        self.status = event.status_code
        names = [name.decode() for name, _ in event.headers]
        assert len(names) == len(set(names)), names
        self.headers = {name.decode(): value.decode() for name, value in event.headers}

    async def informed(self) -> h11.InformationalResponse:
        """Wait for a response that goes before the real one."""
        event = await self._next()
        assert isinstance(event, h11.InformationalResponse), event
        return event

    async def data(self) -> bytes:
        """The next piece of the body; empty when it is complete. EOFError: it was cut."""
        event = await self._next()
        if isinstance(event, h11.EndOfMessage):
            return b""
        assert isinstance(event, h11.Data), event
        return bytes(event.data)

    async def answer(self) -> Answer:
        await self.head()
        body = b""
        while piece := await self.data():
            body += piece
        return Answer(self.status, self.headers, body)

    def again(self) -> None:
        """The next request on this connection."""
        self._http.start_next_cycle()

    async def close(self) -> None:
        await trio.aclose_forcefully(self.stream)

    async def _next(self) -> Any:
        data = b"at first"
        while (event := self._event(data)) is h11.NEED_DATA:
            with trio.fail_after(WAIT_SECONDS):
                data = await self.stream.receive_some(65536)
            self._http.receive_data(data)
        return event

    def _event(self, last: bytes) -> Any:
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError:
            if last:
                raise
            raise EOFError from None  # it ended in the middle
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError
        return event


class Follower:
    """Reads a stream strictly and keeps what it said."""

    def __init__(self, exchange: Exchange, frame: re.Pattern[bytes] = _FRAME) -> None:
        self.exchange = exchange
        self.frames: list[Frame] = []
        self.comments: list[str] = []
        self.complete = False  # the response ended as HTTP ends, not by a cut
        self._frame = frame
        self._unread = b""
        self._opened = False

    async def block(self) -> Frame | str | None:
        """The next frame, or comment; None at the end of the response."""
        while b"\n\n" not in self._unread:
            piece = await self.exchange.data()
            if not piece:
                assert self._unread == b"", self._unread
                self.complete = True
                return None
            self._unread += piece
        block, self._unread = self._unread.split(b"\n\n", 1)
        if not self._opened:
            assert block == OPEN, block
            self._opened = True
            return await self.block()
        if match := _COMMENT.fullmatch(block):
            self.comments.append(match[1].decode())
            return self.comments[-1]
        found = self._frame.fullmatch(block)
        assert found, block
        frame = Frame(found[1].decode() if found[1] else None, json.loads(found[2]))
        self.frames.append(frame)
        return frame

    async def frame(self) -> Frame:
        """The next frame, comments passed over. Raises EOFError at the end."""
        while (block := await self.block()) is not None:
            if isinstance(block, Frame):
                return block
        raise EOFError

    async def until(self, wanted: Callable[[Frame], bool]) -> Frame:
        while not wanted(frame := await self.frame()):
            pass
        return frame

    async def until_text(self, text: str) -> None:
        """Until the text so far ends with this."""
        while not self.text.endswith(text):
            await self.frame()

    async def rest(self) -> "Follower":
        """Read to the end of the response."""
        while await self.block() is not None:
            pass
        return self

    async def close(self) -> None:
        await self.exchange.close()

    @property
    def ids(self) -> list[str]:
        return [frame.id for frame in self.frames if frame.id is not None]

    @property
    def cursor(self) -> str:
        return self.ids[-1]

    @property
    def types(self) -> list[str]:
        return [frame.event["type"] for frame in self.frames]

    @property
    def text(self) -> str:
        return text_of(frame.event for frame in self.frames)

    @property
    def outcome(self) -> dict[str, Any]:
        assert self.types.count("outcome") == 1, self.types
        assert self.types[-1] == "outcome", self.types
        return self.frames[-1].event


def text_of(events: Any) -> str:
    """What the deltas say, each appended, whatever else the stream says."""
    return "".join(event["delta"] for event in events if event["type"] == "text-delta")


def assert_gapless(ids: list[str], *, after: int = 0) -> None:
    """Seqs `after + 1`, `after + 2` … of one stream."""
    streams = {id_.rpartition(":")[0] for id_ in ids}
    assert len(streams) <= 1, streams
    seqs = [int(id_.rpartition(":")[2]) for id_ in ids]
    assert seqs == list(range(after + 1, after + 1 + len(seqs)))


class Wire:
    """A server and its clients. `world` and `services` are the server's inside."""

    def __init__(self, inside: World, port: int) -> None:
        self.world = inside
        self.services: Services = inside.services
        self.port = port
        self.count = 0
        self._exchanges: list[Exchange] = []

    async def connect(self, receive_buffer: int | None = None) -> Exchange:
        sock = trio.socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer)
        await sock.connect(("127.0.0.1", self.port))
        exchange = Exchange(trio.SocketStream(sock))
        self._exchanges.append(exchange)
        return exchange

    def head(
        self, method: str, path: str, headers: Mapping[str, str | None] | None = None
    ) -> h11.Request:
        """The head of a request as a program sends it; a header of None is left out."""
        all_headers = {"Host": f"127.0.0.1:{self.port}", **(headers or {})}
        given = [
            (name, value.encode("latin1"))
            for name, value in all_headers.items()
            if value is not None
        ]
        return h11.Request(method=method, target=path, headers=given)

    async def start(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
        receive_buffer: int | None = None,
    ) -> Exchange:
        """Send a request; bytes go as they are, everything else as JSON."""
        exchange = await self.connect(receive_buffer)
        data = body if isinstance(body, bytes) else b"" if body is None else dumped(body)
        framing = {} if body is None else {"Content-Length": str(len(data))}
        head = self.head(method, path, {**framing, **(headers or {})})
        await exchange.send(head, *([h11.Data(data=data)] if data else []), h11.EndOfMessage())
        return exchange

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Answer:
        exchange = await self.start(method, path, body, headers)
        answer = await exchange.answer()
        await exchange.close()
        return answer

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers=named(headers))

    async def post(
        self, text: Any = "Hello", *, id_: str | None = None, thread: str = THREAD, **more: Any
    ) -> Answer:
        """Send a message; asserts nothing."""
        body = self.message(text, id_, **more)
        return await self.ask("POST", f"/api/threads/{thread}/messages", body)

    def message(self, text: Any = "Hello", id_: str | None = None, **more: Any) -> dict[str, Any]:
        """The body of a message."""
        self.count += 1
        parts = [{"type": "text", "text": text}]
        return {"id": id_ or f"message-{self.count:04d}", "parts": parts, **more}

    async def send(self, text: str = "Hello", **more: Any) -> str:
        """Send a message that is accepted; its stream."""
        answer = await self.post(text, **more)
        assert answer.status == 202, answer
        return str(answer.json["stream"])

    async def open(
        self,
        path: str,
        *,
        after: str | None = None,
        method: str = "GET",
        body: Any = None,
        receive_buffer: int | None = None,
        **headers: str,
    ) -> Follower:
        """Open a stream of frames."""
        sent = {"Accept": EVENTS, **named(headers)}
        if after is not None:
            sent["Last-Event-ID"] = after
        exchange = await self.start(method, path, body, sent, receive_buffer)
        await exchange.head()
        assert exchange.status == 200, await refused(exchange)
        assert exchange.headers["content-type"] == EVENTS
        return Follower(exchange, _FEED_FRAME if path == "/api/feed" else _FRAME)

    async def follow(self, stream: str, after: str | None = None, **more: Any) -> Follower:
        return await self.open(f"/api/streams/{stream}", after=after, **more)

    async def read(self, stream: str, after: str | None = None) -> Follower:
        """Follow to the end of the response."""
        follower = await (await self.follow(stream, after)).rest()
        await follower.close()
        return follower

    async def poll(self, stream: str, after: str = "", wait: float | None = None) -> Any:
        query = f"after={after}" + ("" if wait is None else f"&wait={wait}")
        answer = await self.get(f"/api/streams/{stream}?{query}", accept=JSON)
        assert answer.status == 200, answer
        return answer.json

    async def snapshot(self, thread: str = THREAD) -> Any:
        answer = await self.get(f"/api/threads/{thread}")
        assert answer.status == 200, answer
        return answer.json

    async def close(self) -> None:
        for exchange in self._exchanges:
            await exchange.close()


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-").title(): value for name, value in headers.items()}


async def refused(exchange: Exchange) -> bytes:
    body = b""
    while piece := await exchange.data():
        body += piece
    return b"%d %b" % (exchange.status, body)


@asynccontextmanager
async def connected(inside: World, port: int) -> AsyncGenerator[Wire, None]:
    """Clients of a server that is there already."""
    wire = Wire(inside, port)
    try:
        yield wire
    finally:
        await wire.close()


@asynccontextmanager
async def wired(path: Path, *models: Any, **options: Any) -> AsyncGenerator[Wire, None]:
    """A server in front of a `world` (see there), shut down on leaving like a real one."""
    options = {"port": 0, "grace": 0.0, **options}
    async with world(path, *models, **options) as inside, trio.open_nursery() as nursery:
        edge = WebEdge()
        edge.bind(inside.services.settings)
        urls: list[str] = await nursery.start(edge.serve, inside.services)
        async with connected(inside, int(urls[0].rpartition(":")[2])) as wire:
            yield wire
        inside.services.shut_down()
