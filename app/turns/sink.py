"""Where an adapter pushes what arrives: into the turn's log, moving the attempt's deadlines."""

import secrets
from typing import Any

import msgspec
import trio

from app import events as ev
from app.models.interface import ToolCall
from app.tail import Tail
from store.database import Database

# A deadline is moved only when it would move by more than this share of its timeout: moving one per
# delta would cost more than the delta.
SLACK = 1 / 64


class Watch:
    """A cancel scope that expires after `timeout` seconds without a sign; None: never."""

    def __init__(self, first: float | None, timeout: float | None) -> None:
        """`first`: seconds until the first sign; `timeout`: between signs."""
        self.scope = trio.CancelScope()
        self._timeout = timeout
        self._moved = trio.current_time()
        if first is not None:
            self.scope.deadline = self._moved + first

    def sign(self, now: float) -> None:
        timeout = self._timeout
        if timeout is None:
            self.scope.deadline = float("inf")
        elif now - self._moved > timeout * SLACK or self.scope.deadline > now + timeout:
            self._moved = now
            self.scope.deadline = now + timeout


class PartIds:
    """Ids of parts, unique within a turn over all its steps, attempts and lives (S7)."""

    def __init__(self, life: int) -> None:
        self._prefix = f"p{life}." if life else "p"
        self._count = 0

    def part(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def call(self) -> str:
        return f"call_{secrets.token_hex(8)}"


class AttemptSink:
    """app.models.interface.Sink for one attempt. `calls` are the complete tool calls, in order."""

    def __init__(
        self, tail: Tail, database: Database, ids: PartIds, progress: Watch, life: Watch
    ) -> None:
        self.calls: list[ToolCall] = []
        self.bad_calls: dict[str, str] = {}  # call id -> why its input cannot be used
        self.texts: list[str] = []
        self._tail = tail
        self._database = database
        self._ids = ids
        self._progress = progress
        self._life = life
        self._open: tuple[type[ev.Event], str] | None = None  # kind and id of the open part
        self._half = ""  # a high surrogate whose other half has not arrived
        self._names: dict[str, tuple[str, str | None]] = {}  # call id -> name, provider id

    def text(self, delta: str) -> None:
        self.progress()
        id_ = self._part(ev.TextStart)
        if delta := self._join(delta):
            self.texts.append(delta)
            self._tail.append(ev.TextDelta(id_, delta))

    def reasoning(self, delta: str) -> None:
        self.progress()
        id_ = self._part(ev.ReasoningStart)
        if delta := self._join(delta):
            self._tail.append(ev.ReasoningDelta(id_, delta))

    def end_part(self) -> None:
        self.progress()
        self._close()

    def tool_start(self, name: str, provider_id: str | None = None) -> str:
        self.progress()
        self._close()
        id_, name = self._ids.call(), whole(name)
        self._names[id_] = (name, provider_id)
        self._tail.append(ev.ToolInputStart(id_, name))
        return id_

    def tool_delta(self, call_id: str, fragment: str) -> None:
        self.progress()
        self._tail.append(ev.ToolInputDelta(call_id, whole(fragment)))

    def tool_ready(self, call_id: str, input_text: str) -> None:
        self.progress()
        name, provider_id = self._names[call_id]
        input_text = whole(input_text)
        try:
            value: Any = msgspec.json.decode(input_text) if input_text.strip() else {}
        except msgspec.DecodeError as error:
            text = f"The input is not valid JSON: {error}"
            self.bad_calls[call_id] = text
            self.calls.append(ToolCall(call_id, name, {}, provider_id))
            self._tail.append(ev.ToolInputError(call_id, name, input_text, text))
            return
        self.calls.append(ToolCall(call_id, name, value, provider_id))
        self._tail.append(ev.ToolInputAvailable(call_id, name, value))

    def progress(self) -> None:
        now = trio.current_time()
        self._progress.sign(now)
        self._life.sign(now)

    def alive(self) -> None:
        self._life.sign(trio.current_time())

    async def room(self) -> None:
        await self._database.room()

    def close(self) -> None:
        """The response is complete: end what is open."""
        self._close()

    def _part(self, start: type[ev.TextStart] | type[ev.ReasoningStart]) -> str:
        if self._open is not None and self._open[0] is start:
            return self._open[1]
        self._close()
        id_ = self._ids.part()
        self._open = (start, id_)
        self._tail.append(start(id_))
        return id_

    def _join(self, delta: str) -> str:
        """A provider may cut a JSON-escaped surrogate pair between two deltas (M3)."""
        if delta.isascii() and not self._half:
            return delta
        delta, self._half = self._half + delta, ""
        if "\ud800" <= delta[-1:] <= "\udbff":
            delta, self._half = delta[:-1], delta[-1]
        return whole(delta)

    def _close(self) -> None:
        if self._open is not None:
            kind, id_ = self._open
            self._open = None
            if self._half:
                half, self._half = self._half, ""
                delta = ev.TextDelta if kind is ev.TextStart else ev.ReasoningDelta
                self._tail.append(delta(id_, whole(half)))
            self._tail.append(ev.TextEnd(id_) if kind is ev.TextStart else ev.ReasoningEnd(id_))


def whole(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced: it can always be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
