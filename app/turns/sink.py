"""Where an adapter pushes what arrives: into the turn's log, moving the attempt's deadlines."""

import math
import secrets
from typing import Any, NamedTuple

import msgspec
import trio

from app import events as ev
from app.clock import WallClock
from app.message import Part
from app.models.interface import ToolCall
from app.tail import Tail
from app.turns.plain import plain, whole
from store.database import Database

# A deadline is moved only when it would move by more than this share of its timeout: moving one per
# delta would cost more than the delta.
SLACK = 1 / 64


class Watch:
    """A cancel scope that expires after `timeout` seconds without a sign; None: never."""

    def __init__(self, first: float | None, timeout: float | None) -> None:
        """`first`: seconds until the first sign; `timeout`: between signs."""
        self.scope = trio.CancelScope()
        self._timeout = math.inf if timeout is None else timeout
        self._moved = -math.inf  # when the deadline was moved last; the first sign always moves it
        if first is not None:
            self.scope.deadline = trio.current_time() + first

    def sign(self, now: float) -> None:
        if now - self._moved > self._timeout * SLACK or self._moved == -math.inf:
            self._moved = now
            self.scope.deadline = now + self._timeout


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


class _Begun(NamedTuple):
    """A tool call whose input is being written."""

    name: str
    provider_id: str | None
    pieces: list[str]


class Saved(msgspec.Struct, frozen=True):
    """A checkpoint: the adapter's data, and what of the sink the log does not tell.

    `begun`: name and provider's id of calls whose input is still being written, by call id.
    `half`: code of a high surrogate whose other half has not arrived; 0: none.
    """

    data: bytes
    begun: dict[str, tuple[str, str | None]]
    calls: list[ToolCall]
    bad_calls: dict[str, str]
    half: int


