"""A sink that keeps what a model pushed into it."""

from dataclasses import dataclass, field
from typing import Any

import trio


@dataclass
class Recorder:
    """Implements app.models.Sink. `log` holds every call in order, `parts` what they make.

    `checkpoints` are in `log` too: what a crash at any place finds is the newest one before it.
    """

    log: list[tuple[str, ...]] = field(default_factory=list)
    calls: dict[str, "Call"] = field(default_factory=dict)
    parts: list["Part"] = field(default_factory=list)
    checkpoints: list[bytes] = field(default_factory=list)
    rooms: int = 0

    # what tests ask

    @property
    def text_deltas(self) -> list[str]:
        return [entry[1] for entry in self.log if entry[0] == "text"]

    @property
    def all_text(self) -> str:
        return "".join(self.text_deltas)

    @property
    def all_reasoning(self) -> str:
        return "".join(entry[1] for entry in self.log if entry[0] == "reasoning")

    @property
    def texts(self) -> list[str]:
        """The texts of the text parts, as they are shown."""
        return [part.text for part in self.parts if part.kind == "text"]

    @property
    def kinds(self) -> list[str]:
        """The kinds of calls in order, repeats folded into one."""
        kinds: list[str] = []
        for entry in self.log:
            if not kinds or kinds[-1] != entry[0]:
                kinds.append(entry[0])
        return kinds

    def count(self, kind: str) -> int:
        return sum(1 for entry in self.log if entry[0] == kind)

    def at(self, checkpoint: int) -> "Recorder":
        """The sink that a later life of ours begins with: as at that checkpoint, by its number."""
        places = [place for place, entry in enumerate(self.log) if entry[0] == "checkpoint"]
        before = Recorder()
        for kind, *arguments in self.log[: places[checkpoint]]:
            if kind == "tool_start":
                made = self.calls[arguments[0]]
                assert before.tool_start(made.name, made.provider_id) == made.id
            elif kind == "tool_settled":
                output, is_error = self.calls[arguments[0]].settled or (None, False)
                before.tool_settled(arguments[0], output, is_error=is_error)
            elif kind == "checkpoint":
                before.checkpoint(arguments[0].encode())
            else:
                getattr(before, kind)(*arguments)
        return before

    # Sink

    def text(self, delta: str) -> None:
        self._put("text", delta)
        self._append("text", delta)

    def reasoning(self, delta: str) -> None:
        self._put("reasoning", delta)
        self._append("reasoning", delta)

    def end_part(self) -> None:
        self._put("end_part")
        self._close()

    def final_text(self, text: str) -> None:
        self._put("final_text", text)
        self._append("text", " ")
        self.parts[-1].text = text
        self._close()

    def tool_start(self, name: str, provider_id: str | None = None) -> str:
        call = Call(f"call-{len(self.calls) + 1}", name, provider_id)
        self.calls[call.id] = call
        self._put("tool_start", call.id, name)
        self._close()
        self.parts.append(Part("tool", call.id, open=False))
        return call.id

    def tool_delta(self, call_id: str, fragment: str) -> None:
        call = self.calls[call_id]
        assert call.input_text is None, "a delta after the input was complete"
        call.fragments.append(fragment)
        self._put("tool_delta", call_id, fragment)

    def tool_ready(self, call_id: str, input_text: str) -> None:
        call = self.calls[call_id]
        assert call.input_text is None, "the input was complete already"
        call.input_text = input_text
        self._put("tool_ready", call_id, input_text)

    def tool_settled(self, call_id: str, output: Any, *, is_error: bool = False) -> None:
        call = self.calls[call_id]
        assert call.input_text is not None, "a result before the input was complete"
        assert call.settled is None, "a second result"
        call.settled = (output, is_error)
        self._put("tool_settled", call_id)

    def checkpoint(self, data: bytes) -> None:
        self.checkpoints.append(data)
        self._put("checkpoint", data.decode())

    def progress(self) -> None:
        self._put("progress")

    def alive(self) -> None:
        self._put("alive")

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()
        self.rooms += 1

    def _put(self, *entry: str) -> None:
        self.log.append(entry)

    def _append(self, kind: str, delta: str) -> None:
        if not delta:
            return
        if not self.parts or not self.parts[-1].open or self.parts[-1].kind != kind:
            self._close()
            self.parts.append(Part(kind, ""))
        self.parts[-1].text += delta

    def _close(self) -> None:
        if self.parts:
            self.parts[-1].open = False


@dataclass
class Part:
    """What is shown. `text` of a tool: the id of its call."""

    kind: str
    text: str
    open: bool = True


@dataclass
class Call:
    """A tool call; `input_text` is None until it is complete."""

    id: str
    name: str
    provider_id: str | None
    fragments: list[str] = field(default_factory=list)
    input_text: str | None = None
    # Output and whether it is an error, where the provider ran it.
    settled: tuple[Any, bool] | None = None
