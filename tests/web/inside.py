"""What tests do to the inside of a server: its model speaks when told, its store fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

from app.lifetime import Services
from app.models.interface import Completion, ModelRequest, Sink
from store.errors import StoreUnavailableError


class Voice:
    """A model that says what the test says: implements Model.

    Each answer waits for `say`; `stop` ends it. `asked` counts requests, `cut` those cancelled.
    """

    provider = "voice"
    model = "voice"

    def __init__(self, name: str = "voice") -> None:
        self.name = name
        self.asked = 0
        self.cut = 0
        self._words, self._source = trio.open_memory_channel[str | None](100_000)

    def say(self, *pieces: str) -> None:
        for piece in pieces:
            self._words.send_nowait(piece)

    def stop(self) -> None:
        self._words.send_nowait(None)

    async def respond(self, _request: ModelRequest, sink: Sink) -> Completion:
        self.asked += 1
        try:
            while (piece := await self._source.receive()) is not None:
                sink.text(piece)
                await sink.room()
        except trio.Cancelled:
            self.cut += 1
            raise
        return Completion("stop")


@contextmanager
def broken_store(services: Services) -> Iterator[None]:
    """No commit succeeds, as with a full disk."""
    writer = services.database._writer
    original = writer.commit

    def fail(batch: Any) -> None:
        batch.error = StoreUnavailableError("database or disk is full")

    writer.commit = fail  # type: ignore[method-assign]
    try:
        yield
    finally:
        writer.commit = original  # type: ignore[method-assign]
