"""The messages of a request on wires whose messages are lists of blocks (Anthropic, Bedrock).

Roles alternate, a message of the person begins with the results of the calls before it, and no text
block is blank: these providers refuse everything else. The same entries always give the same
blocks, and more entries only add to them at the end.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from app.models.interface import AssistantStep, Entry, ToolCall, ToolResult, ToolResults, UserEntry
from app.models.transcript import (
    INTERRUPTED,
    NO_RESULT,
    NOTHING_SAID,
    call_input,
    image_of,
    output_text,
    part_text,
    tool_name,
)

Block = dict[str, Any]


class Shapes(Protocol):
    """What blocks look like on one wire."""

    def text(self, text: str) -> Block: ...

    def image(self, kind: str, data: bytes) -> Block:
        """`kind`: the media type."""

    def call(self, id_: str, name: str, arguments: dict[str, Any]) -> Block: ...

    def result(self, id_: str, text: str, *, is_error: bool) -> Block: ...

    def is_blank(self, block: Block) -> bool:
        """Whether it is a text block without text: models send those, and get them refused."""

    def called(self, block: Block) -> str | None:
        """The id, if the block is a call of ours."""

    def own(self, step: AssistantStep) -> list[Block] | None:
        """The blocks as this very model sent them; None where another one did."""


def messages(entries: Iterable[Entry], shapes: Shapes) -> list[dict[str, Any]]:
    """The conversation, without instructions."""
    thread = _Conversation(shapes)
    for entry in entries:
        if isinstance(entry, ToolResults):
            thread.results(entry.results)
            continue
        thread.settle_calls()
        if isinstance(entry, UserEntry):
            thread.user(entry)
        else:
            thread.assistant(entry)
    thread.settle_calls()
    return thread.messages


def calls_in(entries: Iterable[Entry]) -> list[ToolCall]:
    """Every call of the conversation."""
    steps = (entry for entry in entries if isinstance(entry, AssistantStep))
    return [call for step in steps for call in step.calls]


class _Conversation:
    def __init__(self, shapes: Shapes) -> None:
        self.messages: list[dict[str, Any]] = []
        self._shapes = shapes
        # What the next message of the person has to say first; cleared by it.
        self._notes: list[str] = []
        # Calls of the last step that have no result yet: our id -> the id on the wire.
        self._open: dict[str, str] = {}
        # The provider's ids of calls that stand in the messages already.
        self._used: set[str] = set()

    def user(self, entry: UserEntry) -> None:
        blocks = [self._shapes.text(note) for note in self._notes]
        self._notes.clear()
        for part in entry.parts:
            image = image_of(part)
            if image is not None:
                blocks.append(self._shapes.image(*image))
            else:
                blocks.append(self._shapes.text(part_text(part)))
        self._add("user", blocks)

    def assistant(self, step: AssistantStep) -> None:
        if step.interrupted:
            self._notes.append(INTERRUPTED if step.text or step.calls else NOTHING_SAID)
        blocks = self._shapes.own(step)
        if blocks is not None and self._fits(blocks, step.calls):
            self._open = {call.id: str(call.provider_id) for call in step.calls}
        else:
            blocks = self._plain(step)
            self._open = {call.id: call.id for call in step.calls}
        self._add("assistant", blocks)

    def results(self, results: Iterable[ToolResult]) -> None:
        self._add(
            "user",
            [
                self._shapes.result(
                    self._open.pop(result.call.id, result.call.id),
                    output_text(result.output),
                    is_error=result.is_error,
                )
                for result in results
            ],
        )

    def settle_calls(self) -> None:
        """Providers refuse a conversation in which a call has no result."""
        ids = [*self._open.values()]
        self._open = {}
        self._add("user", [self._shapes.result(id_, NO_RESULT, is_error=True) for id_ in ids])

    def _add(self, role: str, blocks: Iterable[Block]) -> None:
        blocks = [block for block in blocks if not self._shapes.is_blank(block)]
        if blocks and self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        elif blocks:
            self.messages.append({"role": role, "content": blocks})

    def _fits(self, blocks: Sequence[Block], calls: Sequence[ToolCall]) -> bool:
        """Whether results can name the calls by the ids in these blocks (S7)."""
        ids = [id_ for id_ in map(self._shapes.called, blocks) if id_ is not None]
        if ids != [call.provider_id for call in calls] or len({*ids}) < len(ids):
            return False
        if not self._used.isdisjoint(ids):
            return False
        self._used.update(ids)
        return True

    def _plain(self, step: AssistantStep) -> list[Block]:
        """The step in this wire's words, with our own ids: every provider takes those."""
        calls = [
            self._shapes.call(call.id, tool_name(call.name), call_input(call))
            for call in step.calls
        ]
        return [self._shapes.text(step.text), *calls]
