"""A journal without turns: streams whose writer is the test."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from app import events as ev
from app.journal import Journal, Reader
from app.message import Fold
from app.tail import Tail, frame
from store import segments, streams, turns
from store.database import Batch, Connection, Database, Job, open_database
from store.errors import StoreUnavailableError
from store.segments import Segment
from tests.store.rows import NOW, add_stream

HEARTBEAT_SECONDS = 8.0

OUTCOME = ev.Outcome("finished", "FINISHED", "", False, NOW)


class Logs:
    """A database, its journal, and shorthands for what a turn does with them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.journal = Journal(database, heartbeat=HEARTBEAT_SECONDS)
        self.count = 0

    async def open(self) -> Tail:
        """The writing end of the stream of a new turn."""
        self.count += 1
        name = f"turn-{self.count:05d}"
        number = await self.database.write(
            lambda c: add_stream(c, name, thread=f"thread-of-{name}"), durable=False
        )
        return self.journal.open(number, f"s-{name}")

    async def commit(self) -> None:
        """Wait until what was appended in this tick is on record."""
        await self.database.write(lambda _: None, durable=False)

    def end(self, tail: Tail) -> Job[None]:
        """Append the outcome and end stream and turn with it."""
        tail.end(OUTCOME)

        def write(connection: Connection) -> None:
            turn = streams.get(connection, tail.number).turn
            turns.end(connection, turn, tail.number, "finished", ev.encode(OUTCOME), NOW)
            streams.close(connection, tail.number, NOW)

        return self.database.job(write, durable=False, on_commit=lambda _: self.journal.close(tail))

    async def supersede(self, tail: Tail) -> Tail:
        """Take the stream over as a recovery does: its writer learns of it by its next append."""
        name = f"{tail.id}+"

        def take_over(connection: Connection) -> int:
            turn = streams.get(connection, tail.number).turn
            seq = segments.last_seq(connection, tail.number) + 1
            number = streams.create(connection, name, turn, NOW)
            seal = frame(tail.id, seq, ev.Superseded(name))
            segments.append(connection, [Segment(tail.number, seq, 1, seal)])
            streams.close(connection, tail.number, NOW, number)
            turns.recover(connection, turn, number, counted=True)
            return number

        def committed(number: int) -> None:
            successor = self.journal.open(number, name)
            successor.append(ev.Snapshot(tail.fold.parts()))

        await self.database.job(take_over, durable=False, on_commit=committed).wait()
        tail.append(ev.StartStep())
        await self.commit()
        assert tail.lost
        self.journal.close(tail)
        successor = self.journal.tail(name)
        assert successor is not None
        return successor

    async def stored(self, tail: Tail) -> bytes:
        """All frames of the stream, as the store has them."""
        found = await self.database.read(lambda c: segments.read_after(c, tail.number, 0))
        return b"".join(segment.frames for segment in found)


@asynccontextmanager
async def logs(path: Path, *, inline: bool = True) -> AsyncGenerator[Logs, None]:
    async with open_database(path, inline=inline) as database:
        yield Logs(database)


@contextmanager
def failing(database: Database, during: Callable[[], None] = lambda: None) -> Iterator[None]:
    """The store cannot be written. `during` is called while a commit is under way.

    Real faults are in tests/store/faults.py; this one needs no large database and no real time.
    """

    def fail(batch: Batch) -> None:
        during()
        raise StoreUnavailableError("database or disk is full")

    writer = database._writer
    writer._commit = fail  # type: ignore[method-assign]
    try:
        yield
    finally:
        del writer._commit


async def read_on(reader: Reader) -> tuple[bytes, str]:
    """Everything up to the first item that is neither frames nor a beat, and that item."""
    frames = b""
    while True:
        item = await reader.next()
        if isinstance(item, bytes):
            frames += item
        elif item != "beat":
            return frames, item


def split(frames: bytes) -> list[bytes]:
    return [one + b"\n\n" for one in frames.split(b"\n\n")[:-1]]


def ids(frames: bytes) -> list[tuple[str, int]]:
    """Stream and seq of each frame. Frames without id are not expected."""
    found = []
    for one in split(frames):
        head = one[: one.index(b"\n")]
        assert head.startswith(b"id: "), one
        stream, _, seq = head.removeprefix(b"id: ").decode().rpartition(":")
        found.append((stream, int(seq)))
    return found


def events(frames: bytes) -> list[Any]:
    return [ev.decode(one.partition(b"data: ")[2]) for one in split(frames)]


def fold(frames: bytes) -> Fold:
    result = Fold()
    for event in events(frames):
        result.apply(event)
    return result
