"""What is thrown away: the events of turns that ended long ago (L8), what nobody used, and what is
left of deleted messages in the search's index."""

from functools import partial

import structlog
import trio

from app.clock import WallClock
from store import attachments, search, segments, streams, turns
from store.database import Connection, Database
from store.errors import StoreError

log = structlog.get_logger()

EVERY_SECONDS = 60.0
# In one transaction; more waits for the next one, so that no commit is held up for long.
STREAMS_AT_ONCE = 50
MESSAGES_AT_ONCE = 1_000  # are looked up; their words go in as many transactions as it takes
# How long one of these may be busy, beside the one message that it begins with.
BUSY_SECONDS = 0.02
# Between them: what waited for one goes on record alone, and not together with the next.
PAUSE_SECONDS = 0.1
# A stop for a message that never came, a file that was never sent.
UNUSED_MS = 24 * 3600 * 1000


class Housekeeping:
    """Prunes streams `retention` seconds after their turn's end; None: never."""

    def __init__(self, database: Database, clock: WallClock, retention: float | None) -> None:
        self._database = database
        self._clock = clock
        self._retention = retention

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Works until cancelled. While the store does not, all of it waits for the next round."""
        task_status.started()
        while True:
            try:
                while await self.prune() or await self.forget():
                    await trio.lowlevel.checkpoint()
            except StoreError as error:
                log.warning("housekeeping is put off", error=str(error))
            await trio.sleep(EVERY_SECONDS)

    async def prune(self) -> bool:
        """One round. True if there may be more to do at once."""
        now = self._clock.now_ms()
        retention = self._retention

        def write(connection: Connection) -> int:
            turns.prune_intents(connection, now - UNUSED_MS)
            attachments.prune(connection, now - UNUSED_MS)
            if retention is None:
                return 0
            before = now - round(retention * 1000)
            numbers = streams.expired(connection, before, STREAMS_AT_ONCE)
            if numbers:
                segments.prune(connection, numbers)
                streams.mark_pruned(connection, numbers)
            return len(numbers)

        return await self._database.write(write, durable=False) == STREAMS_AT_ONCE

    async def forget(self) -> bool:
        """Take deleted messages' words out of the index. True if there may be more to do at once.

        They are looked for by a reader: that goes through all messages there are.
        """
        numbers = await self._database.read(lambda c: search.left_over(c, MESSAGES_AT_ONCE))
        more = len(numbers) == MESSAGES_AT_ONCE
        while numbers:
            write = partial(search.forget, numbers=numbers, seconds=BUSY_SECONDS)
            numbers = await self._database.write(write, durable=False)
            await trio.sleep(PAUSE_SECONDS)
        return more
