"""What a model adapter gets and gives.

An adapter is one coroutine, `respond`, that makes one request and pushes what arrives into a
`Sink`.
It holds no deadlines of its own: the attempt that calls it has cancel scopes around the whole call,
and each `Sink` method moves their deadlines, so no transport can escape the watch (S2). Cancelling
`respond` must close the provider's connection at once.
"""

from typing import Any, Protocol, runtime_checkable

import msgspec

from app.events import FinishReason, Usage


class ToolCall(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`id` is ours and unique in the turn; `provider_id` is what the provider called it."""

    id: str
    name: str
    input: Any
    provider_id: str | None = None


class ToolResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    call: ToolCall
    output: Any
    is_error: bool = False


class ProviderState(msgspec.Struct, frozen=True, rename="camel"):
    """Blocks a provider needs to see again, verbatim (signatures, encrypted reasoning, ids).

    Only replayed to the same `provider` and `model`; never sent to browsers.
    """

    provider: str
    model: str
    data: Any


class UserEntry(msgspec.Struct, frozen=True, rename="camel", tag="user"):
    """One message of the person. `parts` as in the protocol: {"type": "text", "text": …} and
    {"type": "file", "name": …, "mediaType": …, "data": bytes}."""

    parts: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """The text parts, joined by empty lines."""
        return "\n\n".join(part["text"] for part in self.parts if part.get("type") == "text")


class AssistantStep(msgspec.Struct, frozen=True, rename="camel", tag="assistant"):
    """One complete model response. `interrupted`: a person or a fault cut it short here."""

    text: str
    calls: list[ToolCall] = msgspec.field(default_factory=list)
    state: ProviderState | None = None
    interrupted: bool = False


class ToolResults(msgspec.Struct, frozen=True, rename="camel", tag="tools"):
    """The results of all calls of the step before, in the order of the calls."""

    results: list[ToolResult]


Entry = UserEntry | AssistantStep | ToolResults


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool the model may call; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """One request: the whole model-facing history, oldest first, append-only between requests.

    Args:
        thread: our id of the conversation, for providers that keep it; None: it has none.
        turn: our id of the answer; all requests for one answer, also after a crash, have the same.
    """

    entries: list[Entry]
    instructions: str | None = None
    tools: list[ToolSpec] = msgspec.field(default_factory=list)
    thread: str | None = None
    turn: str | None = None


class Completion(msgspec.Struct, frozen=True):
    """How a complete response ended. Tool calls were pushed into the sink."""

    finish_reason: FinishReason
    usage: Usage | None = None
    state: ProviderState | None = None


class Sink(Protocol):
    """Takes what arrives. All methods but `room` are synchronous and count as progress.

    Calls may come in any order; the sink opens and closes parts by itself. A surrogate pair may be
    cut between two deltas of text or reasoning: the sink joins it (M3).
    """

    def text(self, delta: str) -> None:
        """Append to the open text part; opens one if the last thing was something else."""

    def reasoning(self, delta: str) -> None:
        """The same for the model's thinking."""

    def end_part(self) -> None:
        """The open text or reasoning part is complete; more of its kind opens another one."""

    def tool_start(self, name: str, provider_id: str | None = None) -> str:
        """A tool call begins. Returns our id for it, unique in the turn (S7)."""

    def tool_delta(self, call_id: str, fragment: str) -> None:
        """A piece of the call's input, JSON text."""

    def tool_ready(self, call_id: str, input_text: str) -> None:
        """The call's input is complete: JSON text, "" means {}. Invalid JSON is told the model."""

    def final_text(self, text: str) -> None:
        """The canonical text of the open text part: replaces what deltas gave, and closes it."""

    def tool_settled(self, call_id: str, output: Any, *, is_error: bool = False) -> None:
        """The provider ran this tool itself, after `tool_ready`: it is not ours to run."""

    def checkpoint(self, data: bytes) -> None:
        """What `ResumableModel.resume` needs to go on from here after a crash of ours.

        Stored in the same commit as everything pushed before it, so the two always fit; the newest
        one counts. A few hundred bytes at most: it is written with each commit.
        """

    def progress(self) -> None:
        """A model event that carries nothing for us: the model lives."""

    def alive(self) -> None:
        """Bytes that are no model event (comments, pings): only the longer clock is reset."""

    async def room(self) -> None:
        """Await after each piece read from the network: bounds what is not yet stored."""


class Model(Protocol):
    """A configured model. `provider` names the wire, `model` the provider's name for the model."""

    name: str
    provider: str
    model: str

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """Make one request and push its content into `sink` until it is complete.

        Raises ModelError for everything that goes wrong with the request, including a response that
        ends cleanly before it is complete. Cancellation closes the connection.
        """


@runtime_checkable
class ResumableModel(Model, Protocol):
    """A model whose provider goes on without us, and can be asked for the rest of a response."""

    async def resume(self, request: ModelRequest, sink: Sink, checkpoint: bytes) -> Completion:
        """Go on with a response after a crash of ours, from the newest stored checkpoint.

        The sink is as it was then: what was pushed is there, the open part is open, tool calls that
        were started keep their ids. Raises ModelError like `respond`; where the provider has
        nothing to resume, a retryable one: the attempt is withdrawn and the request made again.
        """
