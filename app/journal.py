"""The journal: append = commit, then ring; follow(cursor) = one loop for replay and live tail.

A reader holds a position and nothing else. Its loop is: take the bell, read after the position, and
only if there was nothing, wait for that bell. So a commit between "read" and "wait" cannot be
missed, whatever the order (P13), and a slow reader costs one integer (L5).
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import trio

from app.errors import InvalidError, NotFoundError
from app.tail import PIECE_BYTES, Tail
from store import segments, streams, turns
from store.database import Connection, Database
from store.segments import Segment
from store.streams import StreamRow

# The bell rings so often per heartbeat; a reader speaks if it was silent for the rest. So the
# silence on the wire is between 0.7 and 1 heartbeat.
RINGS_PER_BEAT = 4
BEAT_AFTER = 0.7

Idle = Literal["beat", "draining", "gap", "end"]


class Stored(NamedTuple):
    """What one read transaction saw of a stream: segments after a seq, and its row; None: deleted.

    `whole`: there were no more segments than these.
    """

    found: list[Segment]
    row: StreamRow | None
    whole: bool

    @property
    def final(self) -> bool:
        """The stream is closed: what was seen of it stays true."""
        return self.row is not None and self.row.ended_at is not None

    @property
    def ends(self) -> bool:
        """Nothing follows these segments, and nothing ever will."""
        return self.final and self.whole and self.row is not None and self.row.successor is None


def look_after(connection: Connection, row: StreamRow, seq: int) -> Stored:
    """What is stored of a stream after `seq`, as much as is read at once."""
    found = segments.read_after(connection, row.number, seq, PIECE_BYTES)
    return Stored(found, row, sum(len(segment.frames) for segment in found) < PIECE_BYTES)


class Journal:
    """All streams: the live ones by their tails, the ended ones from the store."""

    def __init__(self, database: Database, *, heartbeat: float) -> None:
        """`heartbeat`: seconds of silence after which a reader is given a "beat"."""
        self.database = database
        self.heartbeat = heartbeat
        self.draining = False  # set once, by drain(): readers end, writers go on
        self._tails: dict[str, Tail] = {}

    # writers

    def open(self, number: int, id_: str) -> Tail:
        """The writing end of a new, empty stream. `close` it when its end is on record."""
        tail = Tail(self.database, number, id_)
        self._tails[id_] = tail
        return tail

    def close(self, tail: Tail) -> None:
        """Forget a tail whose stream has ended; its readers keep it until they are through."""
        self._tails.pop(tail.id, None)
        tail.on_failure = None  # leads back to the turn: both would wait for the collector

    def tail(self, id_: str) -> Tail | None:
        """The live end of a stream; None if it has ended or does not exist."""
        return self._tails.get(id_)

    # readers

    async def locate(self, stream_id: str, cursor: tuple[str, int] | None = None) -> "Reader":
        """A reader of the stream, after the cursor.

        Args:
            cursor: (stream id, seq). The id may be that of another stream of the same turn: a
                reader of a superseded one is led on to the successor.

        Raises:
            NotFoundError: STREAM_NOT_FOUND.
            InvalidError: CURSOR_INVALID: another turn's stream, or beyond the end of a live one.
        """
        name, seq = cursor or (stream_id, 0)
        tail = self._tails.get(name) if name == stream_id else None
        if tail is not None:
            number, stored = tail.number, None
        else:
            number, stored = await self._look_up(stream_id, name, seq)
            tail = self._tails.get(name)
        if tail is not None and seq > tail.durable and seq > await self._last_seq(number):
            raise InvalidError("The cursor is beyond the end", code="CURSOR_INVALID")
        if stored is not None and (tail is not None or not stored.final):
            stored = None  # there may be more by now
        return Reader(self, number, name, seq, tail, stored)

    async def _look_up(self, stream_id: str, name: str, seq: int) -> tuple[int, Stored]:
        """The number of stream `name`, and in the same read what is stored of it after `seq`."""

        def find(connection: Connection) -> tuple[int, Stored]:
            row = streams.find(connection, stream_id)
            at = row if name == stream_id else streams.find(connection, name)
            if row is None:
                raise NotFoundError("No such stream", code="STREAM_NOT_FOUND")
            if at is None or at.turn != row.turn:
                raise InvalidError("The cursor is of another turn", code="CURSOR_INVALID")
            return at.number, look_after(connection, at, seq)

        return await self.database.read(find)

    async def _last_seq(self, number: int) -> int:
        # The store can be ahead of a tail: that a commit is on record was not told yet, or another
        # process took the stream over.
        return await self.database.read(lambda c: segments.last_seq(c, number))

    def drain(self) -> None:
        """Shutdown has begun: every reader is told, at once, also the quiet ones."""
        self.draining = True
        self._ring_all()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Rings often enough for heartbeats, so that a reader waits without a timer of its own.

        One timer for all readers: a timeout per wait would cost 7 us per delivered event.
        """
        task_status.started()
        while True:
            await trio.sleep(self.heartbeat / RINGS_PER_BEAT)
            self._ring_all()

    def _ring_all(self) -> None:
        for tail in self._tails.values():
            tail.ring()

    async def stored(self, number: int, seq: int) -> Stored:
        """What is stored of a stream after `seq`, in one read transaction."""

        def read(connection: Connection) -> Stored:
            try:
                row = streams.get(connection, number)
            except LookupError:
                return Stored([], None, True)
            return look_after(connection, row, seq)

        return await self.database.read(read)


