"""The live end of one stream: what its one writer appends, and what its readers share.

Pending events become frames only when a commit takes them, so deltas of the same part that wait
behind a commit merge into one event. Frames become visible only when their commit is on record
(L2).
"""

from collections.abc import Callable

import trio

from app import events as ev
from app.message import Fold
from store.database import Database
from store.errors import StoreError, StreamClosedError
from store.segments import Segment

# Frames kept in memory for readers; whoever falls further behind reads the store (L5). The list is
# cut when it is twice as long, so the cut costs nothing per event.
KEEP_FRAMES = 5_000
KEEP_BYTES = 4 * 1024 * 1024
# A delta stays small enough for one network write and one reducer step: larger ones are cut, and
# those that merge stop there. In characters; a character has four bytes at most.
MERGE_BYTES = 16 * 1024
# A segment ends with the event that reaches it; so does what a reader is given at once. What a
# reader does not take off our hands is kept for it alone, so this bounds what a stalled one costs.
PIECE_BYTES = 64 * 1024
# What an event costs beside its text, for the bound on pending bytes.
EVENT_OVERHEAD = 64

Merging = ev.TextDelta | ev.ReasoningDelta | ev.ToolInputDelta


def frame(stream: str, seq: int, event: ev.Event) -> bytes:
    """One event as it is stored and sent (web/PROTOCOL.md, "Frames")."""
    return b"id: %b:%d\ndata: %b\n\n" % (stream.encode(), seq, ev.encode(event))


class _Delta:
    """Deltas of one part that wait for a commit and will be one event."""

    __slots__ = ("id", "kind", "pieces", "size")

    def __init__(self, kind: type[Merging], id_: str, delta: str) -> None:
        self.kind = kind
        self.id = id_
        self.pieces = [delta]
        self.size = len(delta)

    def event(self) -> ev.Event:
        pieces = self.pieces
        return self.kind(self.id, pieces[0] if len(pieces) == 1 else "".join(pieces))


