"""What is measured. A scenario takes a running server, or starts its own, and returns figures."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench_readers import BenchmarkError, Client, Reader, Readers, Turn
from bench_server import Server, machine_cpu, running

Figures = dict[str, float]

# The turns outlive what is measured, so that no ending falls into it; then they are cancelled.
TAIL_MS = 600_000
# Time to start a turn and to open a reader: all are there when the first delta is made. A machine
# that needs longer gets more.
START_TURN_SECONDS = 0.006
OPEN_READER_SECONDS = 0.002
MORE_TIME = (1, 3, 10)
# How long before the first delta the CPU clocks are read.
LEAD_SECONDS = 0.02
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Load:
    """`turns` at once, each with `readers` and `m` deltas at `rate` a second (0: full speed).

    `burst`: that many deltas of a turn back to back, as networks deliver them, at the same rate.
    """

    turns: int
    readers: int
    rate: float
    m: int
    burst: int = 1


@dataclass(frozen=True)
class Streaming:
    """A load of turns; `quick` shows as much of it as one or two seconds can."""

    title: str
    full: Load
    quick: Load


STREAMING = {
    "lone": Streaming("one turn, one reader", Load(1, 1, 100, 500), Load(1, 1, 100, 50)),
    "hundred": Streaming("100 turns", Load(100, 1, 50, 250), Load(100, 1, 50, 25)),
    "fanout": Streaming("one turn, 100 readers", Load(1, 100, 100, 400), Load(1, 100, 100, 50)),
    "woken": Streaming("10 000 separate deltas/s", Load(200, 1, 50, 250), Load(200, 1, 50, 25)),
    "crowd": Streaming("25 000 separate deltas/s", Load(500, 1, 50, 200), Load(500, 1, 50, 15)),
    "bursts": Streaming(
        "25 000 deltas/s in bursts of 5", Load(500, 1, 50, 200, 5), Load(500, 1, 50, 15, 5)
    ),
    "full": Streaming("20 turns, full speed", Load(20, 1, 0, 4000), Load(20, 1, 0, 400)),
    "full-5": Streaming("the same, 5 readers each", Load(20, 5, 0, 2000), Load(20, 5, 0, 200)),
}
WARMING_UP = Load(5, 1, 0, 300)  # what only the first turns cost


@dataclass
class Usage:
    """CPU seconds within a block; `others`: of neither the server nor this program."""

    server: float = 0.0
    others: float = 0.0
    seconds: float = 0.0


@contextmanager
def used(server: Server) -> Iterator[Usage]:
    """Measures the block; the figures are there when it has ended."""
    usage = Usage()
    began, cpu, own, machine = _clocks(server)
    yield usage
    now, cpu_now, own_now, machine_now = _clocks(server)
    usage.seconds = now - began
    usage.server = cpu_now - cpu
    usage.others = max(0.0, machine_now - machine - (own_now - own) - usage.server)


def _clocks(server: Server) -> tuple[float, float, float, float]:
    return time.perf_counter(), server.cpu(), time.process_time(), machine_cpu()


@contextmanager
def reading(server: Server) -> Iterator[Readers]:
    readers = Readers(server.address)
    try:
        yield readers
    finally:
        readers.close()


@contextmanager
def turns(server: Server, wanted: list[Turn]) -> Iterator[list[str]]:
    """The streams of these turns, which are cancelled after the block."""
    client = Client(server.address)
    try:
        streams = [client.start(turn) for turn in wanted]
        yield streams
        for stream in streams:
            client.cancel(stream)
    finally:
        client.close()


def streaming(server: Server, load: Load) -> Figures:
    """Latency, throughput and CPU of live delivery."""
    for more in MORE_TIME:
        per_turn = START_TURN_SECONDS + load.readers * OPEN_READER_SECONDS
        figures = _streaming(server, load, time.time() + (0.3 + load.turns * per_turn) * more)
        if figures is not None:
            return figures
    raise BenchmarkError("the machine is too busy to start that many turns in time")


def _streaming(server: Server, load: Load, at: float) -> Figures | None:
    """None: not everything was there at the wall-clock second `at`."""
    # Spread over one interval: without that all turns would speak in the same millisecond.
    apart = 1000 * load.burst / load.rate / load.turns if load.rate else 0
    wanted = [
        Turn(load.m, load.rate, load.burst, at=at * 1000 + i * apart, tail=TAIL_MS)
        for i in range(load.turns)
    ]
    with turns(server, wanted) as streams, reading(server) as readers:
        for stream in streams:
            for _ in range(load.readers):
                readers.open(stream)
        left = at - LEAD_SECONDS - time.time()
        if left < 0:
            return None
        readers.until(left)
        events = sum(reader.events for reader in readers.all)
        asked_seconds = load.m / load.rate if load.rate else 0
        with used(server) as usage:
            if not readers.until(asked_seconds + PATIENCE_SECONDS, deltas=load.m):
                raise BenchmarkError("deltas are missing")
        got = readers.got
        events = sum(reader.events for reader in readers.all) - events
        latencies = sorted(got.latencies)
        seconds = got.ended - got.began
        return {
            "p50_ms": latencies[len(latencies) // 2] / 1000,
            "p99_ms": latencies[len(latencies) * 99 // 100] / 1000,
            "max_ms": latencies[-1] / 1000,
            "deltas_per_s": len(latencies) / seconds,
            "events_per_s": events / seconds,
            "cpu_s_per_m_deltas": usage.server / len(latencies) * 1e6,
            "cpu_s_per_m_events": usage.server / events * 1e6,
            "server_cores": usage.server / usage.seconds,
            "other_cores": usage.others / usage.seconds,
        }


def idle(folder: Path, readers: int, hold: float) -> Figures:
    """Memory and CPU of readers, and of turns, for whom nothing happens."""
    streams_count = max(1, readers // 50)
    later = Turn(1, at=(time.time() + 3600) * 1000)
    with running(folder / "idle") as server, turns(server, [later] * streams_count) as streams:
        _open(server, streams, readers // 10).close()  # what only the first requests cost
        before, cpu = server.memory(), server.cpu()
        held = _open(server, streams, readers)
        opened = server.cpu() - cpu
        with used(server) as usage:
            held.until(hold)
        after = server.memory()
        with turns(server, [later] * readers):
            with_turns = server.memory()
        held.close()
        return {
            "readers": readers,
            "kb_per_reader": (after - before) / readers / 1000,
            "kb_per_turn": (with_turns - after) / readers / 1000,
            "open_cpu_ms": opened / readers * 1000,
            "held_cpu_us_per_reader_s": usage.server / readers / usage.seconds * 1e6,
        }


def _open(server: Server, streams: list[str], count: int) -> Readers:
    readers = Readers(server.address)
    for i in range(count):
        readers.open(streams[i % len(streams)])
        readers.until(0)
    readers.until(1.0)
    return readers


def resume(server: Server, m: int, rate: float, repeats: int) -> Figures:
    """How long one reader takes for a whole stream that is on record, while it goes on and after
    its end. A rate of one delta for each commit, so that none are merged."""
    with turns(server, [Turn(m, rate, tail=TAIL_MS)]) as (stream,):
        with reading(server) as readers:
            writer = readers.open(stream)
            if not readers.until(m / rate + PATIENCE_SECONDS, deltas=m):
                raise BenchmarkError("the stream to resume was not written")
            events = writer.events

        live = _replays(server, stream, repeats, lambda r: r.until(PATIENCE_SECONDS, deltas=m))
        rest = _replays(
            server,
            stream,
            repeats,
            lambda r: r.until(PATIENCE_SECONDS, deltas=1),
            after=events - 1,
        )
    finished = _replays(server, stream, repeats, lambda r: r.until(PATIENCE_SECONDS))
    return {
        "events": events,
        "deltas": m,
        **{f"live_{name}": value for name, value in live.items()},
        **{f"finished_{name}": value for name, value in finished.items()},
        "last_event_ms": rest["ms"],
    }


def _replays(
    server: Server,
    stream: str,
    repeats: int,
    through: Callable[[Readers], bool],
    *,
    after: int = 0,
) -> Figures:
    """The best of some repetitions: ms to the first event and to the last, CPU ms of the server."""
    runs: list[tuple[float, float, float]] = []
    for _ in range(repeats):
        with reading(server) as readers, used(server) as usage:
            reader: Reader = readers.open(stream, after)
            if not through(readers) or reader.first is None:
                raise BenchmarkError("a stream could not be resumed")
        runs.append((readers.got.ended - reader.opened, reader.first - reader.opened, usage.server))
    whole, first, cpu = (min(values) * 1000 for values in zip(*runs, strict=True))
    return {"ms": whole, "first_ms": first, "cpu_ms": cpu}


def start(folder: Path) -> Figures:
    """From the call of the program to the line that says it is ready, and the CPU of that."""
    figures: Figures = {}
    for name in ("cold", "warm"):
        with running(folder / "start", bytecode=folder / "bytecode") as server:
            client = Client(server.address)
            client.health()
            client.close()
            figures |= {f"{name}_ms": server.started * 1000, f"{name}_cpu_ms": server.cpu() * 1000}
    return figures
