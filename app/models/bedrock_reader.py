"""Reads a ConverseStream: AWS's binary event stream, and what Bedrock says in it."""

from collections.abc import Mapping
from typing import Any

from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError

from app.events import FinishReason, Usage
from app.models.bedrock_blocks import Block
from app.models.errors import ModelError
from app.models.event_reader import count
from app.models.faults import from_object
from app.models.interface import Sink
from app.models.json_text import decode
from app.models.server_calls import ServerCalls

MEDIA_TYPE = "application/vnd.amazon.eventstream"

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
}
# Reasons that say that the answer is not one, as faults.py knows them.
_FAILED = {
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "model_context_window_exceeded": "context_length_exceeded",
    "malformed_model_output": "server_error",
    "malformed_tool_use": "server_error",
}


class ConverseReader:
    """Implements http.Reader for one response. Its results are there when `end` has returned."""

    def __init__(self, sink: Sink, *, who: str, secrets: tuple[str, ...] = ()) -> None:
        self.complete = False
        self.done = False
        self.usage: Usage | None = None
        self._sink = sink
        self._who = who
        self._secrets = secrets
        self._buffer = EventStreamBuffer()
        self._served = ServerCalls(sink)
        self._blocks: list[Block] = []
        self._open: dict[Any, Block] = {}
        self._called = False
        self._reason = ""

    # Reader

    def opened(self, headers: Mapping[str, str]) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != MEDIA_TYPE:
            what = "a web page" if "html" in kind else f"{kind or 'something unnamed'}"
            text = f"{self._who} answered with {what}: check base_url."
            raise ModelError(text, code="MODEL_PROTOCOL", retryable=False)

    def feed(self, data: bytes) -> bool:
        events = False
        try:
            self._buffer.add_data(data)
            for message in self._buffer:
                events = self._message(message) or events
        except ParserError:
            return self._spoiled(events, self._garbled())
        except ModelError as error:
            return self._spoiled(events, error)
        return events

    def end(self) -> None:
        """The body has ended. Raises ModelError unless the answer is complete.

        What is left of a frame that was cut is no event: it cannot have completed the answer.
        """
        if not self.complete:
            text = f"{self._who} ended the answer before it was complete."
            raise ModelError(text, code="MODEL_EOF", retryable=True)
        for index in [*self._open]:
            self._stop(index)
        self._served.settle()

    # results

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks as they have to go back."""
        return [block.data for block in self._blocks]

    @property
    def finish_reason(self) -> FinishReason:
        reason = _FINISH.get(self._reason, "other")
        if self._called:
            return reason if reason == "length" else "tool-calls"
        return "stop" if reason == "tool-calls" else reason

    # frames

    def _spoiled(self, events: bool, error: ModelError) -> bool:
        """Raises the error, unless the answer was complete before it."""
        if not self.complete:
            raise error
        self.done = True
        return events

    def _message(self, message: EventStreamMessage) -> bool:
        """One frame. Returns whether it was a sign of the model. Raises ModelError."""
        headers = message.headers
        kind = headers.get(":message-type")
        if kind == "error":
            said = {"type": headers.get(":error-code"), "message": headers.get(":error-message")}
            raise self._failed(said)
        value = decode(message.payload or b"{}", who=self._who)
        if not isinstance(value, dict):
            raise self._garbled()
        if kind == "exception":
            messages = (value.get("message"), value.get("originalMessage"))
            words = ": ".join(str(message) for message in messages if message)
            raise self._failed({"type": headers.get(":exception-type"), "message": words})
        return self._event(str(headers.get(":event-type")), value)

    def _event(self, kind: str, event: dict[str, Any]) -> bool:
        index = event.get("contentBlockIndex")
        if kind == "messageStart":
            self._sink.progress()
        elif kind == "contentBlockStart":
            self._start(index, _dict(event.get("start")))
        elif kind == "contentBlockDelta":
            self._delta(index, event.get("delta"))
        elif kind == "contentBlockStop":
            self._stop(index)
        elif kind == "messageStop":
            self._stopped(str(event.get("stopReason")))
        elif kind == "metadata":
            self._take_usage(_dict(event.get("usage")))
            self.done = self.complete
        else:
            return False  # what a later version of the wire says
        return True

    # events

    def _start(self, index: Any, start: dict[str, Any]) -> Block:
        block = Block(start)
        self._blocks.append(block)
        self._open[index] = block
        if block.use:
            name = str(block.use.get("name") or "")
            if not name:
                raise self._garbled()
            block.call = self._sink.tool_start(name, block.use.get("toolUseId"))
            self._called = self._called or block.is_ours
        else:
            self._sink.progress()
        return block

    def _delta(self, index: Any, delta: Any) -> None:
        if not isinstance(delta, dict):
            raise self._garbled()
        # Text and thinking begin without a start.
        block = self._open.get(index) or self._start(index, {})
        use, thinking, results = (
            delta.get(name) for name in ("toolUse", "reasoningContent", "toolResult")
        )
        if isinstance(text := delta.get("text"), str):
            self._sink.text(block.grow(text))
        elif isinstance(thinking, dict):
            self._sink.reasoning(block.think(thinking))
        elif isinstance(use, dict) and block.call is not None:
            if piece := block.grow(str(use.get("input") or "")):
                self._sink.tool_delta(block.call, piece)
            else:
                self._sink.progress()
        else:
            block.results += results if isinstance(results, list) else []
            self._sink.progress()

    def _stop(self, index: Any) -> None:
        block = self._open.pop(index, None)
        held = block.close() if block is not None else ""
        if block is None:
            self._sink.progress()
        elif block.call is not None:
            self._sink.tool_ready(block.call, block.text)
            if not block.is_ours:
                self._served.began(str(block.use.get("toolUseId")), block.call)
        elif block.result:
            id_, failed = str(block.result.get("toolUseId")), block.result.get("status") == "error"
            self._served.ended(id_, block.results, is_error=failed)
        elif block.is_thinking:
            self._sink.reasoning(held)
            self._sink.end_part()
        else:
            self._sink.text(held)

    def _stopped(self, reason: str) -> None:
        if reason in _FAILED:
            said = f"the answer ended with {reason}"
            raise self._failed({"type": _FAILED[reason], "message": said})
        self._reason = reason
        self.complete = True
        self._sink.progress()

    def _take_usage(self, usage: dict[str, Any]) -> None:
        """What was read from the provider's cache, or written to it, is input too, as elsewhere."""
        fresh, read = count(usage.get("inputTokens")), count(usage.get("cacheReadInputTokens"))
        written = count(usage.get("cacheWriteInputTokens")) or 0
        self.usage = Usage(
            input_tokens=None if fresh is None else fresh + (read or 0) + written,
            output_tokens=count(usage.get("outputTokens")),
            cached_tokens=read,
        )
        self._sink.progress()

    # errors

    def _failed(self, error: dict[str, Any]) -> ModelError:
        return from_object(error, who=self._who, secrets=self._secrets)

    def _garbled(self) -> ModelError:
        text = f"{self._who} sent a frame that is no part of an answer."
        return ModelError(text, code="MODEL_PROTOCOL", retryable=True)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