class AttemptSink:
    """app.models.interface.Sink for one attempt. `calls` are the complete tool calls, in order."""

    def __init__(
        self,
        tail: Tail,
        database: Database,
        clock: WallClock,
        ids: PartIds,
        *,
        progress: Watch,
        life: Watch,
    ) -> None:
        self.calls: list[ToolCall] = []
        self.bad_calls: dict[str, str] = {}  # call id -> why its input cannot be used
        self.texts: list[str] = []
        self._tail = tail
        self._database = database
        self._clock = clock
        self._ids = ids
        self._progress = progress
        self._life = life
        self._open: tuple[type[ev.Event], str] | None = None  # kind and id of the open part
        self._part_from = 0  # where the open text part begins in `texts`
        self._half = ""  # a high surrogate whose other half has not arrived
        self._begun: dict[str, _Begun] = {}  # calls that are not ready, by id

    def text(self, delta: str) -> None:
        self.progress()
        if not delta:
            return  # would open a part for nothing, or cut a thought in two
        id_ = self._part(ev.TextStart)
        if delta := self._join(delta):
            self.texts.append(delta)
            self._tail.append(ev.TextDelta(id_, delta))

    def reasoning(self, delta: str) -> None:
        self.progress()
        if not delta:
            return
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
        self._begun[id_] = _Begun(name, None if provider_id is None else whole(provider_id), [])
        self._tail.append(ev.ToolInputStart(id_, name))
        return id_

    def tool_delta(self, call_id: str, fragment: str) -> None:
        self.progress()
        fragment = whole(fragment)
        self._begun[call_id].pieces.append(fragment)
        self._tail.append(ev.ToolInputDelta(call_id, fragment))

    def tool_ready(self, call_id: str, input_text: str) -> None:
        self.progress()
        begun, input_text = self._begun.pop(call_id), whole(input_text)
        value, fault = _parsed(input_text)
        self.calls.append(ToolCall(call_id, begun.name, value, begun.provider_id))
        if fault:
            self.bad_calls[call_id] = fault
            self._tail.append(ev.ToolInputError(call_id, begun.name, input_text, fault))
        else:
            self._tail.append(ev.ToolInputAvailable(call_id, begun.name, value))

    def final_text(self, text: str) -> None:
        self.progress()
        text = whole(text)
        id_ = self._part(ev.TextStart)
        self._open, self._half = None, ""
        self.texts[self._part_from :] = [text]
        self._tail.append(ev.TextEnd(id_, text))

    def tool_settled(self, call_id: str, output: Any, *, is_error: bool = False) -> None:
        self.progress()
        self.calls = [call for call in self.calls if call.id != call_id]
        if self.bad_calls.pop(call_id, None) is not None:
            return  # its input was an error already, and that is what is shown
        at = self._clock.now_ms()
        try:
            output = plain(output)
        except ValueError as fault:
            output, is_error = f"The result {fault}.", True
        if is_error:
            self._tail.append(ev.ToolOutputError(call_id, str(output), at))
        else:
            self._tail.append(ev.ToolOutputAvailable(call_id, output, at))

    def checkpoint(self, data: bytes) -> None:
        begun = {id_: (call.name, call.provider_id) for id_, call in self._begun.items()}
        half = ord(self._half) if self._half else 0
        saved = Saved(data, begun, self.calls, self.bad_calls, half)
        self._tail.checkpoint(msgspec.json.encode(saved))

    def restore(self, saved: "Saved", parts: list[Part]) -> None:
        """Be as the sink was at that checkpoint. `parts`: what the step had said by then."""
        self.calls, self.bad_calls = list(saved.calls), dict(saved.bad_calls)
        self._half = chr(saved.half) if saved.half else ""
        for part in parts:
            if part["type"] == "text":
                self._part_from = len(self.texts)
                self.texts.append(part["text"])
            if part.get("state") == "streaming":
                kind = ev.TextStart if part["type"] == "text" else ev.ReasoningStart
                self._open = (kind, part["id"])
            elif part.get("state") == "input-streaming":
                name, provider_id = saved.begun.get(part["toolCallId"], (part["toolName"], None))
                self._begun[part["toolCallId"]] = _Begun(name, provider_id, [part["inputText"]])

    def progress(self) -> None:
        now = trio.current_time()
        self._progress.sign(now)
        self._life.sign(now)

    def alive(self) -> None:
        self._life.sign(trio.current_time())

    async def room(self) -> None:
        await self._database.room()

    def close(self) -> None:
        """The response is complete: end what is open. A call that was only begun is none."""
        self._close()
        for id_, begun in self._begun.items():
            text = "The response ended before this call was complete."
            self._tail.append(ev.ToolInputError(id_, begun.name, "".join(begun.pieces), text))
        self._begun.clear()

    def _part(self, start: type[ev.TextStart] | type[ev.ReasoningStart]) -> str:
        if self._open is not None and self._open[0] is start:
            return self._open[1]
        self._close()
        id_ = self._ids.part()
        self._open = (start, id_)
        self._part_from = len(self.texts)
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
        if self._open is None:
            return
        (kind, id_), self._open = self._open, None
        if self._half:
            half, self._half = whole(self._half), ""
            if kind is ev.TextStart:
                self.texts.append(half)
            delta = ev.TextDelta if kind is ev.TextStart else ev.ReasoningDelta
            self._tail.append(delta(id_, half))
        self._tail.append(ev.TextEnd(id_) if kind is ev.TextStart else ev.ReasoningEnd(id_))


def _parsed(input_text: str) -> tuple[Any, str]:
    """The input of a call, and what is wrong with it; "" if nothing is."""
    if not input_text.strip():
        return {}, ""
    try:
        return plain(msgspec.json.decode(input_text)), ""
    except msgspec.DecodeError as error:
        return {}, f"The input is not valid JSON: {error}"
    except RecursionError:
        return {}, "The input is nested too deeply."
    except ValueError as error:
        return {}, f"The input {error}."
