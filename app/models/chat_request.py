"""The body of a Chat Completions request from the model-facing history.

The same entries always give the same bytes, and more entries only add to them at the end (but for
two messages of the person in a row, which become one): what a provider has cached or signed stays
valid.
"""

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

Message = dict[str, Any]

# Told in the next message of the person: in the answer itself, models would imitate it.
INTERRUPTED = "[Your previous answer was interrupted before it was complete.]"
NOTHING_SAID = "[Your previous answer was interrupted before it began.]"
NO_RESULT = "Error: no result of this call was recorded; it may or may not have happened."


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
        text = "\n\n".join([*self._notes, *(_part_text(part) for part in entry.parts)])
        self._notes.clear()
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "user":
            # The chat templates of many local models insist on alternating roles.
            last["content"] += "\n\n" + text
        else:
            self.messages.append({"role": "user", "content": text})

    def assistant(self, step: AssistantStep) -> None:
        if step.interrupted:
            self._notes.append(INTERRUPTED if step.text or step.calls else NOTHING_SAID)
        if not step.text and not step.calls:
            return
        message: Message = {"role": "assistant", "content": step.text or None}
        if step.calls:
            self._open = _wire_ids(step.calls)
            message["tool_calls"] = [_call(call, self._open[call.id]) for call in step.calls]
        message.update(self._replay(step.state, with_calls=bool(step.calls)))
        self.messages.append(message)

    def _replay(self, state: ProviderState | None, *, with_calls: bool) -> Message:
        if state is None or (state.provider, state.model) != (self._provider, self._model):
            return {}
        return {
            key: value
            for key, value in state.data.items()
            # DeepSeek and Kimi demand their plain reasoning back beside tool calls, and older
            # DeepSeek models refuse it anywhere else.
            if key == "reasoning_details" or with_calls
        }

    def results(self, results: Iterable[ToolResult]) -> None:
        for result in results:
            id_ = self._open.pop(result.call.id, None) or result.call.provider_id or result.call.id
            content = _output_text(result.output)
            if result.is_error:
                content = f"Error: {content}"
            self.messages.append({"role": "tool", "tool_call_id": id_, "content": content})

    def settle_calls(self) -> None:
        """Providers refuse a conversation in which a call has no result."""
        for id_ in self._open.values():
            self.messages.append({"role": "tool", "tool_call_id": id_, "content": NO_RESULT})
        self._open = {}


def _wire_ids(calls: list[ToolCall]) -> dict[str, str]:
    """The provider's own ids where it gave each call one, ours where it left out or repeated."""
    given = [call.provider_id for call in calls]
    return {
        call.id: call.provider_id
        if call.provider_id and given.count(call.provider_id) == 1
        else call.id
        for call in calls
    }


def _call(call: ToolCall, id_: str) -> Message:
    # Templates parse the arguments and expect an object; anything else the model made up.
    arguments = call.input if isinstance(call.input, dict) else {"input": call.input}
    text = msgspec.json.encode(arguments).decode()
    return {"id": id_, "type": "function", "function": {"name": call.name, "arguments": text}}


def _output_text(output: Any) -> str:
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()


def _part_text(part: dict[str, Any]) -> str:
    if part.get("type") == "text":
        return str(part["text"])
    name = part.get("filename") or part.get("mediaType") or part.get("type")
    return f"[An attachment that this model cannot see: {name}]"
