"""LangChain's messages, as LangGraph servers write them down. Pure.

Seen from langgraph-api 0.16 (Python) and read in its JavaScript sibling: the class is in `type`
("AIMessageChunk", "ai", "tool"), in JavaScript also for pieces; content is a text or a list of
blocks, whose kinds are those of the model's provider.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from app.events import FinishReason, Usage
from app.models.event_reader import count

Message = dict[str, Any]

_FINISH: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "content-filter",
    "safety": "content-filter",
}
# Members of `response_metadata` in which integrations put why the model stopped.
_REASONS = ("finish_reason", "stop_reason", "done_reason")


class ToolUse(msgspec.Struct, frozen=True):
    """A call in a whole message; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


def unpacked(value: Any) -> Message | None:
    """The message in one of its written forms; None for anything else."""
    if not isinstance(value, dict):
        return None
    if isinstance(kwargs := value.get("kwargs"), dict) and isinstance(value.get("id"), list):
        # langchain's own serialisation: {"lc": 1, "id": ["langchain", …, "AIMessageChunk"], …}
        return {**kwargs, "type": str(value["id"][-1]) if value["id"] else ""}
    if isinstance(data := value.get("data"), dict) and "content" in data:
        return {"type": value.get("type"), **data}
    if "type" not in value and "role" in value:
        return {**value, "type": value["role"]}
    return value


def is_answer(message: Mapping[str, Any]) -> bool:
    """Whether the model says it, in whole or in part."""
    return message.get("type") in ("ai", "assistant", "AIMessage", "AIMessageChunk")


def is_result(message: Mapping[str, Any]) -> bool:
    """Whether it is the whole result of a tool."""
    return message.get("type") in ("tool", "ToolMessage")


def is_piece(message: Mapping[str, Any]) -> bool:
    """Whether it says of itself that it is a piece; from JavaScript none does."""
    return str(message.get("type")).endswith("Chunk")


def is_last_piece(message: Mapping[str, Any]) -> bool:
    """Whether no more text comes for it, as far as the pieces tell."""
    if message.get("chunk_position") == "last":
        return True
    metadata = message.get("response_metadata")
    return isinstance(metadata, dict) and any(metadata.get(name) for name in _REASONS)


def text_of(message: Mapping[str, Any]) -> str:
    """What it says, without thinking."""
    return "".join(_texts(message.get("content")))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict) and block.get("type") in ("text", "output_text", "refusal"):
            yield _string(block.get("text") or block.get("refusal"))


def thought_of(message: Mapping[str, Any]) -> str:
    """The thinking, in whatever form the provider of the model has it."""
    return "".join(_thoughts(message))


def _thoughts(message: Mapping[str, Any]) -> Iterator[str]:
    content, extra = message.get("content"), message.get("additional_kwargs")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("thinking", "reasoning"):
            yield _string(block.get("thinking") or block.get("reasoning"))
            yield from _summaries(block)
    if isinstance(extra, dict):
        yield _string(extra.get("reasoning_content"))
        if isinstance(reasoning := extra.get("reasoning"), dict):
            yield from _summaries(reasoning)


def _summaries(reasoning: Mapping[str, Any]) -> Iterator[str]:
    summary = reasoning.get("summary")
    for part in summary if isinstance(summary, list) else ():
        if isinstance(part, dict):
            yield _string(part.get("text"))


def pieces_of_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Pieces of calls in a piece of a message: index, id, name, args (JSON text)."""
    pieces = message.get("tool_call_chunks")
    return [one for one in pieces if isinstance(one, dict)] if isinstance(pieces, list) else []


def calls_of(message: Mapping[str, Any]) -> list[ToolUse]:
    """The calls of a whole message, also those whose input is no JSON."""
    found = []
    for name in ("tool_calls", "invalid_tool_calls"):
        calls = message.get(name)
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                arguments = call.get("args")
                if not isinstance(arguments, str):
                    arguments = msgspec.json.encode(arguments or {}).decode()
                found.append(ToolUse(_string(call.get("id")), _string(call.get("name")), arguments))
    return found


def result_of(message: Mapping[str, Any]) -> tuple[Any, bool]:
    """What a tool gave, and whether it is an error."""
    content = message.get("content")
    if isinstance(content, list) and all(
        isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")
        for block in content
    ):
        content = "".join(_texts(content))
    return content, message.get("status") == "error"


def usage_of(message: Mapping[str, Any]) -> Usage | None:
    usage = message.get("usage_metadata")
    if not isinstance(usage, dict):
        return None
    details = usage.get("input_token_details")
    cached = details.get("cache_read") if isinstance(details, dict) else None
    return Usage(count(usage.get("input_tokens")), count(usage.get("output_tokens")), count(cached))


def finish_of(message: Mapping[str, Any]) -> FinishReason | None:
    """Why the model stopped; None if the message does not say."""
    metadata = message.get("response_metadata")
    if not isinstance(metadata, dict):
        return None
    for name in _REASONS:
        if reason := _string(metadata.get(name)).lower():
            return _FINISH.get(reason, "stop")
    return None


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
