"""The content blocks of one Converse response, put together as they have to go back."""

import json
from base64 import b64decode, b64encode
from typing import Any

from app.models.json_text import Joiner


class Block:
    """One block, open until `close`. `call`: our id of the call it is, if it is one."""

    def __init__(self, start: dict[str, Any]) -> None:
        """`start`: as the wire brings it; empty for text and thinking, which begin without one."""
        self.use: dict[str, Any] = _dict(start.get("toolUse"))
        self.result: dict[str, Any] = _dict(start.get("toolResult"))
        self.call: str | None = None
        self.results: list[Any] = []
        self.is_thinking = False
        self._joiner = Joiner()
        self._pieces: list[str] = []
        self._signature: str | None = None
        self._redacted = b""

    @property
    def is_ours(self) -> bool:
        """A call that is for us to run."""
        return self.use.get("type") is None

    def grow(self, piece: str) -> str:
        """More text, thinking or input. Returns what of it is whole now."""
        whole = self._joiner.feed(piece)
        self._pieces.append(whole)
        return whole

    def think(self, delta: dict[str, Any]) -> str:
        """A piece of the model's thinking, or of what proves it. Returns the text to show."""
        self.is_thinking = True
        if isinstance(signature := delta.get("signature"), str):
            self._signature = (self._signature or "") + signature
        if isinstance(redacted := delta.get("redactedContent"), str):
            self._redacted += b64decode(redacted)
        return self.grow(text) if isinstance(text := delta.get("text"), str) else ""

    def close(self) -> str:
        """No more comes. Returns the text that was held back."""
        held = self._joiner.end()
        self._pieces.append(held)
        return held

    @property
    def text(self) -> str:
        """What was said, thought, or is the input of the call."""
        return "".join(self._pieces)

    @property
    def data(self) -> dict[str, Any]:
        """The block as it goes back."""
        if self.use:
            return {"toolUse": {**self.use, "input": self._input()}}
        if self.result:
            return {"toolResult": {**self.result, "content": self.results}}
        if self._redacted:
            return {"reasoningContent": {"redactedContent": b64encode(self._redacted).decode()}}
        if self.is_thinking:
            signed = {} if self._signature is None else {"signature": self._signature}
            return {"reasoningContent": {"reasoningText": {"text": self.text, **signed}}}
        return {"text": self.text}

    def _input(self) -> Any:
        """An object in any case: the provider refuses everything else when it comes back."""
        if not self.text.strip():
            return {}
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError):
            value = None
        return value if isinstance(value, dict) else {"INVALID_JSON": self.text}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
