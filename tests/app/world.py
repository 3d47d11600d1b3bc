"""A whole server without its network: inline store, scripted model, Trio's clock as the wall's."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from app.clock import WallClock
from app.config import Settings
from app.events import Outcome, decode
from app.journal import Reader
from app.lifetime import Services, compose
from app.message import Fold
from app.models.catalogue import Catalogue, Limits
from app.models.errors import ModelError
from app.models.interface import Completion, ModelRequest, Sink, ToolSpec
from app.threads import MessageView
from app.tools import Toolbox
from app.turns.intake import Accepted, Submission
from store import turns
from store.database import open_database
from store.turns import TurnRow

EPOCH_MS = 1_800_000_000_000

Script = Callable[[ModelRequest, Sink], Awaitable[Completion]]


class Wall:
    """A wall clock that goes with Trio's, `ahead` seconds before it: a laptop that has slept."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> int:
        return EPOCH_MS + round((trio.current_time() + self.ahead) * 1000)


def in_mock_time(main: Callable[[], Awaitable[None]]) -> None:
    """Run one example of a property test, each with a clock of its own that jumps."""
    trio.run(main, clock=MockClock(autojump_threshold=0))


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

    @property
    def questions(self) -> list[str]:
        """The message each request asked about."""
        return [getattr(request.entries[-1], "text", "") for request in self.requests]


class TimedModel(ScriptedModel):
    """Notes when it is asked."""

    def __init__(self, *scripts: Script) -> None:
        super().__init__(*scripts)
        self.times: list[float] = []

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        self.times.append(trio.current_time())
        return await super().respond(request, sink)

    @property
    def gaps(self) -> list[float]:
        """Seconds between one request and the next."""
        return [later - before for before, later in pairwise(self.times)]


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


def fails(
    *pieces: str,
    code: str = "MODEL_ERROR",
    text: str = "The provider failed.",
    retryable: bool = True,
    retry_after: float | None = None,
) -> Script:
    """A response that streams these pieces and then fails."""

    async def script(_request: ModelRequest, sink: Sink) -> Completion:
        await trio.lowlevel.checkpoint()
        for piece in pieces:
            sink.text(piece)
        raise ModelError(text, code=code, retryable=retryable, retry_after=retry_after)

    return script


class Paused:
    """A response that says `before`, waits until the test sets `go`, and says `after`."""

    def __init__(self, *before: str, after: str = "") -> None:
        self.before = before
        self.after = after
        self.reached = trio.Event()
        self.go = trio.Event()
        self.cancelled = False  # set when the wait was really cancelled

    async def __call__(self, _request: ModelRequest, sink: Sink) -> Completion:
        for piece in self.before:
            sink.text(piece)
        self.reached.set()
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.cancelled = True
            raise
        sink.text(self.after)
        return Completion("stop")


class Probe:
    """A tool that notes its runs and does what the test says."""

    idempotent = False
    providers: frozenset[str] | None = None

    def __init__(
        self, name: str = "probe", do: Callable[[Any], Awaitable[Any]] | None = None
    ) -> None:
        self.spec = ToolSpec(name, "For tests.", {"type": "object"})
        self.runs: list[Any] = []
        self._do = do

    async def run(self, arguments: Any) -> Any:
        self.runs.append(arguments)
        return {"ok": True} if self._do is None else await self._do(arguments)


async def hangs(_request: ModelRequest, _sink: Sink) -> Completion:
    """Accepts the request and never answers."""
    await trio.sleep_forever()
    raise AssertionError


class World:
    """The services of one life of the server, and shorthands for what tests do with them."""

    def __init__(self, services: Services, path: Path, wall: Wall) -> None:
        self.services = services
        self.path = path
        self.wall = wall
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

    async def regenerate(
        self, message: str, *, key: str, thread: str = "thread-01", **more: Any
    ) -> Accepted:
        """Ask for another answer to a message that is there."""
        default = self.services.catalogue.default
        return await self.services.turns.submit(
            Submission(thread, key, message, None, default, **more)
        )

    async def read(self, stream: str, after: tuple[str, int] | None = None) -> "Seen":
        """Follow a stream to its end."""
        reader = await self.services.journal.locate(stream, after)
        return await follow(reader)

    async def answer(self, text: str = "Hello", **more: Any) -> "Seen":
        """Send and follow to the end."""
        accepted = await self.send(text, **more)
        return await self.read(accepted.turn.stream_id)

    async def messages(self, thread: str = "thread-01") -> list[MessageView]:
        """The messages of a snapshot."""
        return (await self.services.threads.snapshot(thread)).messages

    async def answers(self, thread: str = "thread-01") -> list[MessageView]:
        """The same, the answers alone."""
        return [view for view in await self.messages(thread) if view.role == "assistant"]

    async def line(self, thread: str = "thread-01") -> list[str]:
        """Texts of the selected branch, oldest first: what the page shows."""
        snapshot = await self.services.threads.snapshot(thread)
        by_id = {view.id: view for view in snapshot.messages}
        texts = []
        at = snapshot.thread.leaf
        while at is not None:
            texts.append("".join(part.get("text", "") for part in by_id[at].parts))
            at = by_id[at].parent
        return texts[::-1]

    async def turns(self, thread: str = "thread-01") -> list[TurnRow]:
        """The turns of a thread as stored, in the order they were accepted."""
        return await self.services.database.read(lambda c: turns.of_thread(c, thread))


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
    wall: Wall | None = None,
    **settings: Any,
) -> AsyncGenerator[World, None]:
    """One life of the server. Leaving it is a clean shutdown; the same path again is a restart."""
    wall = wall or Wall()
    clock = WallClock(wall)
    catalogue = Catalogue([(model, limits or Limits()) for model in models])
    async with open_database(path, inline=inline) as database:
        services = compose(Settings(**settings), database, catalogue, clock, tools)
        async with trio.open_nursery() as nursery:
            await nursery.start(services.journal.serve)
            await nursery.start(services.clock.serve)
            await nursery.start(services.turns.serve, services.drain)
            yield World(services, path, wall)
            services.shut_down()
            await services.turns.stopped.wait()
            nursery.cancel_scope.cancel()
