"""A whole server without its network: inline store, scripted model, Trio's clock as the wall's."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from app.clock import WallClock
from app.config import Settings
from app.events import Outcome, decode
from app.journal import Reader
from app.lifetime import Services, compose
from app.message import Fold
from app.models.catalogue import Catalogue, Limits
from app.models.interface import Completion, ModelRequest, Sink
from app.tools import Toolbox
from app.turns.intake import Accepted, Submission
from store.database import open_database

EPOCH_MS = 1_800_000_000_000

Script = Callable[[ModelRequest, Sink], Awaitable[Completion]]


class Wall:
    """A wall clock that goes with Trio's, `ahead` seconds before it: a laptop that has slept."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> int:
        return EPOCH_MS + round((trio.current_time() + self.ahead) * 1000)


class ScriptedModel:
    """Implements Model with functions: one per request, the last one again and again."""

    provider = "scripted"
    model = "scripted"

    def __init__(self, *scripts: Script, name: str = "scripted") -> None:
        self.name = name
        self.scripts = list(scripts)
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        self.requests.append(request)
        script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
        return await script(request, sink)


def says(*pieces: str, every: float = 0.0) -> Script:
    """A response that streams these pieces, one each `every` seconds."""

    async def script(_request: ModelRequest, sink: Sink) -> Completion:
        for piece in pieces:
            await trio.sleep(every)
            sink.text(piece)
            await sink.room()
        return Completion("stop")

    return script


def calls(name: str, input_text: str = "{}", text: str = "") -> Script:
    """A response that calls one tool."""

    async def script(_request: ModelRequest, sink: Sink) -> Completion:
        await trio.lowlevel.checkpoint()
        if text:
            sink.text(text)
        call = sink.tool_start(name)
        sink.tool_delta(call, input_text)
        sink.tool_ready(call, input_text)
        return Completion("tool-calls")

    return script


async def hangs(_request: ModelRequest, _sink: Sink) -> Completion:
    """Accepts the request and never answers."""
    await trio.sleep_forever()
    raise AssertionError


class World:
    """The services of one life of the server, and shorthands for what tests do with them."""

    def __init__(self, services: Services, path: Path) -> None:
        self.services = services
        self.path = path
        self.count = 0

    async def send(
        self, text: str = "Hello", *, thread: str = "thread-01", id_: str | None = None, **more: Any
    ) -> Accepted:
        self.count += 1
        message = id_ or f"message-{self.count:04d}"
        parts = [{"type": "text", "text": text}]
        default = self.services.catalogue.default
        return await self.services.turns.submit(
            Submission(thread, message, message, parts, default, **more)
        )

    async def read(self, stream: str, after: tuple[str, int] | None = None) -> "Seen":
        """Follow a stream to its end."""
        reader = await self.services.journal.locate(stream, after)
        return await follow(reader)

    async def answer(self, text: str = "Hello", **more: Any) -> "Seen":
        """Send and follow to the end."""
        accepted = await self.send(text, **more)
        return await self.read(accepted.turn.stream_id)


class Seen:
    """What a reader saw: ids, events, and their fold."""

    def __init__(self) -> None:
        self.ids: list[tuple[str, int]] = []
        self.events: list[Any] = []
        self.fold = Fold()
        self.how = ""

    def feed(self, frames: bytes) -> None:
        for frame in frames.split(b"\n\n")[:-1]:
            head, _, data = frame.partition(b"data: ")
            if head:
                stream, _, seq = head.removeprefix(b"id: ").strip().decode().rpartition(":")
                self.ids.append((stream, int(seq)))
            event = decode(data)
            self.events.append(event)
            self.fold.apply(event)

    @property
    def outcome(self) -> Outcome:
        assert isinstance(self.events[-1], Outcome), self.events[-1:]
        return self.events[-1]

    @property
    def text(self) -> str:
        return "".join(part.get("text", "") for part in self.fold.parts())

    @property
    def types(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


async def follow(reader: Reader) -> Seen:
    seen = Seen()
    while True:
        item = await reader.next()
        if isinstance(item, bytes):
            seen.feed(item)
        elif item != "beat":
            seen.how = item
            return seen


@asynccontextmanager
async def world(
    path: Path,
    *models: Any,
    limits: Limits | None = None,
    tools: Toolbox | None = None,
    inline: bool = True,
    **settings: Any,
) -> AsyncGenerator[World, None]:
    """One life of the server. Leaving it is a clean shutdown; the same path again is a restart."""
    clock = WallClock(lambda: EPOCH_MS + round(trio.current_time() * 1000))
    catalogue = Catalogue([(model, limits or Limits()) for model in models])
    async with open_database(path, inline=inline) as database:
        services = compose(Settings(**settings), database, catalogue, clock, tools)
        async with trio.open_nursery() as nursery:
            await nursery.start(services.journal.serve)
            await nursery.start(services.turns.serve, services.drain)
            yield World(services, path)
            services.shut_down()
            await services.turns.stopped.wait()
            nursery.cancel_scope.cancel()
