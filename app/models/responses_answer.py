"""What one response of the Responses API says, over all connections it takes (PROTOCOLS.md, B1).

Merged by identity: each text is named by its place in the output, deltas are appended, the "done"
event has the canonical form and closes it, and what comes later for the same place is dropped.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from app.events import FinishReason, Usage
from app.models import responses_hosted as hosted
from app.models.errors import ModelError
from app.models.event_reader import count
from app.models.faults import from_object
from app.models.interface import Sink
from app.models.responses_request import is_whole, replayable

_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content-filter",
}
# Codes of `response.failed` that may not come again; with any other the request is at fault.
_TRANSIENT = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})


class Place(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Where a text is: the item's index, "text", "thought" or "summary", and the part's index."""

    item: int
    kind: str
    part: int


class Checkpoint(msgspec.Struct, frozen=True, rename={"sequence": "seq"}):
    """What a later life of ours needs to go on, a few hundred bytes.

    Args:
        done: indexes of the items that were shown to their end.
        closed: texts of other items that were shown to their end.
        open: the text whose part is open, and `shown`, how many characters of it were pushed.
        calls: our ids of the calls whose input is being written, by index of their item.
    """

    id: str
    sequence: int
    done: list[int]
    closed: list[Place]
    open: Place | None
    shown: int
    calls: dict[int, str]


# The texts of a response: what their events begin with, their kind, and the member with the index.
_TEXTS = {
    "response.output_text": ("text", "content_index"),
    "response.refusal": ("text", "content_index"),
    "response.reasoning_text": ("thought", "content_index"),
    "response.reasoning_summary_text": ("summary", "summary_index"),
}


