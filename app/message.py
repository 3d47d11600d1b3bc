"""The reducer: events -> the parts of an answer.

Merges by the declared kind of an event and by identity, never by comparing texts (M1), so any
delta is appended, also one that repeats or prefixes what is there. `web/client/src/fold.js` is the
same reducer for the browser; `tests/vectors/fold.json` binds both.
"""

import copy
from typing import Any

from app import events as ev

Part = dict[str, Any]


class _Text:
    """A text being built: deltas are kept as pieces and joined when somebody looks."""

    __slots__ = ("part", "pieces")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.pieces: list[str] = []

    def settle(self, key: str) -> None:
        if self.pieces:
            self.part[key] += "".join(self.pieces)
            self.pieces.clear()


class Fold:
    """State of one answer after the events applied so far."""

    def __init__(self, parts: list[Part] | None = None) -> None:
        self._parts: list[Part] = []
        # Open text, reasoning and tool-input parts by id: only these still take deltas.
        self._open: dict[str, _Text] = {}
        self._ids: dict[str, Part] = {}
        self.status: ev.Status | None = None
        self.outcome: ev.Outcome | None = None
        self.usage: ev.Usage | None = None
        if parts:
            self._load(parts)

    def parts(self) -> list[Part]:
        """The parts as plain JSON values; a copy the caller may keep."""
        self._settle()
        return copy.deepcopy(self._parts)

    def copy(self) -> "Fold":
        """An independent fold in the same state, also in which ids are closed or were taken."""
        self._settle()
        return copy.deepcopy(self)

    def open_events(self) -> list[ev.Event]:
        """The end events of what is still open, in order: what a terminal must say first."""
        ends: list[ev.Event] = []
        for id_, text in self._open.items():
            kind = text.part["type"]
            if kind == "text":
                ends.append(ev.TextEnd(id_))
            elif kind == "reasoning":
                ends.append(ev.ReasoningEnd(id_))
        return ends

    def apply(self, event: ev.Event) -> None:
        """Apply one event. Unknown identities are dropped, never an error: the log is the truth."""
        if event.content:
            self.status = None
        if isinstance(event, ev.TextDelta | ev.ReasoningDelta):
            if text := self._open.get(event.id):
                text.pieces.append(event.delta)
        elif isinstance(event, ev.TextStart):
            self._start(
                event.id, {"type": "text", "id": event.id, "text": "", "state": "streaming"}
            )
        elif isinstance(event, ev.ReasoningStart):
            part = {"type": "reasoning", "id": event.id, "text": "", "state": "streaming"}
            self._start(event.id, part)
        elif isinstance(event, ev.TextEnd):
            if event.text is not None and event.id in self._open:
                self._ids[event.id]["text"] = event.text
                self._open[event.id].pieces.clear()
            self._close(event.id)
        elif isinstance(event, ev.ReasoningEnd):
            self._close(event.id)
        elif isinstance(event, ev.StartStep):
            self._parts.append({"type": "step-start"})
        elif isinstance(event, ev.FinishStep):
            self._close_all()
            if event.usage:
                self.usage = event.usage if self.usage is None else self.usage + event.usage
        elif isinstance(event, ev.ResetStep):
            self._reset()
        elif isinstance(event, ev.Status):
            self.status = event
        elif isinstance(event, ev.Snapshot):
            self._load(copy.deepcopy(event.parts))
        elif isinstance(event, ev.Outcome):
            self._close_all()
            self.status, self.outcome = None, event
        else:
            self._apply_tool(event)

    # tools

    def _apply_tool(self, event: ev.Event) -> None:
        if isinstance(event, ev.ToolInputStart):
            self._start(event.tool_call_id, _tool(event.tool_call_id, event.tool_name))
        elif isinstance(event, ev.ToolInputDelta):
            if text := self._open.get(event.tool_call_id):
                text.pieces.append(event.input_text_delta)
        elif isinstance(event, ev.ToolInputAvailable | ev.ToolInputError):
            self._tool_input(event)
        elif isinstance(event, ev.ToolDispatched):
            self._tool_state(event.tool_call_id, state="running", startedAt=event.at)
        elif isinstance(event, ev.ToolOutputAvailable):
            self._tool_state(
                event.tool_call_id, state="output-available", output=event.output, endedAt=event.at
            )
        elif isinstance(event, ev.ToolOutputError):
            changes = {"state": "output-error", "errorText": event.error_text, "endedAt": event.at}
            unknown = {"unknown": True} if event.unknown else {}
            self._tool_state(event.tool_call_id, **changes, **unknown)

    def _tool_input(self, event: ev.ToolInputAvailable | ev.ToolInputError) -> None:
        id_ = event.tool_call_id
        self._start(id_, _tool(id_, event.tool_name))  # dropped where it exists
        if id_ not in self._open:
            return
        self._close(id_)
        part = self._ids[id_]
        if isinstance(event, ev.ToolInputAvailable):
            part.update(state="input-available", input=event.input)
        else:
            part.update(state="input-error", inputText=event.input_text, errorText=event.error_text)

    def _tool_state(self, id_: str, **changes: Any) -> None:
        part = self._ids.get(id_)
        if part is not None and part["type"] == "tool" and id_ not in self._open:
            part.update(changes)

    # parts

    def _start(self, id_: str, part: Part) -> None:
        if id_ in self._ids:
            return
        self._parts.append(part)
        self._ids[id_] = part
        self._open[id_] = _Text(part)

    def _close(self, id_: str) -> None:
        text = self._open.pop(id_, None)
        if text is None:
            return
        text.settle(_text_key(text.part))
        if text.part["type"] != "tool":
            text.part["state"] = "done"

    def _close_all(self) -> None:
        for id_ in list(self._open):
            self._close(id_)

    def _reset(self) -> None:
        keep = len(self._parts)
        while keep and self._parts[keep - 1]["type"] != "step-start":
            keep -= 1
        for part in self._parts[keep:]:
            self._open.pop(_part_id(part), None)  # the id stays taken: late deltas are dropped
        del self._parts[keep:]

    def _settle(self) -> None:
        for text in self._open.values():
            text.settle(_text_key(text.part))

    def _load(self, parts: list[Part]) -> None:
        self._parts, self._open = parts, {}
        for part in parts:
            id_ = _part_id(part)
            if id_:
                self._ids[id_] = part
                if part["state"] in ("streaming", "input-streaming"):
                    self._open[id_] = _Text(part)


def _tool(id_: str, name: str) -> Part:
    return {
        "type": "tool",
        "toolCallId": id_,
        "toolName": name,
        "state": "input-streaming",
        "inputText": "",
    }


def _text_key(part: Part) -> str:
    return "inputText" if part["type"] == "tool" else "text"


def _part_id(part: Part) -> str:
    return str(part.get("id") or part.get("toolCallId") or "")


def text_of(parts: list[Part]) -> str:
    """What was said, without thinking, tools and files."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")
