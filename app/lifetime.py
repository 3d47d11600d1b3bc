"""The composition root: what there is, in which order it starts, and in which it ends.

Nesting in the text is the order of life. The edge ends first, turns get their grace period, and the
store, which everything writes to, ends last.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog
import trio

from app import unpacked
from app.attachments import Attachments
from app.clock import WallClock
from app.config import Settings
from app.feed import Feed
from app.housekeeping import Housekeeping
from app.journal import Journal
from app.models.catalogue import Catalogue, discover
from app.models.http import open_http
from app.threads import Threads
from app.tools import Toolbox, Wait
from app.turns.service import TurnService
from app.turns.supervisor import TurnLimits
from store.database import Database, open_database

log = structlog.get_logger()


@dataclass(frozen=True)
class Services:
    """What the edge serves. `drain` is set when the shutdown begins."""

    settings: Settings
    database: Database
    journal: Journal
    catalogue: Catalogue
    turns: TurnService
    threads: Threads
    feed: Feed
    attachments: Attachments
    clock: WallClock
    drain: trio.Event

    def shut_down(self) -> None:
        """Begin it: readers are told at once, turns get their grace. Idempotent."""
        self.drain.set()
        self.journal.drain()
        self.feed.ring()


class Edge(Protocol):
    """Whatever faces the network."""

    def bind(self, settings: Settings) -> None:
        """Take the address. Raises OSError with a sentence for the person."""

    async def serve(self, services: Services, *, task_status: trio.TaskStatus[list[str]]) -> None:
        """Serve until `services.drain`; reports the addresses as soon as they answer."""


def compose(
    settings: Settings,
    database: Database,
    catalogue: Catalogue,
    clock: WallClock,
    toolbox: Toolbox | None = None,
) -> Services:
    """All services of one process, not started. `toolbox` None: the built-in tools."""
    journal = Journal(database, heartbeat=settings.heartbeat)
    feed = Feed()
    limits = TurnLimits(
        turn=settings.turn_timeout,
        tool=settings.tool_timeout,
        max_steps=settings.max_steps,
        max_recoveries=settings.max_recoveries,
    )
    turns = TurnService(
        journal,
        catalogue,
        toolbox or Toolbox([Wait()]),
        clock,
        feed,
        limits,
        max_streams=settings.max_streams,
        grace=settings.grace,
    )
    threads = Threads(database, turns, feed)
    return Services(
        settings=settings,
        database=database,
        journal=journal,
        catalogue=catalogue,
        turns=turns,
        threads=threads,
        feed=feed,
        attachments=Attachments(database),
        clock=clock,
        drain=trio.Event(),
    )


async def live(
    settings: Settings,
    env: Mapping[str, str],
    edge: Edge,
    started: Callable[[Services, list[str]], Awaitable[None]],
) -> None:
    """The program, from start to end.

    `started` is run when every orphaned turn is settled and the address answers, and ends with the
    program. A signal begins the shutdown, or ends a start; a second one does not wait for turns.
    Later ones change nothing: what still has to end bounds itself. Raises what stands in the way of
    a start.
    """
    # Around everything, and read to the end: no signal finds the store half closed.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as watched:
            shutdown = _Shutdown()
            watched.start_soon(shutdown.watch, signals)
            with shutdown.everything:
                async with open_database(settings.database) as database, open_http() as http:
                    edge.bind(settings)
                    found = await discover(settings.model_configs(), env, http, settings.limits)
                    services = compose(settings, database, found, WallClock())
                    await _serve(services, edge, shutdown, started)
            watched.cancel_scope.cancel(reason="all work has ended")


async def _serve(
    services: Services,
    edge: Edge,
    shutdown: "_Shutdown",
    started: Callable[[Services, list[str]], Awaitable[None]],
) -> None:
    async with trio.open_nursery() as background:
        await background.start(services.journal.serve)
        await background.start(services.clock.serve)
        retention = services.settings.retention
        keeper = Housekeeping(services.database, services.clock, retention)
        await background.start(keeper.serve)
        shutdown.of(services)
        async with trio.open_nursery() as working:
            await working.start(services.turns.serve, services.drain)
            if not services.drain.is_set():  # by a signal meanwhile: nobody need be let in
                async with trio.open_nursery() as edges:
                    urls = await edges.start(edge.serve, services)
                    background.start_soon(started, services, urls)
                    background.start_soon(_secure)
        background.cancel_scope.cancel(reason="all work has ended")


async def _secure() -> None:
    """After the start, which waits for no disk; a shutdown does not wait for it either."""
    await trio.to_thread.run_sync(unpacked.secure, abandon_on_cancel=True)


class _Shutdown:
    """What a signal does: by how far the start has come, and how many there have been."""

    def __init__(self) -> None:
        self.everything = trio.CancelScope()
        self._services: Services | None = None

    def of(self, services: Services) -> None:
        """From now on there are turns that get their grace."""
        self._services = services

    async def watch(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            services = self._services
            if services is None:
                log.info("the start is given up", signal=name)
                self.everything.cancel(reason=name)
            elif services.drain.is_set():
                log.warning("ending at once", signal=name)
                self.everything.cancel(reason=name)
            else:
                grace = services.settings.grace
                log.info("shutting down; a second signal ends at once", signal=name, grace=grace)
                services.shut_down()