class Answer:
    """Shows the events of a response in a sink.

    `id` is "" until the provider said it. `ended`: nothing more comes, whether well or not.
    `background`: the provider writes it also while nobody listens.
    """

    def __init__(
        self, sink: Sink, *, who: str, background: bool = False, secrets: Iterable[str] = ()
    ) -> None:
        self.background = background
        self.id = ""
        self.sequence = -1
        self.ended = False
        self.usage: Usage | None = None
        self.finish_reason: FinishReason = "stop"
        self._sink = sink
        self._who = who
        self._secrets = secrets
        self._items: dict[int, dict[str, Any]] = {}  # those that are complete
        self._done: set[int] = set()  # their indexes, also of those from before a crash of ours
        self._closed: set[Place] = set()
        self._open: Place | None = None
        # What was pushed of each text that is not closed.
        self._shown: dict[Place, list[str]] = {}
        # How many characters of a text an earlier life of ours pushed.
        self._before: dict[Place, int] = {}
        self._calls: dict[int, str] = {}  # our ids of calls that are not ready
        self._ids: set[str] = set()  # the provider's ids of items that are complete

    # another life of ours

    def checkpoint(self) -> bytes:
        saved = Checkpoint(
            self.id,
            self.sequence,
            sorted(self._done),
            sorted(place for place in self._closed if place.item not in self._done),
            self._open,
            self._length(self._open) if self._open else 0,
            dict(self._calls),
        )
        return msgspec.json.encode(saved)

    def restore(self, data: bytes) -> None:
        """Be as at that checkpoint, as the sink is."""
        saved = msgspec.json.decode(data, type=Checkpoint)
        self.background = True
        self.id, self.sequence = saved.id, saved.sequence
        self._done, self._closed = set(saved.done), set(saved.closed)
        self._calls = dict(saved.calls)
        self._open = saved.open
        if saved.open:
            self._before[saved.open] = saved.shown

    # what came

    @property
    def output(self) -> list[dict[str, Any]]:
        """What the provider wants to see again."""
        return replayable(self._items[index] for index in sorted(self._items))

    def take(self, event: Mapping[str, Any]) -> None:
        """One event; an unknown one is a sign of life.

        Raises ModelError for a response that failed, and for events that make no sense.
        """
        kind = str(event.get("type"))
        name, _, verb = kind.rpartition(".")
        index = count(event.get("output_index")) or 0
        if isinstance(response := event.get("response"), dict):
            self.take_response(response)
        elif name in _TEXTS and verb in ("delta", "done"):
            self._take_text(event, index, name, verb)
        elif name == "response.output_item" and isinstance(item := event.get("item"), dict):
            self._take_item(index, item, complete=verb == "done")
        elif kind == "response.function_call_arguments.delta" and index in self._calls:
            self._sink.tool_delta(self._calls[index], _string(event.get("delta")))
        else:
            self._sink.progress()

    def take_response(self, response: dict[str, Any]) -> None:
        """The whole response as it is now. If it has ended, what was not shown yet is shown.

        Raises ModelError if it failed.
        """
        self.id = self.id or _string(response.get("id"))
        status = response.get("status")
        self.ended = status in ("completed", "incomplete", "failed", "cancelled")
        if status == "failed":
            raise self._failed(response.get("error"))
        if status == "cancelled":
            text = f"{self._who} says that the answer was cancelled there."
            raise ModelError(text, code="MODEL_ERROR", retryable=False)
        if not self.ended:
            self._sink.progress()
            return
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else []):
            if isinstance(item, dict):
                self._take_item(index, item, complete=True)
        self._take_usage(response.get("usage"))
        if status == "incomplete":
            details = response.get("incomplete_details")
            reason = details.get("reason") if isinstance(details, dict) else None
            self.finish_reason = _INCOMPLETE.get(_string(reason), "other")
        elif any(item.get("type") == "function_call" for item in self.output):
            self.finish_reason = "tool-calls"

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("input_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        self.usage = Usage(
            input_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=count(cached),
        )

    def _failed(self, error: Any) -> ModelError:
        if isinstance(error, dict) and error.get("code") not in _TRANSIENT:
            error = {**error, "type": error.get("type") or "invalid_request_error"}
        return from_object(error, who=self._who, secrets=self._secrets)

    # texts

    def _take_text(self, event: Mapping[str, Any], index: int, name: str, verb: str) -> None:
        kind, member = _TEXTS[name]
        place = Place(index, kind, count(event.get(member)) or 0)
        if verb == "delta":
            self._delta(place, _string(event.get("delta")))
        else:
            self._text_done(place, event.get("refusal" if name.endswith("refusal") else "text"))

    def _delta(self, place: Place, delta: str) -> None:
        if not delta or self._is_closed(place):
            self._sink.progress()
            return
        self._turn_to(place)
        self._shown.setdefault(place, []).append(delta)
        self._push(place, delta)

    def _text_done(self, place: Place, text: Any) -> None:
        """The canonical form of a text; None where the server does not give it."""
        if self._is_closed(place):
            self._sink.progress()
            return
        shown = "".join(self._shown.get(place, []))
        if isinstance(text, str) and (text != shown or place in self._before):
            self._correct(place, text)
        if self._open == place:
            self._sink.end_part()
            self._open = None
        self._closed.add(place)
        self._shown.pop(place, None)

    def _correct(self, place: Place, text: str) -> None:
        if place.kind == "text" and place == self._open:
            self._sink.final_text(text)
            self._open = None
            return
        # By length: what was shown begins where the text begins.
        if rest := text[self._length(place) :]:
            self._turn_to(place)
            self._push(place, rest)

    def _length(self, place: Place) -> int:
        """How many characters of a text were pushed."""
        return self._before.get(place, 0) + sum(map(len, self._shown.get(place, [])))

    def _is_closed(self, place: Place) -> bool:
        return place in self._closed or place.item in self._done

    def _turn_to(self, place: Place) -> None:
        if self._open not in (None, place):
            self._sink.end_part()
        self._open = place

    def _push(self, place: Place, delta: str) -> None:
        if place.kind == "text":
            self._sink.text(delta)
        else:
            self._sink.reasoning(delta)

    # items

    def _take_item(self, index: int, item: dict[str, Any], *, complete: bool) -> None:
        id_ = _string(item.get("id"))
        # Some gateways count the items of the stream in another way than those of the response.
        known = index in self._done or id_ in self._ids
        if not known and item.get("type") == "function_call":
            self._take_call(index, item, complete=complete)
        elif not known and (name := hosted.name_of(item)):
            self._take_hosted(index, name, item, complete=complete)
        elif not known and complete:
            self._show(index, item)
        self._sink.progress()
        if complete:
            self._items[index] = item
            self._done.add(index)
            if id_:
                self._ids.add(id_)

    def _show(self, index: int, item: dict[str, Any]) -> None:
        """What of a complete message or thought came by no event of its own."""
        if item.get("type") == "message":
            for number, part in _parts(item, "content"):
                text = part.get("refusal") if part.get("type") == "refusal" else part.get("text")
                self._text_done(Place(index, "text", number), text)
        elif item.get("type") == "reasoning":
            for number, part in _parts(item, "summary"):
                self._text_done(Place(index, "summary", number), part.get("text"))
            for number, part in _parts(item, "content"):
                self._text_done(Place(index, "thought", number), part.get("text"))

    def _take_call(self, index: int, item: dict[str, Any], *, complete: bool) -> None:
        name = _string(item.get("name"))
        if not name:
            text = "The model called a tool without naming it."
            raise ModelError(text, code="MODEL_PROTOCOL", retryable=True)
        id_ = self._begin_call(index, name, _string(item.get("call_id")))
        if complete and is_whole(item):
            arguments = item.get("arguments")
            if not isinstance(arguments, str):
                text = f"{self._who} sent a call of a tool without its input."
                raise ModelError(text, code="MODEL_PROTOCOL", retryable=True)
            self._sink.tool_ready(id_, arguments)
            del self._calls[index]

    def _take_hosted(self, index: int, name: str, item: dict[str, Any], *, complete: bool) -> None:
        id_ = self._begin_call(index, name, _string(item.get("id")))
        if complete:
            output, is_error = hosted.output_of(item)
            self._sink.tool_ready(id_, hosted.input_of(item))
            self._sink.tool_settled(id_, output, is_error=is_error)
            del self._calls[index]

    def _begin_call(self, index: int, name: str, provider_id: str) -> str:
        """Our id of the call; the sink hears of it once."""
        if index not in self._calls:
            self._open = None  # the sink closes it
            self._calls[index] = self._sink.tool_start(name, provider_id or None)
        return self._calls[index]


def _parts(item: Mapping[str, Any], member: str) -> list[tuple[int, dict[str, Any]]]:
    parts = item.get(member)
    return [
        (number, part)
        for number, part in enumerate(parts if isinstance(parts, list) else [])
        if isinstance(part, dict)
    ]


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
