"""The model's thinking out of Chat Completions deltas, and what of it has to go back.

Servers give it as `reasoning_content` (DeepSeek, llama.cpp), `reasoning` (vLLM, Ollama) or
`reasoning_details` (OpenRouter), some of them under two names at once.
"""

from typing import Any

# Which member of a detail is text that grows from piece to piece.
_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}


class Reasoning:
    """The thinking of one response."""

    def __init__(self) -> None:
        self._key = ""
        self._texts: list[str] = []
        self._details: list[dict[str, Any]] = []

    def take(self, delta: dict[str, Any]) -> str:
        """The text to show of this delta: once, however often it is in it."""
        found = delta.get("reasoning_details")
        details = [d for d in found if isinstance(d, dict)] if isinstance(found, list) else []
        for detail in details:
            self._keep(detail)
        for key in ("reasoning_content", "reasoning"):
            if isinstance(text := delta.get(key), str) and text:
                self._key = self._key or key
                self._texts.append(text)
                return text
        return "".join(flat(detail.get(_growing(detail))) for detail in details)

    @property
    def state(self) -> dict[str, Any] | None:
        """What the provider wants to see again; None if there was no thinking."""
        if self._details:
            return {"reasoning_details": self._details}
        return {self._key: "".join(self._texts)} if self._texts else None

    def _keep(self, detail: dict[str, Any]) -> None:
        """OpenRouter streams a detail in pieces; it wants back what they make together."""
        last = self._details[-1] if self._details else None
        key = _growing(detail)
        same = last is not None and all(
            last.get(name) == detail.get(name) for name in ("type", "index")
        )
        if not key or last is None or not same:
            self._details.append(dict(detail))
            return
        text = flat(last.get(key)) + flat(detail.get(key))
        last.update({name: value for name, value in detail.items() if value is not None})
        last[key] = text


def _growing(detail: dict[str, Any]) -> str:
    kind = detail.get("type")
    return _GROWING.get(kind, "") if isinstance(kind, str) else ""


def flat(value: Any) -> str:
    """The text of a string, or of a list of strings and text parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "".join(flat(part.get("text") if isinstance(part, dict) else part) for part in value)
