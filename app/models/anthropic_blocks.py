"""The content blocks of one Messages response, put together exactly as they have to go back.

Signatures cover what stands in a block, and the order of blocks: nothing is left out, sorted or
understood away here, and what is unknown grows by the rule that all known blocks follow.
"""

import json
from typing import Any

import msgspec

from app.models.json_text import Joiner


class Block:
    """One block, open until `close`. `call`: our id of the call it is, if it is one."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.data = dict(start)
        self.kind = str(start.get("type"))
        self.call: str | None = None
        # Members that grow by deltas: name -> pieces. `_JSON` is the input of a call.
        self._pieces: dict[str, list[str]] = {}
        self._joiners: dict[str, Joiner] = {}

    @property
    def is_call(self) -> bool:
        """Of a tool: ours, or one that the provider runs itself."""
        return self.kind.endswith("tool_use")

    @property
    def is_ours(self) -> bool:
        return self.kind == "tool_use"

    def grow(self, delta: dict[str, Any]) -> str:
        """Take a delta. Returns the text in it that is whole now."""
        kind = delta.get("type")
        if kind == "citations_delta":
            self.data["citations"] = [*(self.data.get("citations") or []), delta.get("citation")]
            return ""
        if kind == "signature_delta":
            self.data["signature"] = delta.get("signature")
            return ""
        grown = ""
        for name, value in delta.items():
            if name == "type":
                continue
            if isinstance(value, str):
                grown = self._more(name, value)
            else:
                self.data[name] = value
        return grown

    def close(self) -> str:
        """No more comes. Returns the text that was held back; then `data` is what goes back."""
        held = ""
        for name, pieces in self._pieces.items():
            held = self._joiners[name].end()
            text = "".join(pieces) + held
            if name != _JSON:
                self.data[name] = str(self.data.get(name) or "") + text
        if self.is_call:
            self.data["input"] = self._input()
        return held

    @property
    def input_text(self) -> str:
        """The call's input as JSON text; "" means {}."""
        if _JSON in self._pieces:
            return "".join(self._pieces[_JSON])
        given = self.data.get("input")
        return msgspec.json.encode(given).decode() if given else ""

    def _more(self, name: str, value: str) -> str:
        joiner = self._joiners.setdefault(name, Joiner())
        piece = joiner.feed(value)
        self._pieces.setdefault(name, []).append(piece)
        return piece

    def _input(self) -> Any:
        """An object in any case: the provider refuses everything else when it comes back."""
        text = self.input_text
        if not text.strip():
            return {}
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        return value if isinstance(value, dict) else {"INVALID_JSON": text}


_JSON = "partial_json"
