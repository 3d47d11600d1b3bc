"""Reads a Messages stream (PROTOCOLS.md, C): Anthropic's own, and that of servers like it."""

from typing import Any

from app.events import FinishReason, Usage
from app.models.anthropic_blocks import Block
from app.models.event_reader import EventReader, count
from app.models.interface import Sink
from app.models.server_calls import ServerCalls

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
}
# Reasons that say that the answer is not one, as faults.py knows them.
_FAILED = {"refusal": "content_filter", "model_context_window_exceeded": "context_length_exceeded"}

# Where a delta comes without its block having begun.
_IMPLIED = {"text_delta": {"type": "text"}, "thinking_delta": {"type": "thinking"}}


class MessageReader(EventReader):
    """One response. Its results are there when `end` has returned."""

    def __init__(
        self, sink: Sink, served: ServerCalls, *, who: str, secrets: tuple[str, ...] = ()
    ) -> None:
        super().__init__(sink, who=who, secrets=secrets)
        # The provider's word for how it ended; "" until it said.
        self.stop_reason = ""
        self._served = served
        self._blocks: list[Block] = []
        # Blocks that are open, by the provider's index.
        self._open: dict[int | None, Block] = {}
        self._called = False
        self._tokens: dict[str, int] = {}

    def end(self) -> None:
        """The body has ended. Raises ModelError unless the answer is complete."""
        super().end()
        for index in [*self._open]:
            self._stop(index)

    # results

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks as they have to go back."""
        return [block.data for block in self._blocks]

    @property
    def finish_reason(self) -> FinishReason:
        reason = _FINISH.get(self.stop_reason, "other")
        if self._called:
            return reason if reason == "length" else "tool-calls"
        return "stop" if reason == "tool-calls" else reason

    @property
    def usage(self) -> Usage | None:
        """What was read from the provider's cache, or written to it, is input too, as elsewhere."""
        if not self._tokens:
            return None
        read = self._tokens.get("cache_read_input_tokens", 0)
        written = self._tokens.get("cache_creation_input_tokens", 0)
        fresh = self._tokens.get("input_tokens")
        return Usage(
            input_tokens=None if fresh is None else fresh + read + written,
            output_tokens=self._tokens.get("output_tokens"),
            cached_tokens=self._tokens.get("cache_read_input_tokens"),
        )

    # events

    def take(self, name: str, value: Any) -> bool:
        if not isinstance(value, dict):
            raise self.garbled()
        kind = value.get("type") or name
        if kind == "error" or (value.get("error") and "type" not in value):
            raise self.failed(value)
        if kind == "message_start":
            self._take_usage(_dict(value.get("message")).get("usage"))
            self.sink.progress()
        elif kind == "content_block_start":
            self._start(self._index(value), _dict(value.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(self._index(value), _dict(value.get("delta")))
        elif kind == "content_block_stop":
            self._stop(self._index(value))
        elif kind == "message_delta":
            self._take_usage(value.get("usage"))
            self._stopped(_dict(value.get("delta")))
        elif kind == "message_stop":
            self.complete = self.done = True
            self.sink.progress()
        else:
            return False  # a ping, or what a later version of the wire says
        self.spoke = True
        return True

    def take_whole(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise self.garbled()
        if value.get("type") != "message":
            raise self.failed(value)
        content = value.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            self._start(index, _dict(block))
            self._stop(index)
        self._take_usage(value.get("usage"))
        self._stopped(value)

    def _index(self, value: dict[str, Any]) -> int | None:
        """Which block; None where a server that has one at a time does not say."""
        index = value.get("index")
        if index is not None and not isinstance(index, int):
            raise self.garbled()
        return index

    def _start(self, index: int | None, start: dict[str, Any]) -> Block:
        block = Block(start)
        self._blocks.append(block)
        self._open[index] = block
        if block.is_call:
            name, id_ = str(start.get("name") or ""), str(start.get("id") or "")
            if not name:
                raise self.garbled()
            block.call = self.sink.tool_start(name, id_ or None)
            self._called = self._called or block.is_ours
        elif block.kind == "text" and start.get("text"):
            self.sink.text(str(start["text"]))
        elif block.kind == "thinking" and start.get("thinking"):
            self.sink.reasoning(str(start["thinking"]))
        else:
            self.sink.progress()
        return block

    def _delta(self, index: int | None, delta: dict[str, Any]) -> None:
        kind = str(delta.get("type"))
        block = self._open.get(index)
        if block is None:
            if kind not in _IMPLIED:
                raise self.garbled()
            block = self._start(index, _IMPLIED[kind])
        text = block.grow(delta)
        if kind == "text_delta":
            self.sink.text(text)
        elif kind == "thinking_delta":
            self.sink.reasoning(text)
        elif block.call is not None and text:
            self.sink.tool_delta(block.call, text)
        else:
            self.sink.progress()

    def _stop(self, index: int | None) -> None:
        block = self._open.pop(index, None)
        held = block.close() if block is not None else ""
        if block is None:
            self.sink.progress()
        elif block.call is not None:
            self.sink.tool_ready(block.call, block.input_text)
            if not block.is_ours:
                self._served.began(str(block.data.get("id")), block.call)
        elif block.kind == "thinking":
            self.sink.reasoning(held)
            self.sink.end_part()
        elif block.kind == "text":
            # Not the end of a part: cited sentences come in blocks of their own, side by side.
            self.sink.text(held)
        elif block.kind.endswith("tool_result"):
            self._settle(block.data)
            self.sink.progress()
        else:
            self.sink.progress()

    def _settle(self, result: dict[str, Any]) -> None:
        content = result.get("content")
        kind = content.get("type") if isinstance(content, dict) else ""
        is_error = bool(result.get("is_error")) or str(kind).endswith("_error")
        self._served.ended(str(result.get("tool_use_id")), _readable(content), is_error=is_error)

    def _stopped(self, delta: dict[str, Any]) -> None:
        reason = delta.get("stop_reason")
        if reason is not None and not isinstance(reason, str):
            raise self.garbled()
        if reason in _FAILED:
            details = _dict(delta.get("stop_details"))
            said = details.get("explanation") or details.get("category") or ""
            raise self.failed({"type": _FAILED[reason], "message": said})
        if reason:
            self.stop_reason = reason
            self.complete = True
        self.sink.progress()

    def _take_usage(self, usage: Any) -> None:
        """Cumulative, and servers leave out at one end what they say at the other."""
        for name, value in _dict(usage).items():
            if (tokens := count(value)) is not None:
                self._tokens[name] = max(tokens, self._tokens.get(name, 0))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _readable(content: Any) -> Any:
    """A result without what only the provider can read."""
    if isinstance(content, list):
        return [_readable(item) for item in content]
    if isinstance(content, dict):
        return {k: _readable(v) for k, v in content.items() if not k.startswith("encrypted_")}
    return content
