"""The body of a Responses request from the model-facing history.

Stateless: the whole conversation goes along each time, so that branches, retries and a change of
model need nothing of what the provider keeps. The same entries always give the same bytes, and more
entries only add to them at the end.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from app.models.interface import (
    AssistantStep,
    ModelRequest,
    ToolCall,
    ToolResult,
    ToolSpec,
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

Item = dict[str, Any]

ENCRYPTED = "reasoning.encrypted_content"


def body(
    request: ModelRequest,
    *,
    provider: str,
    model: str,
    options: Mapping[str, Any],
    background: bool = False,
    encrypted: bool = True,
) -> dict[str, Any]:
    """The JSON body. `options` are merged over it; a value of None removes the member. `tools` in
    them are the provider's own, beside ours.

    Args:
        background: the provider goes on without us; it then has to store the response.
        encrypted: ask for the reasoning in a form that can be sent back. Models without reasoning
            refuse to be asked.
    """
    stored = bool(options.get("store", background))
    made: dict[str, Any] = {
        "model": model,
        "instructions": request.instructions or None,
        "input": items(request, provider=provider, model=model, stored=stored),
        "stream": True,
        "store": background,
        "background": background or None,
        "include": [ENCRYPTED] if encrypted else None,
    }
    made.update(options)
    if request.tools:
        made["tools"] = [*map(_tool, request.tools), *(options.get("tools") or [])]
    return {key: value for key, value in made.items() if value is not None}


def items(request: ModelRequest, *, provider: str, model: str, stored: bool) -> list[Item]:
    """The conversation. `provider` and `model` decide whose state is replayed.

    `stored`: the provider knows by its id what it said before.
    """
    thread = _Conversation(provider, model, stored)
    for entry in request.entries:
        if isinstance(entry, UserEntry):
            thread.user(entry)
        elif isinstance(entry, AssistantStep):
            thread.assistant(entry)
        else:
            thread.results(entry.results)
    thread.settle_calls()
    return thread.items


class _Conversation:
    def __init__(self, provider: str, model: str, stored: bool) -> None:
        self.items: list[Item] = []
        self._provider = provider
        self._model = model
        self._stored = stored
        # What the next message of the person has to say first; cleared by it.
        self._notes: list[str] = []
        # Calls of the last step that have no result yet: our id -> the id on the wire.
        self._open: dict[str, str] = {}

    def user(self, entry: UserEntry) -> None:
        self.settle_calls()
        self.items.append({"role": "user", "content": _content(entry.parts, self._notes)})
        self._notes.clear()

    def assistant(self, step: AssistantStep) -> None:
        self.settle_calls()
        if step.interrupted:
            self._notes.append(INTERRUPTED if step.text or step.calls else NOTHING_SAID)
        self._open = wire_ids(step.calls)
        output = self._replay(step)
        if output is not None:
            self.items += output
            return
        if step.text:
            self.items.append({"role": "assistant", "content": step.text})
        self.items += [_call(call, self._open[call.id]) for call in step.calls]

    def _replay(self, step: AssistantStep) -> list[Item] | None:
        """The step as the provider said it; None if it was another, or the calls do not fit."""
        data = replayed(step.state, self._provider, self._model)
        if not isinstance(data, dict) or not isinstance(data.get("output"), list):
            return None
        output = [item for item in data["output"] if self._is_known(item)]
        made = [str(item.get("call_id")) for item in output if item.get("type") == "function_call"]
        ids = wire_ids(step.calls)
        # Each call is known by an id of its own, and is there.
        fits = len(made) == len(ids) and set(made) == set(ids.values())
        return output if fits else None

    def _is_known(self, item: Item) -> bool:
        """Reasoning is in the item, in whatever form, or with the provider, or nowhere."""
        kept = item.get("encrypted_content") or item.get("content") or self._stored
        return item.get("type") != "reasoning" or bool(kept)

    def results(self, results: Iterable[ToolResult]) -> None:
        for result in results:
            id_ = self._open.pop(result.call.id, None) or result.call.provider_id or result.call.id
            text = output_text(result.output)
            self._result(id_, f"Error: {text}" if result.is_error else text)

    def settle_calls(self) -> None:
        """A conversation in which a call has no result is refused."""
        for id_ in self._open.values():
            self._result(id_, NO_RESULT)
        self._open = {}

    def _result(self, call_id: str, output: str) -> None:
        self.items.append({"type": "function_call_output", "call_id": call_id, "output": output})


def is_whole(call: Mapping[str, Any]) -> bool:
    """Whether a call in a response is complete: its limit may have cut it."""
    return call.get("status") not in ("incomplete", "in_progress")


def replayable(output: Iterable[Item]) -> list[Item]:
    """What of a response can go back: all of it, but for a call that was cut.

    Reasoning goes with the item that follows it, and is refused without.
    """
    kept: list[Item] = []
    for item in output:
        if item.get("type") != "function_call" or is_whole(item):
            kept.append(item)
            continue
        while kept and kept[-1].get("type") == "reasoning":
            kept.pop()
    return kept


def _tool(tool: ToolSpec) -> Item:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        # Strict mode allows only a part of JSON Schema.
        "strict": False,
    }


def _call(call: ToolCall, id_: str) -> Item:
    arguments = msgspec.json.encode(call_input(call)).decode()
    return {"type": "function_call", "call_id": id_, "name": call.name, "arguments": arguments}


def _content(parts: Iterable[Mapping[str, Any]], notes: Iterable[str]) -> str | list[Item]:
    """A text, or, where there are images, a list of text and image parts in their order."""
    texts, content = [*notes], list[Item]()
    for part in parts:
        image = image_of(part)
        if image is None:
            texts.append(part_text(part))
            continue
        kind, data = image
        url = f"data:{kind};base64,{b64encode(data).decode()}"
        content += [*_texts(texts), {"type": "input_image", "detail": "auto", "image_url": url}]
        texts = []
    return [*content, *_texts(texts)] if content else "\n\n".join(texts)


def _texts(texts: Sequence[str]) -> list[Item]:
    return [{"type": "input_text", "text": "\n\n".join(texts)}] if texts else []
