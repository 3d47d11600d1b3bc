"""Runs turns: each has one task, and each ends with exactly one terminal record (O1).

A fault of a turn is recorded here and never reaches the nursery, so it cannot touch another turn.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
import structlog
import trio

from app import events as ev
from app.clock import WallClock
from app.errors import AppError
from app.journal import Journal
from app.message import Part
from app.models.catalogue import Catalogue
from app.models.interface import Entry
from app.tools.registry import Toolbox
from app.turns import outcomes
from app.turns.attempt import Attempts
from app.turns.calls import Calls
from app.turns.ending import Ended, follow_up, index, record_end
from app.turns.outcomes import Ending
from app.turns.recovery import Recovered, recover
from app.turns.sink import PartIds
from app.turns.state import State
from app.turns.steps import attached, history
from app.turns.turn import LiveTurn, Run
from store import attachments, messages, turns
from store.database import Connection, Job
from store.errors import StoreError
from store.turns import TurnRow

T = TypeVar("T")

log = structlog.get_logger()

# How often the terminal record is tried again while the store does not work (L9).
SETTLE_SECONDS = 1.0
# What the pause between tries of the bookkeeping grows to.
CATCH_UP_SECONDS = 60.0


class TurnLimits(msgspec.Struct, frozen=True):
    """Of one turn. Seconds; None: no limit."""

    turn: float | None = 3600.0
    tool: float | None = 300.0
    max_steps: int = 50
    max_recoveries: int = 3

    @property
    def turn_ms(self) -> int | None:
        return None if self.turn is None else round(self.turn * 1000)


class Supervisor:
    """Carries one turn from its start to its terminal record."""

    def __init__(
        self,
        journal: Journal,
        models: Catalogue,
        toolbox: Toolbox,
        clock: WallClock,
        limits: TurnLimits,
        on_ended: Callable[[LiveTurn, Ended | None], None],
    ) -> None:
        """`on_ended` is called as soon as the terminal record is on record; must not raise.

        It gets None where nothing else was done: the turn was lost to another process, or the
        bookkeeping failed. That is called for again then, with what it did, when it works.
        """
        self.limits = limits
        self.promoting = True  # cleared when the server shuts down: the queue waits for the next
        self._journal = journal
        self._database = journal.database
        self._models = models
        self._toolbox = toolbox
        self._clock = clock
        self._on_ended = on_ended

    async def carry(self, live: LiveTurn) -> None:
        """The turn's task. Cancelled from outside (shutdown), it leaves the turn to recovery."""
        ending = await self._run(live)
        await self.end(live, ending)

    async def end(self, live: LiveTurn, ending: Ending) -> None:
        """Write the terminal record, however long the store takes to work again."""
        while not live.tail.lost:
            try:
                ended = await self._end_job(live, ending).wait()
            except Exception as error:  # noqa: BLE001 - nor may a fault of ours end other turns
                if live.tail.lost:
                    break
                log.error("the end of a turn cannot be stored", turn=live.id, error=str(error))
                ending = _failure(live, error)
                live.tail.repair()
                live.tail.tell_broken(ending.event(self._clock.now_ms(), None))
                await trio.sleep(SETTLE_SECONDS)
            else:
                if ended is None:
                    await self._catch_up(live)
                return
        log.warning("a turn was taken over by another process", turn=live.id)
        live.tail.repair()  # nothing of it waits for a commit any more
        self._journal.close(live.tail)
        live.ended.set()
        self._on_ended(live, None)

    async def _run(self, live: LiveTurn) -> Ending:
        live.tail.on_failure = live.fail
        deadline = self._clock.scope(live.deadline_at)
        try:
            with live.scope, deadline:
                return await self._steps(live)
        except Exception as error:  # the one place: a turn's fault is its own
            if not live.scope.cancel_called and not deadline.cancel_called:
                return _failure(live, error)
            # What a tool or an adapter raises when it is stopped does not undo the stop.
            log.error("a turn failed while it was stopped", turn=live.id, exc_info=error)
        if live.scope.cancel_called:
            return live.reason
        return outcomes.timed_out(live.started_at, live.deadline_at)

    async def _steps(self, live: LiveTurn) -> Ending:
        model = self._models.get(live.model)
        limits = self._models.limits(live.model)
        tail, database, clock = live.tail, self._database, self._clock
        run = Run(
            live,
            database=database,
            attempts=Attempts(
                model, limits, tail=tail, database=database, clock=clock, ids=PartIds(live.life)
            ),
            calls=Calls(
                self._toolbox, tail=tail, database=database, clock=clock, timeout=self.limits.tool
            ),
            instructions=live.instructions,
            tools=self._toolbox.specs(model.provider),
            max_steps=self.limits.max_steps,
        )

        def read(connection: Connection) -> list[Entry]:
            path = messages.path_to(connection, live.question)
            answers = [row.id for row in path if row.role == "assistant"]
            files = attachments.find(connection, attached(path))
            return history(path, turns.steps_by_turn(connection, answers), files)

        return await run.until_ended(await database.read(read))

    def _end_job(self, live: LiveTurn, ending: Ending) -> Job[Ended | None]:
        """Events and record of the end, handed over in one tick: one transaction."""
        outcome, parts = self._last_words(live, ending)
        following = self._following(live)

        def write(connection: Connection) -> Ended | None:
            record_end(connection, live.number, live.tail.number, outcome, live.id, parts)
            _beside(connection, live, lambda: index(connection, live.id, parts))
            return _beside(connection, live, lambda: following(connection))

        def committed(ended: Ended | None) -> None:
            live.move(State(outcome.outcome))
            self._journal.close(live.tail)
            live.ended.set()
            self._on_ended(live, ended)

        return self._database.job(write, on_commit=committed)

    def _following(self, live: LiveTurn) -> Callable[[Connection], Ended]:
        now, timeout_ms, promoting = self._clock.now_ms(), self.limits.turn_ms, self.promoting
        return lambda connection: follow_up(
            connection, live.thread, now, timeout_ms=timeout_ms, promoting=promoting
        )

    async def _catch_up(self, live: LiveTurn) -> None:
        """The turn has ended, but what follows failed: a queue waits for it."""
        pause = SETTLE_SECONDS
        while self.promoting:  # else the next start looks after all queues
            await trio.sleep(pause)
            try:
                job = self._database.job(
                    self._following(live), on_commit=lambda ended: self._on_ended(live, ended)
                )
                await job.wait()
                return
            except Exception as error:  # noqa: BLE001 - tried again
                log.error("a queue does not go on", thread=live.thread, error=str(error))
                pause = min(2 * pause, CATCH_UP_SECONDS)

    async def take_up(self, rows: Iterable[TurnRow]) -> list[tuple[TurnRow, Recovered | None]]:
        """See `recover`; all in one commit. A turn that cannot be read is only ended: others must
        be able to start."""
        now, limit = self._clock.now_ms(), self.limits.max_recoveries

        def take(row: TurnRow, *, readable: bool) -> Job[Recovered | None]:
            return self._database.job(
                lambda c: recover(c, row, self._toolbox, now, limit, readable=readable)
            )

        taken = []
        for row, job in [(row, take(row, readable=True)) for row in rows]:
            try:
                taken.append((row, await job.wait()))
            except StoreError:
                raise
            except Exception as error:
                log.error("a turn cannot be read", turn=row.id, exc_info=error)
                taken.append((row, await take(row, readable=False).wait()))
        return taken

    def _last_words(self, live: LiveTurn, ending: Ending) -> tuple[ev.Outcome, list[Part]]:
        """Append what the log ends with, unless it is there already: the record alone failed."""
        tail, now = live.tail, self._clock.now_ms()
        if tail.fold.outcome is not None:
            return tail.fold.outcome, tail.fold.parts()
        fold = tail.preview()
        outcome = ending.event(now, live.usage)
        last: list[ev.Event] = [*outcomes.closing_events(fold, now), outcome]
        for event in last:
            fold.apply(event)
        tail.end(*last)
        return outcome, fold.parts()


def _beside(connection: Connection, live: LiveTurn, work: Callable[[], T]) -> T | None:
    """What cannot take the terminal record with it (O4); None: it failed."""
    try:
        with connection.begin_nested():
            return work()
    except Exception as error:
        log.error("the bookkeeping of an end failed", turn=live.id, exc_info=error)
        return None


def _failure(live: LiveTurn, error: Exception) -> Ending:
    for one in _leaves(error):
        if isinstance(one, StoreError):
            return outcomes.STORE_FAILED
        if isinstance(one, AppError):
            return Ending("failed", one.code, one.text, True)
    log.error("a turn failed inside", turn=live.id, exc_info=error)
    return outcomes.INTERNAL


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]
