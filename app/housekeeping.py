"""What is thrown away: the events of turns that ended long ago (L8), and what nobody used."""

import structlog
import trio

from app.clock import WallClock
from store import attachments, segments, streams, turns
from store.database import Connection, Database
from store.errors import StoreError

log = structlog.get_logger()

EVERY_SECONDS = 60.0
# In one transaction; more waits for the next one, so that no commit is held up for long.
STREAMS_AT_ONCE = 50
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
                while await self.prune():
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
