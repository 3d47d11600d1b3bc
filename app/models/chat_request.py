"""The body of a Chat Completions request from the model-facing history.

The same entries always give the same bytes, and more entries only add to them at the end (but for
two messages of the person in a row, which become one): what a provider has cached or signed stays
valid.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from app.models.interface import (
    AssistantStep,
    ModelRequest,
    ProviderState,
    ToolCall,
    ToolResult,
    ToolResults,
    UserEntry,
)
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

Message = dict[str, Any]


def body(
    request: ModelRequest, *, provider: str, model: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON body. `options` are merged over it; a value of None removes the member."""
    made: dict[str, Any] = {
        "model": model,
        "messages": messages(request, provider=provider, model=model),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:  # some servers refuse an empty list
        made["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    made.update(options)
    return {key: value for key, value in made.items() if value is not None}


def messages(request: ModelRequest, *, provider: str, model: str) -> list[Message]:
    """The conversation. `provider` and `model` decide whose state is replayed."""
    thread = _Conversation(provider, model)
    if request.instructions:
        thread.messages.append({"role": "system", "content": request.instructions})
    for entry in request.entries:
        if isinstance(entry, ToolResults):
            thread.results(entry.results)
            continue
        thread.settle_calls()
        if isinstance(entry, UserEntry):
            thread.user(entry)
        else:
            thread.assistant(entry)
    thread.settle_calls()
    return thread.messages


class _Conversation:
    def __init__(self, provider: str, model: str) -> None:
        self.messages: list[Message] = []
        self._provider = provider
        self._model = model
        # What the next message of the person has to say first; cleared by it.
        self._notes: list[str] = []
        # Calls of the last step that have no result yet: our id -> the id on the wire.
        self._open: dict[str, str] = {}

    def user(self, entry: UserEntry) -> None:
        content = _content(entry.parts, self._notes)
        self._notes.clear()
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "user":
            # The chat templates of many local models insist on alternating roles.
            last["content"] = _joined(last["content"], content)
        else:
            self.messages.append({"role": "user", "content": content})

    def assistant(self, step: AssistantStep) -> None:
        if step.interrupted:
            self._notes.append(INTERRUPTED if step.text or step.calls else NOTHING_SAID)
        if not step.text and not step.calls:
            return
        message: Message = {"role": "assistant", "content": step.text or None}
        if step.calls:
            self._open = wire_ids(step.calls)
            message["tool_calls"] = [_call(call, self._open[call.id]) for call in step.calls]
        message.update(self._replay(step.state, with_calls=bool(step.calls)))
        self.messages.append(message)

    def _replay(self, state: ProviderState | None, *, with_calls: bool) -> Message:
        data = replayed(state, self._provider, self._model) or {}
        return {
            key: value
            for key, value in data.items()
            # DeepSeek and Kimi demand their plain reasoning back beside tool calls, and older
            # DeepSeek models refuse it anywhere else.
            if key == "reasoning_details" or with_calls
        }

    def results(self, results: Iterable[ToolResult]) -> None:
        for result in results:
            id_ = self._open.pop(result.call.id, None) or result.call.provider_id or result.call.id
            content = output_text(result.output)
            if result.is_error:
                content = f"Error: {content}"
            self.messages.append({"role": "tool", "tool_call_id": id_, "content": content})

    def settle_calls(self) -> None:
        """Providers refuse a conversation in which a call has no result."""
        for id_ in self._open.values():
            self.messages.append({"role": "tool", "tool_call_id": id_, "content": NO_RESULT})
        self._open = {}


def _call(call: ToolCall, id_: str) -> Message:
    # Templates parse the arguments and expect an object.
    text = msgspec.json.encode(call_input(call)).decode()
    return {"id": id_, "type": "function", "function": {"name": call.name, "arguments": text}}


def _content(parts: Iterable[dict[str, Any]], notes: list[str]) -> str | list[Message]:
    """A text, or, where there are images, a list of text and image parts in their order."""
    texts, content = [*notes], list[Message]()
    for part in parts:
        image = image_of(part)
        if image is None:
            texts.append(part_text(part))
            continue
        content += _texts(texts)
        texts = []
        kind, data = image
        url = f"data:{kind};base64,{b64encode(data).decode()}"
        content.append({"type": "image_url", "image_url": {"url": url}})
    return [*content, *_texts(texts)] if content else "\n\n".join(texts)


def _texts(texts: list[str]) -> list[Message]:
    return [{"type": "text", "text": "\n\n".join(texts)}] if texts else []


def _joined(first: str | list[Message], second: str | list[Message]) -> str | list[Message]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [
        part
        for content in (first, second)
        for part in (_texts([content]) if isinstance(content, str) else content)
    ]
