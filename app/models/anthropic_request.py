"""The body of a Messages request from the model-facing history (PROTOCOLS.md, C)."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from app.models.block_messages import Block, calls_in, messages
from app.models.interface import AssistantStep, ModelRequest
from app.models.transcript import declared, replayed

# The wire wants a limit; every model of today's can say this much.
MAX_TOKENS = 16_384


def body(
    request: ModelRequest,
    *,
    provider: str,
    model: str,
    options: Mapping[str, Any],
    paused: list[Block],
) -> dict[str, Any]:
    """The JSON body.

    Args:
        options: merged over it; a value of None removes the member. Their `tools`, the provider's
            own, are added to ours.
        paused: what the answer has said so far, where the provider paused it (`pause_turn`).
    """
    thread = messages(request.entries, Shapes(provider, model))
    if paused:
        thread.append({"role": "assistant", "content": paused})
    made: dict[str, Any] = {"model": model, "max_tokens": MAX_TOKENS, "stream": True}
    if request.instructions and request.instructions.strip():
        made["system"] = request.instructions
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters,
        }
        for tool in declared(request.tools, calls_in(request.entries))
    ] + [*(options.get("tools") or [])]
    made.update(options)
    made["messages"] = thread
    made["tools"] = tools or None
    return {key: value for key, value in made.items() if value is not None}


class Shapes:
    """Implements block_messages.Shapes."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model

    def text(self, text: str) -> Block:
        return {"type": "text", "text": text}

    def image(self, kind: str, data: bytes) -> Block:
        source = {"type": "base64", "media_type": kind, "data": b64encode(data).decode()}
        return {"type": "image", "source": source}

    def call(self, id_: str, name: str, arguments: dict[str, Any]) -> Block:
        return {"type": "tool_use", "id": id_, "name": name, "input": arguments}

    def result(self, id_: str, text: str, *, is_error: bool) -> Block:
        made = {"type": "tool_result", "tool_use_id": id_, "content": text}
        return {**made, "is_error": True} if is_error else made

    def is_blank(self, block: Block) -> bool:
        return block.get("type") == "text" and not str(block.get("text") or "").strip()

    def called(self, block: Block) -> str | None:
        return str(block.get("id")) if block.get("type") == "tool_use" else None

    def own(self, step: AssistantStep) -> list[Block] | None:
        blocks: list[Block] | None = replayed(step.state, self._provider, self._model)
        return blocks
