"""The benchmark counts what was delivered, and refuses figures of a server that lost something."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server, socket

import pytest

import bench_scenarios as scenarios
from bench_readers import BenchmarkError, Client, Reader, Readers
from bench_scenarios import Load
from bench_server import running

HEAD = b"HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n"


class Line:
    """A reader, and the server's end of its connection."""

    def __init__(self, reader: Reader, server: socket) -> None:
        self.reader = reader
        self.server = server
        self.made: list[int] = []

    def say(self, data: bytes) -> None:
        self.server.sendall(data)
        assert self.reader.take(self.made)


@contextmanager
def connected() -> Iterator[Line]:
    with create_server(("127.0.0.1", 0)) as listening:
        reader = Reader(listening.getsockname(), "stream")
        server, _ = listening.accept()
        reader.socket.setblocking(True)
        with reader.socket, server:
            yield Line(reader, server)


@pytest.fixture
def line() -> Iterator[Line]:
    with connected() as line:
        yield line


def marker(seq: int) -> bytes:
    return b"~%06d:%016d~some text" % (seq, 1_000_000 + seq)


def frame(seq: int, *deltas: int) -> bytes:
    text = b"".join(marker(delta) for delta in deltas)
    return b'id: stream:%d\ndata: {"type":"text-delta","id":"p1","delta":"%b"}\n\n' % (seq, text)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


BODY = (
    HEAD
    + chunk(b": open\nretry: 1000\n\n")
    + chunk(b'id: stream:1\ndata: {"type":"start"}\n\n' + frame(2, 0))
    + chunk(frame(3, 1, 2, 3))
    + chunk(b": 3\n\n")
    + chunk(frame(4, 4) + frame(5, 5, 6))
    + chunk(b'id: stream:6\ndata: {"type":"outcome","outcome":"finished"}\n\n')
)


def test_a_delta_counts_once_wherever_the_network_cuts() -> None:
    for cut in range(1, len(BODY)):
        with connected() as line:
            line.say(BODY[:cut])
            line.say(BODY[cut:])
        reader = line.reader
        assert (reader.deltas, reader.events, reader.ended) == (7, 6, True), BODY[cut - 9 : cut]
        assert line.made == [1_000_000 + seq for seq in range(7)]


def test_events_that_come_one_by_one_count_too(line: Line) -> None:
    line.say(HEAD)
    line.say(b"100\r\n" + frame(1, 0))
    line.say(frame(2, 1))  # nothing before it: the frame before had come whole
    assert (line.reader.deltas, line.reader.events) == (2, 2)


@pytest.mark.parametrize("deltas", [(1,), (0, 2), (0, 0)], ids=["first", "missing", "twice"])
def test_a_lost_or_repeated_delta_is_no_figure(line: Line, deltas: tuple[int, ...]) -> None:
    with pytest.raises(BenchmarkError, match="deltas"):
        line.say(HEAD + chunk(frame(1, *deltas)))


def test_a_refusal_is_no_figure(line: Line) -> None:
    with pytest.raises(BenchmarkError, match="503"):
        line.say(b"HTTP/1.1 503 \r\n\r\n{}\n\n")


def test_a_stream_that_breaks_off_is_no_figure() -> None:
    with create_server(("127.0.0.1", 0)) as listening:
        readers = Readers(listening.getsockname())
        readers.open("stream")
        server, _ = listening.accept()
        with server:
            assert server.recv(65_536).startswith(b"GET /api/streams/stream ")
            server.sendall(HEAD + chunk(frame(1, 0)))
        try:
            with pytest.raises(BenchmarkError, match="closed before its end"):
                readers.until(20)
        finally:
            readers.close()


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew() -> None:
    with create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    assert connection.recv(65_536).startswith(b"GET /healthz ")
                    connection.sendall(b"HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n")

        serving = threading.Thread(target=serve)
        serving.start()
        client = Client(listening.getsockname())
        client.health()
        client.health()
        client.close()
        serving.join(20)
    assert not serving.is_alive()


def test_a_real_server_is_measured(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        live = scenarios.streaming(server, Load(turns=2, readers=2, rate=100, m=20))
        bursts = scenarios.streaming(server, Load(turns=2, readers=1, rate=100, m=20, burst=5))
        again = scenarios.resume(server, m=40, rate=200, repeats=2)
        assert server.memory() > 1_000_000
    assert 0 < live["p50_ms"] <= live["p99_ms"] <= live["max_ms"]
    assert live["events_per_s"] > 0
    assert live["cpu_s_per_m_deltas"] > 0
    # Those of a burst wait for the same commit, and are merged.
    assert 0 < bursts["events_per_s"] < bursts["deltas_per_s"]
    assert 0 < again["finished_first_ms"] <= again["finished_ms"]
    assert 0 < again["live_first_ms"] <= again["live_ms"]
