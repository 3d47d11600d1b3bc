"""Reads a Chat Completions stream of any OpenAI-compatible server (PROTOCOLS.md, B2).

Tolerant by rule: what servers are known to get wrong is understood, what is unknown is passed over,
and only a finish reason makes an answer complete.
"""

from typing import Any

from app.events import FinishReason, Usage
from app.models.chat_reasoning import Reasoning, flat
from app.models.chat_tools import ToolCalls
from app.models.event_reader import EventReader, count
from app.models.interface import Sink

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


class ChatReader(EventReader):
    """One response. Its results are there when `end` has returned."""

    def __init__(self, sink: Sink, *, who: str, secrets: tuple[str, ...] = ()) -> None:
        super().__init__(sink, who=who, secrets=secrets)
        self._choice: Any = None
        self._tools = ToolCalls(sink)
        self._reason = ""
        self._usage: Usage | None = None
        self._reasoning = Reasoning()

    def end(self) -> None:
        """The body has ended. Raises ModelError unless the answer is complete."""
        super().end()
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

    # chunks

    def take(self, name: str, chunk: Any) -> bool:
        if not isinstance(chunk, dict):
            raise self.garbled()
        if chunk.get("error") or chunk.get("object") == "error" or chunk.get("type") == "error":
            raise self.failed(chunk)
        self.spoke = True
        self._take_usage(chunk.get("usage"))
        if isinstance(groq := chunk.get("x_groq"), dict):
            self._take_usage(groq.get("usage"))
        moved = False
        for choice in _list(chunk.get("choices")):
            moved = self._take_choice(choice) or moved
        if not moved:
            self.sink.progress()
        return True

    def _take_choice(self, choice: Any) -> bool:
        """Returns whether the sink got content."""
        if not isinstance(choice, dict):
            raise self.garbled()
        if self._choice is None:
            self._choice = choice.get("index", 0)
        if choice.get("index", self._choice) != self._choice:
            return False  # we ask for one; a second one is not ours to mix in
        if choice.get("error"):
            raise self.failed(choice)
        reason = str(choice.get("finish_reason") or "").lower()
        if reason in _FAILED:
            text = f"the answer ended with {reason}"
            raise self.failed({"message": text, "type": _FAILED[reason]})
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
                self.sink.text(content)
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
            self.sink.reasoning(text)
        return bool(text)

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        self._usage = Usage(
            input_tokens=count(usage.get("prompt_tokens")),
            output_tokens=count(usage.get("completion_tokens")),
            cached_tokens=count(usage.get("prompt_cache_hit_tokens") if cached is None else cached),
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
