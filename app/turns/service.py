"""The turns of this process: accept, queue, start, stop, and pick up what a crash left (T1, T4)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

import structlog
import trio

from app import events as ev
from app.clock import WallClock
from app.errors import NotFoundError, UnavailableError
from app.feed import Change, Feed, ThreadState
from app.journal import Journal
from app.models.catalogue import Catalogue
from app.tools.registry import Toolbox
from app.turns import outcomes
from app.turns.ending import Ended, promote
from app.turns.intake import WAITING, Accepted, Submission, accept
from app.turns.outcomes import Ending
from app.turns.recovery import Recovered
from app.turns.state import State
from app.turns.steps import tool_results
from app.turns.supervisor import Supervisor, TurnLimits
from app.turns.turn import LiveTurn
from store import streams, turns
from store.database import Connection, Job
from store.errors import StoreError
from store.turns import TurnRow

T = TypeVar("T")

log = structlog.get_logger()

# So many turns of an earlier life are taken up in one commit.
START_BATCH = 50
# What a shutdown may take to mark its unfinished turns, beside the grace period.
RELEASE_SECONDS = 5.0


class TurnService:
    """Owns the turns nursery. A request asks it; no request owns a turn."""

    def __init__(
        self,
        journal: Journal,
        models: Catalogue,
        toolbox: Toolbox,
        clock: WallClock,
        feed: Feed,
        limits: TurnLimits,
        *,
        max_streams: int = 10_000,
        grace: float = 10.0,
    ) -> None:
        """`grace`: seconds that running turns get to end by themselves at a shutdown."""
        self._journal = journal
        self._database = journal.database
        self._models = models
        self._toolbox = toolbox
        self._clock = clock
        self._feed = feed
        self._max_streams = max_streams
        self._grace = grace
        self._supervisor = Supervisor(journal, models, toolbox, clock, limits, self._ended)
        self._limits = limits
        self._open: dict[str, LiveTurn] = {}  # by turn id; queued and running
        self._nursery: trio.Nursery | None = None  # None: nothing is started any more, or yet
        self._stopping = False  # set once, when the shutdown begins: nothing new is accepted
        self._idle = trio.Event()  # swapped; rung when a turn has ended
        self.stopped = trio.Event()  # serve() has returned: no turn has a task any more

    # life

    async def serve(
        self, drain: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run turns until `drain`, then for the grace period; then leave the rest to recovery.

        Orphans of an earlier life are settled before it reports that it has started; where it is
        told to drain meanwhile, the rest of them is left to the next start.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self._restore(drain)
                    task_status.started()
                    await drain.wait()
                    self._stopping = True
                    self._supervisor.promoting = False
                    with trio.move_on_after(self._grace):
                        # Already now: whoever stops us may not wait as long as our grace is.
                        with suppress(StoreError):
                            await self._release()
                        while self._running():
                            await self._idle.wait()
                finally:
                    # A commit that is under way may still want to start something.
                    self._nursery = None
                nursery.cancel_scope.cancel(reason="shutdown")
        finally:
            # Also where a second signal cancels the grace: who is impatient has crashed nothing.
            if drain.is_set():
                with trio.move_on_after(RELEASE_SECONDS, shield=True):
                    await self._leave()
        self.stopped.set()

    async def _leave(self) -> None:
        if not self._open:
            return
        log.info("turns are left for the next start", turns=len(self._open))
        try:
            await self._release()
        except StoreError as error:
            log.error("the next start will take it for a crash", error=str(error))

    async def _release(self) -> None:
        """Put on record that what is open is given up cleanly: that counts as no recovery."""
        left = [live.number for live in self._open.values()]
        if left:
            await self._database.write(lambda c: turns.release(c, left))

    def _running(self) -> list[LiveTurn]:
        return [live for live in self._open.values() if live.state is State.RUNNING]

    # sending

    async def submit(self, submission: Submission) -> Accepted:
        """Accept a message: on record, and its turn running or queued, before this returns.

        The turn starts in the commit's own callback, so a request that is cancelled while it waits
        leaves nothing half done.

        Raises NotFoundError, ConflictError, UnavailableError (SHUTTING_DOWN, STREAM_LIMIT_REACHED),
        StoreUnavailableError.
        """
        if self._stopping:
            raise UnavailableError("The server is shutting down", code="SHUTTING_DOWN")
        if submission.model is not None:
            self._models.get(submission.model)
        now, timeout_ms = self._clock.now_ms(), self._limits.turn_ms
        job = self._database.job(
            lambda c: accept(
                c, submission, now, timeout_ms=timeout_ms, max_streams=self._max_streams
            ),
            on_commit=self._accepted,
        )
        return await job.wait()

    def _accepted(self, accepted: Accepted) -> None:
        # On the commit's delivery: no await between the commit and the start.
        if accepted.repeated:
            return
        live = self._adopt(accepted.turn)
        if accepted.stopped:
            self._start(self._supervisor.end, live, outcomes.CANCELLED)
        elif live.state is State.RUNNING:
            self._launch(live)
        else:
            live.tail.append(WAITING)
        if old := self._open.get(accepted.interrupted or ""):
            self._cancel_requested(old, outcomes.REPLACED, True)
        self._publish(live.thread, accepted.version)

    def _adopt(self, row: TurnRow, life: int = 0) -> LiveTurn:
        live = LiveTurn(
            row.number,
            row.id,
            row.thread,
            row.question,
            row.model,
            row.instructions,
            self._journal.open(row.stream, row.stream_id),
            State(row.state),
            life=life,
            started_at=row.started_at,
            deadline_at=row.deadline_at,
        )
        # While it waits, nobody misses the one word that a failing store takes from its log.
        live.tail.on_failure = live.tail.repair
        self._open[live.id] = live
        return live

    def _launch(self, live: LiveTurn) -> None:
        now = self._clock.now_ms()
        live.tail.on_failure = live.fail
        live.tail.append(ev.Start(live.id, live.thread, live.question, live.model, now))
        self._start(self._supervisor.carry, live)

    def _start(self, function: Callable[..., object], *args: object) -> None:
        if self._nursery is not None:  # else the next start finds the turn in the store
            self._nursery.start_soon(function, *args)  # type: ignore[arg-type]

    # ending

    def _ended(self, live: LiveTurn, ended: Ended | None) -> None:
        self._open.pop(live.id, None)
        idle, self._idle = self._idle, trio.Event()
        idle.set()
        if ended is None:
            return  # its thread is another process' business, or that of the next start
        if ended.following is not None:
            self._promoted(ended.following)
        self._publish(live.thread, ended.version)

    def _promoted(self, row: TurnRow) -> None:
        live = self._open[row.id]
        live.move(State.RUNNING)
        live.started_at, live.deadline_at = row.started_at, row.deadline_at
        self._launch(live)

    async def cancel(self, stream_id: str) -> None:
        """Stop the turn of a stream, wherever it is. On record when this returns; idempotent.

        Raises NotFoundError (STREAM_NOT_FOUND), StoreUnavailableError.
        """

        def find(connection: Connection) -> str | None:
            row = streams.find(connection, stream_id)
            return None if row is None else turns.by_number(connection, row.turn).id

        live = next((x for x in self._open.values() if x.tail.id == stream_id), None)
        if live is None:
            turn_id = await self._database.read(find)
            if turn_id is None:
                raise NotFoundError("No such stream", code="STREAM_NOT_FOUND")
            live = self._open.get(turn_id)
        if live is not None:
            await self._stop(live, outcomes.CANCELLED)

    async def cancel_message(self, thread: str, message: str) -> None:
        """Stop the turn that answers a message, also before that message has arrived."""
        now = self._clock.now_ms()

        def find(connection: Connection) -> str | None:
            row = turns.by_key(connection, message)
            if row is None:
                turns.add_intent(connection, message, thread, now)
                return None
            return row.id if row.thread == thread else None

        turn_id = await self._database.write(find)
        if turn_id is not None and (live := self._open.get(turn_id)):
            await self._stop(live, outcomes.CANCELLED)

    async def stop_thread(self, thread: str) -> None:
        """Stop all turns of a thread and wait until that is on record."""
        for live in [x for x in self._open.values() if x.thread == thread][::-1]:
            await self._stop(live, outcomes.DELETED)
            await live.ended.wait()

    async def _stop(self, live: LiveTurn, reason: Ending) -> None:
        if live.state is State.RUNNING:
            live.stop(reason)  # at once; the wish is on record a moment later
        now = self._clock.now_ms()
        job = self._database.job(
            lambda c: turns.request_cancel(c, live.number, now),
            on_commit=lambda requested: self._cancel_requested(live, reason, requested),
        )
        await job.wait()

    def _cancel_requested(self, live: LiveTurn, reason: Ending, requested: bool) -> None:
        # From here the queue passes it over, so its state cannot change behind our back.
        if live.state is State.RUNNING:
            live.stop(reason)
        elif live.state is State.QUEUED and requested and not live.scope.cancel_called:
            live.stop(reason)
            self._start(self._supervisor.end, live, reason)

    # after a crash or a restart

    async def _restore(self, drain: trio.Event) -> None:
        rows = await self._database.read(turns.open_turns)
        self._supervisor.promoting = False  # until all that wait are known here
        for some in _batches(rows):
            for row, recovered in await self._supervisor.take_up(some):
                await self._restored(row, recovered)
            if drain.is_set():
                return
        self._supervisor.promoting = True
        for threads in _batches(dict.fromkeys(row.thread for row in rows)):
            await self._promote(threads)

    async def _restored(self, row: TurnRow, recovered: Recovered | None) -> None:
        if recovered is None:
            return
        live = self._adopt(recovered.row, recovered.life)
        live.tail.begin(*recovered.first)
        live.records = list(recovered.records)
        if recovered.ending is not None:
            await self._supervisor.end(live, recovered.ending)
        elif live.state is State.RUNNING:
            self._resume(live, recovered)
        ended = recovered.ending.code if recovered.ending is not None else None
        what = "a turn was recovered" if ended is None else "a turn was ended at the start"
        log.info(what, turn=row.id, state=row.state, life=live.life, code=ended)

    def _resume(self, live: LiveTurn, recovered: Recovered) -> None:
        live.checkpoint = recovered.checkpoint
        live.results = tool_results(live.tail.fold.parts())
        self._start(self._supervisor.carry, live)

    async def _promote(self, threads: Sequence[str]) -> None:
        """Start what is first in the queue of each of them."""
        now, timeout_ms = self._clock.now_ms(), self._limits.turn_ms

        def first_of(thread: str) -> Job[TurnRow | None]:
            return self._database.job(lambda c: promote(c, thread, now, timeout_ms))

        for job in [first_of(thread) for thread in threads]:
            row = await job.wait()
            if row is not None:
                self._promoted(row)

    # what others see

    def live(self, turn_id: str) -> LiveTurn | None:
        """A turn that has not ended, by its id."""
        return self._open.get(turn_id)

    def thread_state(self, thread: str) -> ThreadState:
        return state_of(live for live in self._open.values() if live.thread == thread)

    def _publish(self, thread: str, version: int) -> None:
        self._feed.publish(Change(thread, version, self.thread_state(thread)))


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """What a start does in one commit each: one by one it would take minutes after a bad night."""
    left = iter(items)
    while some := list(islice(left, START_BATCH)):
        yield some


def state_of(lives: Iterable[LiveTurn]) -> ThreadState:
    """The state of a thread that has these turns."""
    states = {live.state for live in lives}
    if State.RUNNING in states:
        return "running"
    return "queued" if states else "idle"
