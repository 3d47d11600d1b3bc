"""What a LangGraph server is asked: where its run begins, and with which messages. Pure.

The server keeps the conversation, as checkpoints in a thread of its own. Each answer remembers the
checkpoint it ended with, and the next run begins there, with what the person said since: so another
answer to the same question, a rewritten question and a branch never see what was said on the way
that was left. Where no answer of this agent is to be built on (the first one, another model before,
a server that has forgotten), a new thread gets the whole conversation.

All requests for one answer name its turn. A run of that turn that is found under way, or failed, is
gone on with from its last step: what the agent has done is not done again.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from app.models.interface import (
    AssistantStep,
    Entry,
    ModelRequest,
    ToolCall,
    ToolResults,
    UserEntry,
)
from app.models.langgraph_messages import Message
from app.models.langgraph_state import TURN
from app.models.transcript import (
    INTERRUPTED,
    NO_RESULT,
    NOTHING_SAID,
    call_input,
    image_of,
    output_text,
    part_text,
    replayed,
    wire_ids,
)

# Names our threads and messages at the server: the same ones each time we come.
_OURS = UUID("6f6c1d5c-3f0e-5b8e-9d52-0d5a3f1f3c11")
THREAD = "unbroken_thread"  # in the metadata of threads


class Base(NamedTuple):
    """The newest answer of this agent, and what came after it.

    `last`: the id of the last message it ended with. `asks`: it ended with a question of the agent.
    """

    thread: str
    checkpoint: str
    last: str | None
    asks: bool
    entries: list[Entry]


class Input(NamedTuple):
    """What is sent.

    `after`: the id of the message behind which the answer begins; None: all is answer. `sent`: the
    id of the last message that is sent; None: none is.
    """

    members: dict[str, Any]
    after: str | None
    sent: str | None


def base_of(request: ModelRequest, provider: str, model: str) -> Base | None:
    """What to build on; None: nothing."""
    for index in reversed(range(len(request.entries))):
        entry = request.entries[index]
        if not isinstance(entry, AssistantStep):
            continue
        data = replayed(entry.state, provider, model)
        if isinstance(data, dict):
            last, asks = data.get("last"), bool(data.get("asks"))
            rest = request.entries[index + 1 :]
            return Base(str(data["thread"]), str(data["checkpoint"]), last, asks, rest)
    return None


def thread_id(request: ModelRequest, turn: str) -> str:
    """The thread for an answer that builds on nothing."""
    return str(uuid5(_OURS, f"{request.thread}/{turn}"))


def whole(request: ModelRequest, turn: str) -> Input:
    """The whole conversation, for a new thread."""
    found = conversation(request.entries, turn)
    if request.instructions:
        system = {"type": "system", "content": request.instructions}
        found.insert(0, {**system, "id": _message_id(turn, "instructions")})
    return _input(found)


def continued(base: Base, turn: str) -> Input:
    """What came after the answer to build on: an answer, if the agent had asked something."""
    if base.asks and all(isinstance(entry, UserEntry) for entry in base.entries):
        said = [entry.text for entry in base.entries if isinstance(entry, UserEntry)]
        return Input({"command": {"resume": "\n\n".join(said)}}, base.last, None)
    return _input(conversation(base.entries, turn))


def _input(found: list[Message]) -> Input:
    last = found[-1]["id"] if found else None
    return Input({"input": {"messages": found}}, last, last)


def body(
    model: str, turn: str, members: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The request for a run. `options` may add to it, but not change how it is followed."""
    metadata = options.get("metadata")
    return {
        **options,
        "assistant_id": model,
        "stream_mode": ["messages-tuple", "values"],
        # The run goes on without us, and keeps what it said for whoever comes back.
        "stream_resumable": True,
        "on_disconnect": "continue",
        # One of ours that was not ended by its cancel: nothing else runs in our threads.
        "multitask_strategy": "interrupt",
        "metadata": {**(metadata if isinstance(metadata, dict) else {}), TURN: turn},
        **members,
    }


def conversation(entries: Iterable[Entry], turn: str) -> list[Message]:
    """Entries as messages, with ids of our own: a message that comes again is the same one."""
    thread = _Conversation(turn)
    for entry in entries:
        if isinstance(entry, UserEntry):
            thread.user(entry)
        elif isinstance(entry, AssistantStep):
            thread.assistant(entry)
        else:
            thread.results(entry)
    thread.settle_calls()
    return thread.messages


class _Conversation:
    def __init__(self, turn: str) -> None:
        self.messages: list[Message] = []
        self._turn = turn
        # What the next message of the person has to say first; cleared by it.
        self._notes: list[str] = []
        # Calls of the last step that have no result yet: our id -> the call and its id there.
        self._open: dict[str, tuple[ToolCall, str]] = {}

    def user(self, entry: UserEntry) -> None:
        self.settle_calls()
        self._add({"type": "human", "content": _content(entry.parts, self._notes)})
        self._notes.clear()

    def assistant(self, step: AssistantStep) -> None:
        self.settle_calls()
        if step.interrupted:
            self._notes.append(INTERRUPTED if step.text or step.calls else NOTHING_SAID)
        if not step.text and not step.calls:
            return
        ids = wire_ids(step.calls)
        self._open = {call.id: (call, ids[call.id]) for call in step.calls}
        calls = [
            {"type": "tool_call", "id": ids[call.id], "name": call.name, "args": call_input(call)}
            for call in step.calls
        ]
        self._add({"type": "ai", "content": step.text, "tool_calls": calls})

    def results(self, entry: ToolResults) -> None:
        for result in entry.results:
            if made := self._open.pop(result.call.id, None):
                self._result(*made, output_text(result.output), is_error=result.is_error)

    def settle_calls(self) -> None:
        """Providers refuse a conversation in which a call has no result."""
        for call, id_ in self._open.values():
            self._result(call, id_, NO_RESULT, is_error=True)
        self._open = {}

    def _result(self, call: ToolCall, id_: str, content: str, *, is_error: bool) -> None:
        status = "error" if is_error else "success"
        made = {"type": "tool", "tool_call_id": id_, "name": call.name, "content": content}
        self._add({**made, "status": status})

    def _add(self, message: Message) -> None:
        self.messages.append({**message, "id": _message_id(self._turn, len(self.messages))})


def _message_id(turn: str, place: int | str) -> str:
    return str(uuid5(_OURS, f"{turn}/{place}"))


def _content(parts: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str | list[Message]:
    """A text, or, where there are images, a list of text and image blocks in their order."""
    texts, content = [*notes], list[Message]()
    for part in parts:
        image = image_of(part)
        if image is None:
            texts.append(part_text(part))
            continue
        kind, data = image
        url = f"data:{kind};base64,{b64encode(data).decode()}"
        content += [*_texts(texts), {"type": "image_url", "image_url": {"url": url}}]
        texts = []
    return [*content, *_texts(texts)] if content else "\n\n".join(texts)


def _texts(texts: Sequence[str]) -> list[Message]:
    return [{"type": "text", "text": "\n\n".join(texts)}] if texts else []
