"""The closed vocabulary of events: what a turn's log can say (web/PROTOCOL.md, "Events").

Content events have the names and fields of the AI SDK's UI message chunks. Each event is encoded to
JSON exactly once, by the journal, and never changed afterwards.
"""

from typing import Any, ClassVar, Literal

import msgspec

FinishReason = Literal["stop", "length", "tool-calls", "content-filter", "other"]
OutcomeName = Literal["finished", "failed", "cancelled", "aborted", "interrupted"]
StatusState = Literal["connecting", "retrying", "recovering", "queued"]


class Usage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Tokens; None where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        def add(a: int | None, b: int | None) -> int | None:
            return b if a is None else a if b is None else a + b

        return Usage(
            add(self.input_tokens, other.input_tokens),
            add(self.output_tokens, other.output_tokens),
            add(self.cached_tokens, other.cached_tokens),
        )


class Event(
    msgspec.Struct, frozen=True, tag_field="type", tag=True, rename="camel", omit_defaults=True
):
    """Base of all events. `content` events clear the shown status: output flows again."""

    content: ClassVar[bool] = False


class Start(Event, frozen=True, tag="start"):
    turn: str
    thread: str
    message: str
    model: str
    at: int


class StartStep(Event, frozen=True, tag="start-step"):
    pass


class TextStart(Event, frozen=True, tag="text-start"):
    content: ClassVar[bool] = True
    id: str


class TextDelta(Event, frozen=True, tag="text-delta"):
    content: ClassVar[bool] = True
    id: str
    delta: str


class TextEnd(Event, frozen=True, tag="text-end"):
    """`text`, where it is given, is the canonical text: it replaces what the deltas gave (M1)."""

    content: ClassVar[bool] = True
    id: str
    text: str | None = None


class ReasoningStart(Event, frozen=True, tag="reasoning-start"):
    content: ClassVar[bool] = True
    id: str


class ReasoningDelta(Event, frozen=True, tag="reasoning-delta"):
    content: ClassVar[bool] = True
    id: str
    delta: str


class ReasoningEnd(Event, frozen=True, tag="reasoning-end"):
    content: ClassVar[bool] = True
    id: str


class ToolInputStart(Event, frozen=True, tag="tool-input-start"):
    content: ClassVar[bool] = True
    tool_call_id: str
    tool_name: str


class ToolInputDelta(Event, frozen=True, tag="tool-input-delta"):
    content: ClassVar[bool] = True
    tool_call_id: str
    input_text_delta: str


class ToolInputAvailable(Event, frozen=True, tag="tool-input-available"):
    content: ClassVar[bool] = True
    tool_call_id: str
    tool_name: str
    input: Any


class ToolInputError(Event, frozen=True, tag="tool-input-error"):
    content: ClassVar[bool] = True
    tool_call_id: str
    tool_name: str
    input_text: str
    error_text: str


class ToolDispatched(Event, frozen=True, tag="tool-dispatched"):
    content: ClassVar[bool] = True
    tool_call_id: str
    at: int


class ToolOutputAvailable(Event, frozen=True, tag="tool-output-available"):
    content: ClassVar[bool] = True
    tool_call_id: str
    output: Any
    at: int


class ToolOutputError(Event, frozen=True, tag="tool-output-error"):
    """`unknown`: the tool may have had its effect; nobody can tell, and it is not run again."""

    content: ClassVar[bool] = True
    tool_call_id: str
    error_text: str
    at: int
    unknown: bool = False


class FinishStep(Event, frozen=True, tag="finish-step"):
    finish_reason: FinishReason
    usage: Usage | None = None


class ResetStep(Event, frozen=True, tag="reset-step"):
    """Withdraws everything since the last start-step (AI SDK v7 semantics)."""

    reason: str


class Status(Event, frozen=True, tag="status"):
    """`until`: ms since 1970 at which the next try begins; `attempt` of `limit` is that try."""

    state: StatusState
    text: str
    attempt: int | None = None
    limit: int | None = None
    until: int | None = None


class Snapshot(Event, frozen=True, tag="snapshot"):
    parts: list[dict[str, Any]]


class Superseded(Event, frozen=True, tag="superseded"):
    stream: str


class Outcome(Event, frozen=True, tag="outcome"):
    """The one terminal record of a turn; always the last event. `at`: ms since 1970."""

    outcome: OutcomeName
    code: str
    text: str
    retryable: bool
    at: int
    finish_reason: FinishReason | None = None
    usage: Usage | None = None


AnyEvent = (
    Start
    | StartStep
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputAvailable
    | ToolInputError
    | ToolDispatched
    | ToolOutputAvailable
    | ToolOutputError
    | FinishStep
    | ResetStep
    | Status
    | Snapshot
    | Superseded
    | Outcome
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """JSON text of the event, UTF-8, one line."""
    return _encoder.encode(event)


def decode(data: bytes) -> AnyEvent:
    """Raises msgspec.ValidationError for what is not an event of this vocabulary."""
    return _decoder.decode(data)
