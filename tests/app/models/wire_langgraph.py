"""A LangGraph server for the tests, with messages as langgraph-api writes them."""

from typing import Any

ME = "00000000-0000-4000-8000-000000000001"


def human(text: str = "Hi", id_: str = ME) -> dict[str, Any]:
    return {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "human",
        "name": None,
        "id": id_,
    }


def ai(id_: str, content: Any = "", *calls: tuple[str, str, Any], **members: Any) -> dict[str, Any]:
    """A whole message. `calls`: id, name and input of each."""
    return {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "ai",
        "name": None,
        "id": id_,
        "tool_calls": [
            {"name": name, "args": args, "id": call, "type": "tool_call"}
            for call, name, args in calls
        ],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        **members,
    }


def piece(id_: str, content: Any = "", **members: Any) -> dict[str, Any]:
    """A piece of a message."""
    return {
        **ai(id_, content),
        "type": "AIMessageChunk",
        "tool_call_chunks": [],
        "chunk_position": None,
        **members,
    }


def last(id_: str, **members: Any) -> dict[str, Any]:
    """The piece that says that it is the last."""
    return piece(id_, chunk_position="last", **members)


def call_piece(
    id_: str, index: int, args: str = "", call: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """A piece of a call of a tool."""
    made = {"name": name, "args": args, "id": call, "index": index, "type": "tool_call_chunk"}
    return piece(id_, tool_call_chunks=[made])


def result(
    call: str, content: Any, name: str = "look", id_: str = "", **more: Any
) -> dict[str, Any]:
    """What a tool gave."""
    return {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "tool",
        "name": name,
        "id": id_ or f"result-of-{call}",
        "tool_call_id": call,
        "artifact": None,
        "status": "success",
        **more,
    }


def state(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"messages": list(messages), **members}
