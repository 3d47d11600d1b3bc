"""The body of a ConverseStream request from the model-facing history (PROTOCOLS.md, D)."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from app.models.block_messages import Block, calls_in, messages
from app.models.interface import AssistantStep, ModelRequest
from app.models.transcript import declared, replayed


def body(
    request: ModelRequest, *, provider: str, model: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON body. `options` are merged over it; a value of None removes the member; the tools in
    their `toolConfig`, the provider's own, are added to ours."""
    made: dict[str, Any] = {"messages": messages(request.entries, Shapes(provider, model))}
    if request.instructions and request.instructions.strip():
        made["system"] = [{"text": request.instructions}]
    given = options.get("toolConfig") or {}
    tools = [
        {
            "toolSpec": {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": {"json": tool.parameters},
            }
        }
        for tool in declared(request.tools, calls_in(request.entries))
    ] + [*(given.get("tools") or [])]
    made.update({name: value for name, value in options.items() if name != "messages"})
    made["toolConfig"] = {**given, "tools": tools} if tools else None
    return {name: value for name, value in made.items() if value is not None}


class Shapes:
    """Implements block_messages.Shapes."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model

    def text(self, text: str) -> Block:
        return {"text": text}

    def image(self, kind: str, data: bytes) -> Block:
        source = {"bytes": b64encode(data).decode()}
        return {"image": {"format": kind.removeprefix("image/"), "source": source}}

    def call(self, id_: str, name: str, arguments: dict[str, Any]) -> Block:
        return {"toolUse": {"toolUseId": id_, "name": name, "input": arguments}}

    def result(self, id_: str, text: str, *, is_error: bool) -> Block:
        # Not by `status`: most models of other makers than Anthropic and Amazon refuse it.
        if is_error and not text.startswith("Error"):
            text = f"Error: {text}"
        return {"toolResult": {"toolUseId": id_, "content": [{"text": text}]}}

    def is_blank(self, block: Block) -> bool:
        return "text" in block and not str(block["text"] or "").strip()

    def called(self, block: Block) -> str | None:
        use = block.get("toolUse")
        return str(use.get("toolUseId")) if use and use.get("type") is None else None

    def own(self, step: AssistantStep) -> list[Block] | None:
        blocks: list[Block] | None = replayed(step.state, self._provider, self._model)
        return blocks
