"""Reads a Chat Completions stream of any OpenAI-compatible server (PROTOCOLS.md, B2).

Tolerant by rule: what servers are known to get wrong is understood, what is unknown is passed over,
and only a finish reason makes an answer complete.
"""

from collections.abc import Mapping
from typing import Any

from app.events import FinishReason, Usage
from app.models.chat_reasoning import Reasoning, flat
from app.models.chat_tools import ToolCalls
from app.models.errors import ModelError
from app.models.faults import from_object
from app.models.interface import Sink
from app.models.json_text import decode
from app.models.sse import EVENT_BYTES, Comment, Decoder, Event, Item, Unknown

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
    "safety": "content-filter",
    "refusal": "content-filter",
}
# Reasons that say that the answer is not one, with the word faults.py knows.
_FAILED = {
    "error": "server_error",
    "abort": "server_error",
    "insufficient_system_resource": "overloaded",  # DeepSeek
    "malformed_function_call": "server_error",  # Gemini
}


class ChatReader:
    """Implements http.Reader for one response. `result` tells how it ended."""

    def __init__(self, sink: Sink, *, who: str, secrets: tuple[str, ...] = ()) -> None:
        self.complete = False
        self.done = False
        self._sink = sink
        self._who = who
        self._secrets = secrets
        self._decoder = Decoder()
        # The body of a server that ignored `stream`; None for an event stream.
        self._whole: bytearray | None = None
        # Whether the response had any model event, any line that is no SSE.
        self._spoke = False
        self._strange = False
        self._choice: Any = None
        self._tools = ToolCalls(sink)
        self._reason = ""
        self._usage: Usage | None = None
        self._reasoning = Reasoning()

    # Reader

    def opened(self, headers: Mapping[str, str]) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in ("text/html", "application/xhtml+xml"):
            raise self._not_ours("a web page")
        if kind == "application/json":
            self._whole = bytearray()

    def feed(self, data: bytes) -> bool:
        if self._whole is not None:
            self._whole += data
            if len(self._whole) > EVENT_BYTES:
                raise self._not_ours("more than can be an answer")
            return False
        try:
            events = [self._item(item) for item in self._decoder.feed(data)]
        except ModelError:
            if not self.complete:
                raise
            self.done = True
            return False
        return True in events

    def end(self) -> None:
        """The body has ended. Raises ModelError unless the answer is complete."""
        if self._whole is not None:
            self._chunk(decode(bytes(self._whole), who=self._who))
        elif self._decoder.pending and not self.complete:
            self._last_words()
        if not self.complete:
            if self._strange and not self._spoke:
                raise self._not_ours("something that is no event stream")
            text = f"{self._who} ended the answer before it was complete."
            raise ModelError(text, code="MODEL_EOF", retryable=True)
        self._tools.finish()

    # results

    @property
    def usage(self) -> Usage | None:
        return self._usage

    @property
    def finish_reason(self) -> FinishReason:
        """By what was seen: many servers say "stop" after tool calls."""
        reason = _FINISH.get(self._reason, "other")
        if self._tools:
            return reason if reason in ("length", "content-filter") else "tool-calls"
        return "stop" if reason == "tool-calls" else reason

    @property
    def state(self) -> dict[str, Any] | None:
        """What the provider wants to see again with this answer."""
        return self._reasoning.state

    # frames

    def _item(self, item: Item) -> bool:
        if isinstance(item, Event):
            return self._event(item)
        if isinstance(item, Unknown):
            self._strange = True
            self._unknown(item)
        else:
            assert isinstance(item, Comment)
        return False

    def _event(self, event: Event) -> bool:
        data = event.data.strip()
        if not data:
            return False
        if data == b"[DONE]":
            self.done = True
            return True
        value = decode(data, who=self._who)
        if event.name == "error":
            raise self._failed(value)
        self._chunk(value)
        return True

    def _unknown(self, line: Unknown) -> None:
        """Raises what a line that is no SSE says: llama.cpp's `error: {…}`, plain JSON, HTML."""
        if line.field.lstrip()[:1] == b"<":
            raise self._not_ours("a web page")
        text = line.value if line.field == b"error" else line.field + b":" + line.value
        try:
            value = decode(text, who=self._who)
        except ModelError:
            return
        if line.field == b"error" or (isinstance(value, dict) and value.get("error")):
            raise self._failed(value)

    def _last_words(self) -> None:
        """A last event that only lacks its empty line is taken, a cut one is not."""
        try:
            for item in self._decoder.feed(b"\n\n"):
                self._item(item)
        except ModelError as exc:
            if exc.code != "MODEL_PROTOCOL":
                raise

    # chunks

    def _chunk(self, chunk: Any) -> None:
        if not isinstance(chunk, dict):
            raise self._garbled()
        if chunk.get("error") or chunk.get("object") == "error" or chunk.get("type") == "error":
            raise self._failed(chunk)
        self._spoke = True
        self._take_usage(chunk.get("usage"))
        if isinstance(groq := chunk.get("x_groq"), dict):
            self._take_usage(groq.get("usage"))
        moved = False
        for choice in _list(chunk.get("choices")):
            moved = self._take_choice(choice) or moved
        if not moved:
            self._sink.progress()

    def _take_choice(self, choice: Any) -> bool:
        """Returns whether the sink got content."""
        if not isinstance(choice, dict):
            raise self._garbled()
        if self._choice is None:
            self._choice = choice.get("index", 0)
        if choice.get("index", self._choice) != self._choice:
            return False  # we ask for one; a second one is not ours to mix in
        if choice.get("error"):
            raise self._failed(choice)
        reason = str(choice.get("finish_reason") or "").lower()
        if reason in _FAILED:
            text = f"the answer ended with {reason}"
            raise self._failed({"message": text, "type": _FAILED[reason]})
        delta = choice["delta"] if "delta" in choice else choice.get("message")
        moved = isinstance(delta, dict) and self._take_delta(delta)
        if reason:
            self._reason = reason
            self.complete = True
        return moved

    def _take_delta(self, delta: dict[str, Any]) -> bool:
        moved = self._think(self._reasoning.take(delta))
        for key in ("content", "refusal"):
            moved = self._take_content(delta.get(key)) or moved
        for item in _list(delta.get("tool_calls")):
            if isinstance(item, dict):
                self._tools.piece(item)
                moved = True
        return moved

    def _take_content(self, content: Any) -> bool:
        """Text, or a list of parts (Mistral): text and thinking."""
        if isinstance(content, str):
            if content:
                self._sink.text(content)
            return bool(content)
        moved = False
        for part in _list(content):
            if isinstance(part, str):
                moved = self._take_content(part) or moved
            elif isinstance(part, dict) and part.get("type") == "thinking":
                moved = self._think(flat(part.get("thinking"))) or moved
            elif isinstance(part, dict):
                moved = self._take_content(part.get("text")) or moved
        return moved

    def _think(self, text: str) -> bool:
        if text:
            self._sink.reasoning(text)
        return bool(text)

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        self._usage = Usage(
            input_tokens=_count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
            cached_tokens=_count(
                usage.get("prompt_cache_hit_tokens") if cached is None else cached
            ),
        )

    # errors

    def _failed(self, error: Any) -> ModelError:
        return from_object(error, who=self._who, secrets=self._secrets)

    def _garbled(self) -> ModelError:
        text = f"{self._who} sent a frame that is no part of an answer."
        return ModelError(text, code="MODEL_PROTOCOL", retryable=True)

    def _not_ours(self, what: str) -> ModelError:
        text = f"{self._who} answered with {what}: check base_url."
        return ModelError(text, code="MODEL_PROTOCOL", retryable=False)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
