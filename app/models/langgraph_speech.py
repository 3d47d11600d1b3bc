"""One message of an agent on its way into the sink.

What is known of it comes twice: as deltas, which are appended, and as snapshots of the whole, which
say again what deltas said. Both count from the beginning of the message, so the two are matched by
length alone, never by comparing texts (M1): what lies behind what was shown is new, everything
before it is not (M2).
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from app.models import langgraph_messages as messages
from app.models.interface import Sink
from app.models.langgraph_messages import Message, ToolUse

NO_RESULT = "The agent ended without a result of this call."

Kind = Literal["text", "thought", ""]


@dataclass
class Grown:
    """A text that only grows. `at`: how far its deltas have come; `shown`: how far the sink has it.

    `pieces`: what was pushed; None if an earlier life of ours pushed some of it.
    """

    at: int = 0
    shown: int = 0
    pieces: list[str] | None = field(default_factory=list)

    def grow(self, delta: str) -> str:
        """What of a delta is new."""
        begin, self.at = self.at, self.at + len(delta)
        return self.show(delta[max(0, self.shown - begin) :])

    def rest(self, whole: str) -> str:
        """What of a snapshot is new."""
        return self.show(whole[self.shown :])

    def show(self, new: str) -> str:
        self.shown += len(new)
        if self.pieces is not None:
            self.pieces.append(new)
        return new

    def is_exactly(self, whole: str) -> bool:
        """Whether the sink has just this. An equal text need not be sent once more."""
        return self.pieces is not None and "".join(self.pieces) == whole


@dataclass
class Call:
    """A tool call. `id` is ours, "" until the sink knows of it."""

    provider_id: str
    name: str = ""
    index: Any = None
    id: str = ""
    input: Grown = field(default_factory=Grown)
    ready: bool = False
    settled: bool = False


class Speech:
    """Pushes one message, in its own order. `key` stands for the message's id.

    Nothing else may be pushed between `text` deltas of one message, or they become two parts: who
    has the stage is for the merge to say.
    """

    def __init__(self, key: str, sink: Sink) -> None:
        self.key = key
        self.deltas = False  # some came
        self.declared = False  # they said that they were pieces
        self.ended = False  # there are no more of them
        self.stated = False  # it is in the agent's state
        self.closed = False  # its canonical form is known
        self.holed = False  # some got lost: only the canonical form is of use
        self.text, self.thought = Grown(), Grown()
        self.calls: list[Call] = []
        self.open: Kind = ""  # the part that is open in the sink
        self.parts = 0  # text parts it was shown in
        self._sink = sink

    # deltas

    def add(self, piece: Message) -> None:
        self._push("thought", self.thought.grow(messages.thought_of(piece)))
        self._push("text", self.text.grow(messages.text_of(piece)))
        pieces = messages.pieces_of_calls(piece)
        for call in pieces:
            self._add_to_call(call)
        if not pieces and not messages.is_piece(piece):
            for use in messages.calls_of(piece):
                self._start(self._find(use), use.name)
        if messages.is_last_piece(piece):
            for one in self.calls:
                if one.input.pieces is not None:
                    self._make_ready(one, "".join(one.input.pieces))

    def _add_to_call(self, piece: Any) -> None:
        index, id_, name = piece.get("index"), piece.get("id") or "", piece.get("name") or ""
        call = next((one for one in reversed(self.calls) if one.index == index), None)
        if call is None or (id_ and call.provider_id and id_ != call.provider_id):
            call = Call(id_, name, index)
            self.calls.append(call)
        call.name = call.name or name
        if call.name and not call.ready:
            self._start(call, call.name)
            if new := call.input.grow(piece.get("args") or ""):
                self._sink.tool_delta(call.id, new)

    # snapshots

    def grow_to(self, whole: Message) -> None:
        """A snapshot: it may lag, and the message may go on."""
        self._push("thought", self.thought.rest(messages.thought_of(whole)))
        self._push("text", self.text.rest(messages.text_of(whole)))

    def take_calls(self, whole: Message) -> None:
        """Calls that the agent's state has: they are complete."""
        for use in messages.calls_of(whole):
            call = self._find(use)
            self._start(call, use.name or "tool")
            self._make_ready(call, use.arguments)

    def close(self, whole: Message) -> None:
        """The canonical form: nothing comes after it."""
        if not self.text.shown:
            self._push("thought", self.thought.rest(messages.thought_of(whole)))
        text = messages.text_of(whole)
        if self.open == "text" and self.parts == 1 and not self.text.is_exactly(text):
            self._sink.final_text(text)
            self.open = ""
        elif self.open != "text" or self.parts > 1:
            self._push("text", self.text.rest(text))
        self.leave()
        self.take_calls(whole)

    # the stage

    @property
    def may_leave(self) -> bool:
        return self.ended or self.stated or self.closed

    def leave(self) -> None:
        """Somebody else speaks: more of the same text is a part of its own."""
        if self.open:
            self._sink.end_part()
            self.open = ""

    # tools

    def find(self, provider_id: str) -> Call | None:
        """The call a result is for."""
        same = (one for one in self.calls if one.provider_id == provider_id)
        return next((one for one in same if not one.settled), None)

    def settle(self, call: Call, output: Any, *, is_error: bool = False) -> None:
        """The agent ran it: that is its result."""
        if call.settled:
            return
        self._start(call, call.name or "tool")
        self._make_ready(call, "".join(call.input.pieces or ()))
        call.settled = True
        self._sink.tool_settled(call.id, output, is_error=is_error)

    def finish(self) -> None:
        """The run is over."""
        self.leave()
        for call in self.calls:
            self.settle(call, NO_RESULT, is_error=True)

    def _find(self, use: ToolUse) -> Call:
        """The call that is meant: the first of its id that is not complete."""
        same = [one for one in self.calls if one.provider_id in (use.id, "")]
        for call in same:
            if not call.ready:
                call.provider_id = use.id
                return call
        if same:
            return same[-1]
        self.calls.append(Call(use.id, use.name))
        return self.calls[-1]

    def _start(self, call: Call, name: str) -> None:
        if not call.id:
            self.open = ""  # the sink closes it
            call.name = call.name or name
            call.id = self._sink.tool_start(call.name, call.provider_id or None)

    def _make_ready(self, call: Call, input_text: str) -> None:
        if not call.ready:
            self._start(call, call.name or "tool")
            call.ready = True
            self._sink.tool_ready(call.id, input_text)

    def _push(self, kind: Kind, new: str) -> None:
        if not new:
            return
        if self.open != kind:
            self.open = kind
            self.parts += kind == "text"
        if kind == "text":
            self._sink.text(new)
        else:
            self._sink.reasoning(new)
