"""Follows what the agents of a LangGraph server say, by identity (REQUIREMENTS.md, M1, M2, M5).

`messages` is a piece of a message, and is appended; a whole message, where those before it said
that they were pieces, is its canonical form. `messages/partial` is a snapshot of one message, of no
use where there are pieces. `messages/complete` is a canonical message, and closes its id: what
comes later for it is dropped. `values` is the agent's state with all messages of the thread:
canonical for those whose pieces have ended, a snapshot that may lag for the others; the last one is
canonical for all of them.

Agents that work side by side speak at the same time, and a sink has one open part: so one message
has the stage, and the others wait for it, in the order in which they began, until its pieces have
ended or the state has it.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from app.events import FinishReason, Usage
from app.models import langgraph_messages as messages
from app.models.interface import Sink
from app.models.langgraph_messages import Message
from app.models.langgraph_speech import Call, Grown, Kind, Speech


class SavedCall(msgspec.Struct, frozen=True, array_like=True):
    id: str
    provider_id: str
    name: str
    index: Any
    shown: int
    ready: bool


class SavedSpeech(msgspec.Struct, frozen=True, array_like=True):
    key: str
    text: tuple[int, int]
    thought: tuple[int, int]
    open: Kind
    parts: int
    flags: int
    calls: list[SavedCall]


class SavedMerge(msgspec.Struct, frozen=True, array_like=True):
    """A merge in a checkpoint. `closed`: keys of what is over; `stage`: the key of who has it."""

    closed: str
    stage: str
    speeches: list[SavedSpeech]


_FLAGS = ("deltas", "declared", "ended", "stated", "holed")
_KEY_LENGTH = 8


class Merge:
    """One run. `after`: the id of the message after which its own begin; None: all are its own."""

    def __init__(self, sink: Sink, after: str | None) -> None:
        self._sink = sink
        self._after = after
        self._speeches: dict[str, Speech] = {}
        self._closed: set[str] = set()
        self._stage: Speech | None = None
        # What those without the stage have to do, in the order in which they began, and the ids
        # that this closes.
        self._waiting: dict[str, list[tuple[Callable[[], None], str]]] = {}
        # Results of calls that somebody who waits may have made, by their ids.
        self._results: dict[str, Message] = {}
        self._usage: dict[str, Usage] = {}
        self._finish: FinishReason = "stop"

    # events

    def piece(self, value: Any, metadata: Any = None) -> None:
        """`messages`: a message and what is known of where it was said."""
        message = messages.unpacked(value)
        if message is None:
            return
        if messages.is_result(message):
            self._result(message)
        elif messages.is_answer(message):
            key = _key(message, metadata)
            if key in self._closed:
                return
            speech = self._speech(key)
            if speech.holed:
                return
            if speech.declared and not messages.is_piece(message):
                self._close(speech, message)
                return
            self._note(key, message, add=speech.deltas)
            speech.deltas = True
            speech.declared = speech.declared or messages.is_piece(message)
            self._do(speech, lambda: speech.add(message))
            speech.ended = speech.ended or messages.is_last_piece(message)
        self._advance()

    def snapshot(self, value: Any) -> None:
        """`messages/partial`: snapshots of messages."""
        for message in _unpacked(value):
            key = _key(message)
            if key in self._closed or not messages.is_answer(message):
                continue
            speech = self._speech(key)
            if not speech.deltas and not speech.holed:
                self._note(key, message)
                self._grow(speech, message)

    def complete(self, value: Any) -> None:
        """`messages/complete`: canonical messages; JavaScript repeats the thread's old ones."""
        for message in self._own(_unpacked(value), alone=True):
            self._settle(message)

    def state(self, values: Any) -> None:
        """`values`: the state after a step of the agent."""
        for message in self._stated(values):
            key = _key(message)
            if messages.is_result(message):
                self._result(message)
            elif messages.is_answer(message) and key not in self._closed:
                speech = self._speech(key)
                speech.stated = True
                if speech.ended:
                    self._close(speech, message)
                else:
                    self._take_state(speech, message)
        self._advance()

    def end(self, values: Any) -> None:
        """The run is over, with that state, which is canonical; None: it is not known."""
        for speech in self._speeches.values():
            speech.ended = True
        self._advance()
        for message in self._stated(values):
            self._settle(message)
        for speech in self._speeches.values():
            speech.finish()

    # what came of it

    @property
    def usage(self) -> Usage | None:
        total: Usage | None = None
        for usage in self._usage.values():
            total = usage if total is None else total + usage
        return total

    @property
    def finish_reason(self) -> FinishReason:
        return self._finish

    @property
    def running(self) -> str | None:
        """The name of a tool that was called and has no result."""
        calls = (call for speech in self._speeches.values() for call in speech.calls)
        return next((call.name for call in calls if call.ready and not call.settled), None)

    # another life of ours

    def save(self) -> SavedMerge:
        waiting = {closes for actions in self._waiting.values() for _, closes in actions}
        return SavedMerge(
            "".join(sorted(self._closed - waiting)),
            self._stage.key if self._stage else "",
            [
                _saved(speech, waits)
                for speech in self._speeches.values()
                if (waits := speech.key in self._waiting) or _is_open(speech)
            ],
        )

    def restore(self, saved: SavedMerge) -> None:
        keys = saved.closed
        self._closed = {keys[i : i + _KEY_LENGTH] for i in range(0, len(keys), _KEY_LENGTH)}
        for one in saved.speeches:
            self._speeches[one.key] = _restored(one, self._sink)
            self._speeches[one.key].closed = one.key in self._closed
        self._stage = self._speeches.get(saved.stage)

    def replayed(self) -> None:
        """The server tells the run from its beginning once more: what was shown is not new."""
        self._closed -= {closes for actions in self._waiting.values() for _, closes in actions}
        self._waiting.clear()
        self._results.clear()
        self._usage = {key: usage for key, usage in self._usage.items() if key in self._closed}
        for speech in self._speeches.values():
            speech.closed = speech.key in self._closed
            speech.ended = speech.stated = speech.holed = False
            speech.text.at = speech.thought.at = 0
            for call in speech.calls:
                call.input.at = 0

    # by kind

    def _take_state(self, speech: Speech, message: Message) -> None:
        if speech.holed or not speech.deltas:
            self._grow(speech, message)
        self._do(speech, lambda: speech.take_calls(message))

    def _grow(self, speech: Speech, message: Message) -> None:
        self._do(speech, lambda: speech.grow_to(message))

    def _settle(self, message: Message) -> None:
        """A canonical message."""
        if messages.is_result(message):
            self._result(message)
        elif messages.is_answer(message) and _key(message) not in self._closed:
            self._close(self._speech(_key(message)), message)

    def _close(self, speech: Speech, message: Message) -> None:
        self._note(speech.key, message)
        self._closed.add(speech.key)
        speech.closed = True
        self._do(speech, lambda: speech.close(message), speech.key)

    def _result(self, message: Message) -> None:
        key = _key(message)
        if key in self._closed:
            return
        id_ = str(message.get("tool_call_id") or "")
        speech, call = self._called(id_)
        if speech is None or call is None:
            if self._waiting:
                self._results[key] = message
                return
            # Called by a message that was not for us to see, in an agent within the agent.
            speech, call = self._speech(key), Call(id_, str(message.get("name") or "tool"))
            speech.calls.append(call)
            speech.closed = True
        self._closed.add(key)
        self._results.pop(key, None)
        output, is_error = messages.result_of(message)
        if call.ready:
            speech.settle(call, output, is_error=is_error)
        else:
            self._do(speech, partial(speech.settle, call, output, is_error=is_error), key)

    def _called(self, id_: str) -> tuple[Speech | None, Call | None]:
        """Who called the tool with that id last."""
        for speech in reversed(self._speeches.values()):
            if found := speech.find(id_):
                return speech, found
        return None, None

    def _note(self, key: str, message: Message, *, add: bool = False) -> None:
        if usage := messages.usage_of(message):
            before = self._usage.get(key)
            self._usage[key] = before + usage if add and before else usage
        self._finish = messages.finish_of(message) or self._finish

    # the stage

    def _do(self, speech: Speech, action: Callable[[], None], closes: str = "") -> None:
        if self._stage is speech:
            action()
        else:
            self._waiting.setdefault(speech.key, []).append((action, closes))
        self._advance()

    def _advance(self) -> None:
        """Give the stage to who waits for it, as long as who has it may leave."""
        while self._waiting and (self._stage is None or self._stage.may_leave):
            if self._stage:
                self._stage.leave()
            key = next(iter(self._waiting))
            self._stage = self._speeches[key]
            for action, _ in self._waiting.pop(key):
                action()
            for result in list(self._results.values()):
                self._result(result)

    # which messages are meant

    def _speech(self, key: str) -> Speech:
        if key not in self._speeches:
            self._speeches[key] = Speech(key, self._sink)
        return self._speeches[key]

    def _stated(self, values: Any) -> list[Message]:
        return self._own(_unpacked(values.get("messages") if isinstance(values, dict) else None))

    def _own(self, found: list[Message], *, alone: bool = False) -> list[Message]:
        """Those of this run. `alone`: not the whole thread, if ours do not begin in it."""
        ids = [message.get("id") for message in found]
        if self._after in ids:
            return found[ids.index(self._after) + 1 :]
        if self._after is None or alone:
            return found
        # The agent has cut its history.
        return [message for message in found if _key(message) in self._speeches]


