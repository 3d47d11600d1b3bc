"""The other end of the wire, cheap enough to share a machine with what it measures.

One thread, one epoll, plain sockets: a delivery costs about 8 us here, so that the latency shown is
the server's. Deltas are found by their markers (`~SEQ:MICROS~`, app/models/bench.py) in frames that
have arrived whole, as an EventSource would hand them out; each reader checks that it gets every
delta of its turn exactly once and in order.
"""

import http.client
import json
import re
import select
import socket
import time
import uuid
from dataclasses import dataclass, field

RECEIVE_BYTES = 2**18

_MARKER = re.compile(rb"~(\d{6}):(\d{16})~")
_EVENT = b"\nid: "
_TERMINAL = b'"type":"outcome"'


class BenchmarkError(Exception):
    """The server did not do what is measured: the figures would mean nothing."""


@dataclass(frozen=True)
class Turn:
    """What the benchmark's model is asked for: `m` deltas of `size` bytes, `rate` a second each.

    `burst`: how many of them come back to back, with a pause after them that keeps the rate.
    `at`: wall-clock ms of the first, `tail`: ms from the last to the end of the turn.
    """

    m: int
    rate: float = 0
    burst: int = 1
    size: int = 40
    at: float = 0
    tail: int = 0


class Client:
    """Plain requests, over one connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._http = http.client.HTTPConnection(*address, timeout=30)

    def start(self, turn: Turn) -> str:
        """Send the message that starts it. Returns the id of its stream."""
        text = (
            f"m={turn.m} rate={turn.rate:g} burst={turn.burst} size={turn.size} "
            f"at={turn.at:.3f} tail={turn.tail}"
        )
        body = {"id": str(uuid.uuid4()), "parts": [{"type": "text", "text": text}]}
        path = f"/api/threads/{uuid.uuid4()}/messages"
        return str(json.loads(self._request("POST", path, json.dumps(body)))["stream"])

    def cancel(self, stream: str) -> None:
        self._request("DELETE", f"/api/streams/{stream}")

    def health(self) -> None:
        self._request("GET", "/healthz")

    def close(self) -> None:
        self._http.close()

    def _request(self, method: str, path: str, body: str | None = None) -> bytes:
        try:
            answer = self._answer(method, path, body)
        except (http.client.RemoteDisconnected, ConnectionError):
            # It was idle for longer than the server keeps one. Ids make a request safe to repeat.
            self._http.close()
            answer = self._answer(method, path, body)
        data = answer.read()
        if answer.status >= 300:
            raise BenchmarkError(f"{method} {path} was answered {answer.status}: {data[:200]!r}")
        return data

    def _answer(self, method: str, path: str, body: str | None) -> http.client.HTTPResponse:
        self._http.request(method, path, body, {"Content-Type": "application/json"})
        return self._http.getresponse()


class Reader:
    """One connection that follows one stream."""

    def __init__(self, address: tuple[str, int], stream: str, after: int = 0) -> None:
        """`after`: the seq it has; 0: none. Raises OSError."""
        self.opened = time.perf_counter()
        self.first: float | None = None  # when the first event came, by the same clock
        self.arrived = 0  # wall-clock microseconds of what came last
        self.deltas = 0
        self.events = 0
        self.ended = False  # the outcome has come
        self.socket = socket.create_connection(address)
        cursor = f"Last-Event-ID: {stream}:{after}\r\n" if after else ""
        self.socket.sendall(
            f"GET /api/streams/{stream} HTTP/1.1\r\nHost: {address[0]}\r\n"
            f"Accept: text/event-stream\r\n{cursor}\r\n".encode()
        )
        self.socket.setblocking(False)
        self._rest = b""  # of a frame that has not arrived whole
        self._answered = False  # the response's head has come, and says 200
        self._next: int | None = None if after else 0  # seq of the delta that has to come

    def take(self, micros: list[int]) -> bool:
        """Read what has come; adds the times at which its deltas were made. False: closed."""
        data = self.socket.recv(RECEIVE_BYTES)
        self.arrived = time.time_ns() // 1000  # what follows is our work, not the server's
        if not data:
            return False
        whole, gap, rest = (self._rest + data).rpartition(b"\n\n")
        self._rest = rest
        if gap:
            self._read(whole, micros)
        return True

    def _read(self, frames: bytes, micros: list[int]) -> None:
        if not self._answered:
            if not frames.startswith(b"HTTP/1.1 200 "):
                raise BenchmarkError(f"a reader was answered {frames[:100]!r}")
            self._answered = True
        events = frames.count(_EVENT) + frames.startswith(_EVENT[1:])
        if not events:
            return  # a comment
        if self.first is None:
            self.first = time.perf_counter()
        self.events += events
        found = _MARKER.findall(frames)
        if found:
            self._check(int(found[0][0]), int(found[-1][0]), len(found))
            micros += [int(made) for _, made in found]
        self.ended = self.ended or _TERMINAL in frames

    def _check(self, first: int, last: int, count: int) -> None:
        if self._next is None:
            self._next = first
        if first != self._next or last - first + 1 != count:
            raise BenchmarkError(
                f"a reader got {count} deltas, {first} to {last}, and had {self._next} before"
            )
        self._next = last + 1
        self.deltas += count


@dataclass
class Deliveries:
    """What readers got. `latencies`: microseconds from the making of a delta to its arrival."""

    latencies: list[int] = field(default_factory=list)
    began: float = 0.0  # perf_counter at the first delta
    ended: float = 0.0  # and at the last


class Readers:
    """Any number of readers in one loop."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.got = Deliveries()
        self.all: list[Reader] = []
        self._address = address
        self._epoll = select.epoll()
        self._open: dict[int, Reader] = {}

    def open(self, stream: str, after: int = 0) -> Reader:
        reader = Reader(self._address, stream, after)
        self.all.append(reader)
        self._open[reader.socket.fileno()] = reader
        self._epoll.register(reader.socket, select.EPOLLIN)
        return reader

    def until(self, seconds: float, *, deltas: int | None = None) -> bool:
        """Read until all turns have ended; False if they have not after that time.

        Args:
            deltas: or until each reader has so many of them.
        """
        deadline = time.perf_counter() + seconds
        waiting = len(self._open) if deltas is None else sum(r.deltas < deltas for r in self.all)
        while waiting > 0:
            left = deadline - time.perf_counter()
            if left <= 0:
                return False
            for fd, _ in self._epoll.poll(left):
                reader = self._open[fd]
                before = reader.deltas
                ended = self._take(reader)
                if ended if deltas is None else before < deltas <= reader.deltas:
                    waiting -= 1
        return True

    def _take(self, reader: Reader) -> bool:
        micros: list[int] = []
        going_on = reader.take(micros)
        if micros:
            got = self.got
            got.latencies += [reader.arrived - made for made in micros]
            got.ended = time.perf_counter()
            got.began = got.began or got.ended
        if not going_on and not reader.ended:
            raise BenchmarkError("a stream was closed before its end")
        if reader.ended:
            self._shut(reader)
        return reader.ended

    def _shut(self, reader: Reader) -> None:
        if self._open.pop(reader.socket.fileno(), None):
            self._epoll.unregister(reader.socket)
            reader.socket.close()

    def close(self) -> None:
        for reader in list(self._open.values()):
            self._shut(reader)
        self._epoll.close()
