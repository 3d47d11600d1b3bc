"""Tool calls out of Chat Completions deltas, in all dialects (PROTOCOLS.md, B2).

The standard is: `index` names the call, the first piece has id and name, the others fragments of
the arguments. Servers leave out, repeat or reuse each of these. A new call always names its tool;
that is what the rules below lean on.
"""

import json
from typing import Any

import msgspec

from app.models.errors import ModelError
from app.models.interface import Sink
from app.models.json_text import Joiner


class _Call:
    def __init__(self, provider_id: str) -> None:
        self.provider_id = provider_id
        self.name = ""
        # Our id; "" until the name is known and the sink was told.
        self.id = ""
        self.pieces: list[str] = []
        # How many of the pieces the sink has.
        self.told = 0
        self.joiner = Joiner()

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class ToolCalls:
    """The calls of one response. Tells the sink of each as soon as it is named."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def piece(self, item: dict[str, Any]) -> None:
        """One element of `delta.tool_calls`."""
        function = item.get("function")
        if not isinstance(function, dict):
            function = {}
        id_, name = _string(item.get("id")), _string(function.get("name"))
        arguments = _arguments(function.get("arguments"))
        index = item.get("index")
        call = self._find(index, id_, name)
        if call is None or _begins(call, id_, name, arguments):
            call = _Call(id_)
            self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        # A first non-empty id or name stays. An id that comes after the name is not needed: what
        # the provider gets back with the result is then our own.
        call.provider_id = call.provider_id or id_
        call.name = call.name or name
        if piece := call.joiner.feed(arguments):
            call.pieces.append(piece)
        self._tell(call)

    def finish(self) -> None:
        """The response is complete, and with it every call.

        Raises ModelError if one never got a name.
        """
        for call in self._calls:
            if not call.id:
                text = "The model called a tool without naming it."
                raise ModelError(text, code="MODEL_PROTOCOL", retryable=True)
            if rest := call.joiner.end():
                call.pieces.append(rest)
            self._sink.tool_ready(call.id, call.text)

    def _find(self, index: Any, id_: str, name: str) -> _Call | None:
        """The call this piece may belong to; None if it can only be a new one."""
        if isinstance(index, int):
            return self._by_index.get(index)
        if id_:
            known = [call for call in self._calls if call.provider_id == id_]
            if known or name:
                return known[-1] if known else None
        return self._calls[-1] if self._calls else None

    def _tell(self, call: _Call) -> None:
        if not call.name:
            return
        if not call.id:
            call.id = self._sink.tool_start(call.name, call.provider_id or None)
        if call.told == 0 and len(call.pieces) == 1 and _is_whole(call.text):
            return  # the whole call in one piece needs no deltas
        for piece in call.pieces[call.told :]:
            self._sink.tool_delta(call.id, piece)
        call.told = len(call.pieces)


def _begins(call: _Call, id_: str, name: str, arguments: str) -> bool:
    """Whether a piece at the place of `call` is another call.

    Ollama gives every call the index 0. Old vLLM gave every piece an id of its own, but no name.
    Gateways repeat the name in every piece.
    """
    if not name or not call.name:
        return False
    if id_ and call.provider_id:
        return id_ != call.provider_id
    return name != call.name or (bool(arguments.strip()) and _is_whole(call.text))


def _is_whole(text: str) -> bool:
    """Whether `text` is an object that nothing can be added to."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: Any) -> str:
    """Fragments come as text; some gateways send the object itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