def _unpacked(value: Any) -> list[Message]:
    found = map(messages.unpacked, value if isinstance(value, list) else ())
    return [message for message in found if message is not None]


def _key(message: Message, metadata: Any = None) -> str:
    """What stands for a message's id: as long for every id, since checkpoints are full of them."""
    id_ = message.get("id")
    if not id_ and isinstance(metadata, dict):
        id_ = metadata.get("langgraph_checkpoint_ns")
    if not id_:
        id_ = message.get("tool_call_id")
    digest = blake2b(str(id_).encode("utf-8", "replace"), digest_size=6).digest()
    return urlsafe_b64encode(digest).decode()


def _is_open(speech: Speech) -> bool:
    return not speech.closed or any(not call.settled for call in speech.calls)


def _saved(speech: Speech, waits: bool) -> SavedSpeech:
    flags = {name: getattr(speech, name) for name in _FLAGS}
    # What waits is not shown, and nobody will say it again but the state.
    flags["holed"] = flags["holed"] or waits
    return SavedSpeech(
        speech.key,
        (speech.text.at, speech.text.shown),
        (speech.thought.at, speech.thought.shown),
        speech.open,
        speech.parts,
        sum(1 << bit for bit, name in enumerate(_FLAGS) if flags[name]),
        [
            SavedCall(c.id, c.provider_id, c.name, c.index, c.input.shown, c.ready)
            for c in speech.calls
            if c.id and not c.settled
        ],
    )


def _restored(saved: SavedSpeech, sink: Sink) -> Speech:
    speech = Speech(saved.key, sink)
    for bit, name in enumerate(_FLAGS):
        setattr(speech, name, bool(saved.flags >> bit & 1))
    speech.text, speech.thought = Grown(*saved.text, None), Grown(*saved.thought, None)
    speech.open, speech.parts = saved.open, saved.parts
    for one in saved.calls:
        grown = Grown(one.shown, one.shown, None)
        speech.calls.append(Call(one.provider_id, one.name, one.index, one.id, grown, one.ready))
    return speech