class Reader:
    """A position in a turn's log, led from a superseded stream to its successor."""

    def __init__(
        self,
        journal: Journal,
        number: int,
        name: str,
        seq: int,
        tail: Tail | None,
        stored: Stored | None,
    ) -> None:
        """`stored`: what the store has after `seq`, if that was read already."""
        self.name = name  # id of the stream the position is in
        self.seq = seq  # everything up to it was given out
        self._journal = journal
        self._number = number
        self._tail = tail
        self._stored = stored  # taken by the first look at the store
        self._over = False  # nothing comes any more
        self._pruned = False  # what comes next is not kept any more
        self._unowned = False  # the stream was open, and nobody here wrote to it, at the last look
        self._spoke = trio.current_time()

    async def next(self, *, wait: bool = True) -> bytes | Idle:
        """The next frames, as many as there are; or why there are none.

        "beat": nothing happened for the heartbeat interval. "draining": the server shuts down, the
        turn goes on later. "gap": what follows was pruned (L6). "end": nothing follows.

        Waits for the bell of the stream, which the journal rings several times per heartbeat;
        with `wait` False it says "beat" instead.
        """
        while not self._over:
            tail = self._tail
            if tail is None or not tail.holds(self.seq):
                found = await self._from_store()
            elif self.seq < tail.durable:
                self.seq, found = tail.after(self.seq)
            elif tail.lost:
                self._tail = None  # the store knows the successor
                continue
            elif tail.ended:
                self._over = True
                break
            elif tail.broken is not None:
                self._over = True
                return tail.broken
            elif self._journal.draining:
                return "draining"
            elif not wait:
                return "beat"
            else:
                if trio.current_time() - self._spoke >= self._journal.heartbeat * BEAT_AFTER:
                    self._spoke = trio.current_time()
                    return "beat"
                tail.waiting = True
                await tail.bell.wait()
                continue
            if self._pruned:
                self._over = True
                return "gap"
            if found:
                self._spoke = trio.current_time()
                return found
        return "end"

    async def thread(self) -> str:
        """Id of the thread whose turn it reads."""
        number = self._number

        def find(connection: Connection) -> str:
            return turns.by_number(connection, streams.get(connection, number).turn).thread

        return await self._journal.database.read(find)

    async def _from_store(self) -> bytes:
        stored, self._stored = self._stored, None
        stored = stored or await self._journal.stored(self._number, self.seq)
        found, row, _ = stored
        if found:
            frames = cut(found, self.seq)
            self.seq = found[-1].last_seq
            self._over = stored.ends
            return frames
        if row is None:  # its thread was deleted: nothing follows
            self._over = True
            return b""
        if row.pruned:
            self._pruned = True
            return b""
        if row.successor is not None:
            await self._follow(row.successor)
        elif row.ended_at is None and self._tail is None:
            # Open, so somebody writes to it: we may have looked for its tail before it was made,
            # or it has ended since we looked at the store. Else it is another process'.
            await self._journal.database.told()
            self._tail = self._journal.tail(self.name)
            self._over = self._tail is None and self._unowned
            self._unowned = True
        else:
            self._over = True
        return b""

    async def _follow(self, successor: int) -> None:
        row = await self._journal.database.read(lambda c: streams.get(c, successor))
        self._number, self.name, self.seq = row.number, row.id, 0
        self._tail = self._journal.tail(row.id)


def cut(found: Iterable[Segment], seq: int) -> bytes:
    """The frames of the segments that come after `seq`."""
    joined = []
    for segment in found:
        frames = segment.frames
        surplus = seq - (segment.last_seq - segment.events)
        if surplus > 0:
            frames = b"\n\n".join(frames.split(b"\n\n", surplus)[surplus:])
        joined.append(frames)
    return b"".join(joined)
