"""An answer on a terminal, while it is being written, or whole at its end."""

from collections.abc import Callable

from app import events as ev
from app.message import Fold, text_of

Write = Callable[[str], None]


class Whole:
    """The text at the end: for files and pipes, which cannot take anything back."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._fold = Fold()

    def tell(self, event: ev.AnyEvent) -> None:
        self._fold.apply(event)

    def end(self) -> None:
        """What was said, in the end, without what was withdrawn."""
        self._write(f"{text_of(self._fold.parts())}\n")


class Live:
    """The text as it comes. What is withdrawn stays on the screen; a note says so.

    Args:
        write: for the answer.
        note: for a line about it.
    """

    def __init__(self, write: Write, note: Write) -> None:
        self._write = write
        self._note = note
        self._shown: dict[str, int] = {}  # characters of each text part that are on the screen
        self._step: list[str] = []  # text parts of the step that can still be withdrawn
        self._line_open = False  # set by text without a newline at its end, cleared by one

    def tell(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.TextStart):
            self._begin(event.id)
        elif isinstance(event, ev.TextDelta):
            self._say(event.id, event.delta)
        elif isinstance(event, ev.StartStep | ev.FinishStep):
            self._step.clear()
        elif isinstance(event, ev.ResetStep):
            self._withdraw(self._step)
        elif isinstance(event, ev.Snapshot):
            self._replace(event)
        elif isinstance(event, ev.ToolDispatched):
            self._remark("a tool runs")
        elif isinstance(event, ev.Status) and event.state != "connecting":
            self._remark(event.text)

    def end(self) -> None:
        self._end_line()

    def _begin(self, part: str) -> None:
        if self._shown:
            self._end_line()
            self._write("\n")
        self._shown[part] = 0
        self._step.append(part)

    def _say(self, part: str, text: str) -> None:
        if text and part in self._shown:
            self._write(text)
            self._shown[part] += len(text)
            self._line_open = not text.endswith("\n")

    def _withdraw(self, parts: list[str]) -> None:
        if any(self._shown.pop(part, 0) for part in parts):
            self._remark("the last part is withdrawn: the model is asked again")
        self._step.clear()

    def _replace(self, event: ev.Snapshot) -> None:
        """Go on from a snapshot: by the parts' ids and lengths, never by their texts (M1)."""
        texts = {part["id"]: part["text"] for part in event.parts if part["type"] == "text"}
        self._withdraw([part for part in self._shown if part not in texts])
        for part, text in texts.items():
            if part not in self._shown:
                self._begin(part)
            self._say(part, text[self._shown[part] :])
        types = [part["type"] for part in event.parts]
        begun = len(types) - types[::-1].index("step-start") if "step-start" in types else 0
        self._step = [part["id"] for part in event.parts[begun:] if part["type"] == "text"]

    def _remark(self, text: str) -> None:
        self._end_line()
        self._note(f"[{text}]\n")

    def _end_line(self) -> None:
        if self._line_open:
            self._write("\n")
            self._line_open = False