class Tail:
    """Made by the journal for each stream that is open. Belongs to the Trio thread.

    `durable` is the seq of the newest event on record: readers may have everything up to it.
    """

    def __init__(self, database: Database, number: int, id_: str) -> None:
        self.number = number
        self.id = id_
        self.fold = Fold()  # of the events on record, so exact for `durable`
        self.durable = 0
        self.ended = False  # set when the last event is on record
        self.lost = False  # set when another writer took the stream over: the store knows more
        self.error: StoreError | None = None  # set when a commit failed: the turn must end
        self.on_failure: Callable[[], None] | None = None  # told of that at once, on commit
        self.broken: bytes | None = None  # a last frame without id, told instead of what was lost
        self.bell = trio.Event()  # swapped at each ring: take it, look, then wait for it
        self.waiting = False  # somebody waits for the bell
        self._database = database
        self._pending: list[ev.Event | _Delta] = []
        self._pending_bytes = 0
        self._flying: list[ev.Event] = []  # in the commit that is under way
        self._flying_frames: list[bytes] = []
        self._closing = False  # the last event was appended
        self._checkpoint: bytes | None = None  # goes with the next segment; None: as it was
        self._base = 1  # seq of _frames[0]
        self._frames: list[bytes] = []
        self._bytes = 0
        self._memo: tuple[int, int, bytes] = (0, 0, b"")

    # writing

    def append(self, *events: ev.Event) -> None:
        """Append to the log; committed with everything else that is handed over in this tick.

        Raises the StoreError that broke the stream: nothing can be appended any more.
        """
        if self.error is not None:
            raise self.error
        pending = self._pending
        size = 0
        for event in events:
            if isinstance(event, ev.TextDelta | ev.ReasoningDelta):
                id_, delta = event.id, event.delta
            elif isinstance(event, ev.ToolInputDelta):
                id_, delta = event.tool_call_id, event.input_text_delta
            else:
                pending.append(event)
                size += EVENT_OVERHEAD
                continue
            size += len(delta)
            last = pending[-1] if pending else None
            if (
                type(last) is _Delta
                and last.id == id_
                and last.kind is type(event)
                and last.size + len(delta) <= MERGE_BYTES
            ):
                last.pieces.append(delta)
                last.size += len(delta)
                continue
            for start in range(0, len(delta) or 1, MERGE_BYTES):
                pending.append(_Delta(type(event), id_, delta[start : start + MERGE_BYTES]))
                size += EVENT_OVERHEAD
        self._pending_bytes += size
        self._database.pending(size)
        self._database.mark(self)

    def checkpoint(self, data: bytes) -> None:
        """With what a provider's response can be resumed after the events appended so far.

        Committed with them; empty: with nothing.
        """
        self._checkpoint = data

    def preview(self, *events: ev.Event) -> Fold:
        """The fold of everything appended so far, on record or not, and of `events` after it."""
        fold = self.fold.copy()
        for event in (*self._flying, *self._unmerged(), *events):
            fold.apply(event)
        return fold

    def end(self, *events: ev.Event) -> None:
        """Append the last events of the stream: outcome or superseded."""
        self.append(*events)
        self._closing = True

    def repair(self) -> None:
        """After a failed commit: drop what was never on record, so that an end can be appended."""
        self._database.pending(-self._pending_bytes)
        self._pending, self._pending_bytes = [], 0
        self._flying, self._flying_frames = [], []
        self.error, self._closing = None, False

    def tell_broken(self, event: ev.Event) -> None:
        """The one exception to L2: the store is broken, so live readers are told directly."""
        self.broken = b"data: %b\n\n" % ev.encode(event)
        self.ring()

    def begin(self, *events: ev.Event) -> None:
        """What the stream begins with was put on record together with it, as by a recovery."""
        self._flying = list(events)
        self._flying_frames = [frame(self.id, seq, e) for seq, e in enumerate(events, 1)]
        joined = b"".join(self._flying_frames)
        self.committed(Segment(self.number, len(events), len(events), joined))

    # the database's side (store.database.Appender)

    def take(self) -> list[Segment]:
        # Encoding here costs the loop 3 us for a delta, 11 to 25 ms for the most that may wait
        # (8 MB of text, after a disk that hung), so it is not worth a way of its own to the writer.
        if not self._pending or self.error is not None:
            return []
        self._flying = self._unmerged()
        self._pending = []
        self._database.pending(-self._pending_bytes)
        self._pending_bytes = 0
        first = self.durable + 1
        frames = [frame(self.id, seq, event) for seq, event in enumerate(self._flying, first)]
        self._flying_frames = frames
        checkpoint, self._checkpoint = self._checkpoint, None
        joined = frames[0] if len(frames) == 1 else b"".join(frames)
        if len(joined) > PIECE_BYTES:
            return self._pieces(checkpoint)
        return [Segment(self.number, self.durable + len(frames), len(frames), joined, checkpoint)]

    def _pieces(self, checkpoint: bytes | None) -> list[Segment]:
        """What is in flight as segments; the last one carries the checkpoint."""
        found, frames, start = [], self._flying_frames, 0
        while start < len(frames):
            stop = _reach(frames, start)
            mark = checkpoint if stop == len(frames) else None
            joined = b"".join(frames[start:stop])
            found.append(Segment(self.number, self.durable + stop, stop - start, joined, mark))
            start = stop
        return found

    def committed(self, segment: Segment) -> None:
        count = segment.events
        # The next reader to look is most likely at the old end: it gets these very bytes.
        self._memo = (self.durable, segment.last_seq, segment.frames)
        self._frames += self._flying_frames[:count]
        self._bytes += len(segment.frames)
        for event in self._flying[:count]:
            self.fold.apply(event)
        del self._flying[:count], self._flying_frames[:count]
        self.durable = segment.last_seq
        if len(self._frames) > 2 * KEEP_FRAMES or self._bytes > 2 * KEEP_BYTES:
            self._trim()
        if self._closing and not self._flying and not self._pending:
            self.ended = True
        self.ring()

    def failed(self, error: StoreError) -> None:
        self.error = error
        self.lost = isinstance(error, StreamClosedError)
        if self.on_failure is not None:
            self.on_failure()
        self.ring()  # readers of a stream that was taken over are led on

    # reading

    def ring(self) -> None:
        """Wake every waiting reader. Carries no data."""
        if self.waiting:
            self.waiting = False
            bell, self.bell = self.bell, trio.Event()
            bell.set()

    def holds(self, seq: int) -> bool:
        """Whether the events after `seq` are all still in memory."""
        return seq + 1 >= self._base

    def after(self, seq: int) -> tuple[int, bytes]:
        """The next frames after `seq`, and the seq of the last of them. Joined once for all.

        Only where `holds(seq)`, and something follows.
        """
        memo = self._memo
        if memo[0] != seq or memo[1] == seq:
            start = seq + 1 - self._base
            stop = _reach(self._frames, start)
            frames = self._frames[start:stop]
            joined = frames[0] if len(frames) == 1 else b"".join(frames)
            memo = self._memo = (seq, seq + len(frames), joined)
        return memo[1], memo[2]

    def _unmerged(self) -> list[ev.Event]:
        return [p.event() if type(p) is _Delta else p for p in self._pending]  # type: ignore[misc]

    def _trim(self) -> None:
        cut = max(0, len(self._frames) - KEEP_FRAMES)
        kept = sum(map(len, self._frames[cut:]))
        while kept > KEEP_BYTES and cut < len(self._frames) - 1:
            kept -= len(self._frames[cut])
            cut += 1
        del self._frames[:cut]
        self._base += cut
        self._bytes = kept


def _reach(frames: list[bytes], start: int) -> int:
    """Where a piece ends that begins at `start`: it has one frame at least."""
    size, stop = 0, start
    while stop < len(frames) and size < PIECE_BYTES:
        size += len(frames[stop])
        stop += 1
    return stop
