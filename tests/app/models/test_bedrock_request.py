"""The model-facing history on the ConverseStream wire (PROTOCOLS.md, D)."""

from typing import Any

import pytest

from app.models import (
    AssistantStep,
    Entry,
    ModelRequest,
    ProviderState,
    ToolCall,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserEntry,
)
from app.models.bedrock_request import body
from app.models.transcript import INTERRUPTED, NO_RESULT

ME = {"provider": "bedrock", "model": "fake"}
SCHEMA = {"type": "object"}


def user(*texts: str) -> UserEntry:
    return UserEntry([{"type": "text", "text": t} for t in texts])


def made(*entries: Entry, options: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return body(ModelRequest(list(entries), **members), **ME, options=options or {})


def wire(*entries: Entry, **members: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made(*entries, **members)["messages"]
    return found


def use(id_: str, **input_: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id_, "name": "look", "input": input_}}


def result(id_: str, text: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id_, "content": [{"text": text}]}}


def test_a_plain_conversation() -> None:
    assert made(user("Hi"), AssistantStep("Hello"), user("a", " "), instructions="Be kind.") == {
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}]},
            {"role": "assistant", "content": [{"text": "Hello"}]},
            {"role": "user", "content": [{"text": "a"}]},
        ],
        "system": [{"text": "Be kind."}],
    }


def test_tools_and_options() -> None:
    system_tool = {"systemTool": {"name": "nova_grounding"}}
    found = made(
        user("Hi"),
        tools=[ToolSpec("look", "Looks.", SCHEMA)],
        options={
            "inferenceConfig": {"maxTokens": 5},
            "toolConfig": {"toolChoice": {"any": {}}, "tools": [system_tool]},
            "messages": [],
            "system": None,
        },
        instructions="Be kind.",
    )
    spec = {"name": "look", "description": "Looks.", "inputSchema": {"json": SCHEMA}}
    assert found["toolConfig"] == {
        "toolChoice": {"any": {}},
        "tools": [{"toolSpec": spec}, system_tool],
    }
    assert found["inferenceConfig"] == {"maxTokens": 5}
    assert found["messages"] != []
    assert "system" not in found


@pytest.mark.requirement("S6")
def test_a_step_of_this_model_goes_back_verbatim() -> None:
    blocks = [
        {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "b3Bh"}},
        {"text": "I look."},
        use("tooluse_1", q="é"),
        {"toolUse": {"toolUseId": "srv", "name": "s", "input": {}, "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "srv", "content": [{"text": "r"}]}},
    ]
    call = ToolCall("ours", "look", {"q": "é"}, "tooluse_1")
    state = ProviderState(data=blocks, **ME)
    found = wire(
        user("Hi"),
        AssistantStep("I look.", [call], state),
        ToolResults([ToolResult(call, {"found": 1})]),
        user("And?"),
    )
    assert found[1]["content"] == blocks
    assert found[2]["content"] == [result("tooluse_1", '{"found":1}'), {"text": "And?"}]


def test_a_step_of_another_model_and_errors_are_told_in_plain_words() -> None:
    call = ToolCall("ours", "look", {}, "toolu_1")
    foreign = ProviderState("anthropic", "fake", [{"type": "text", "text": "x"}])
    found = made(
        user("Hi"),
        AssistantStep("I look.", [call], foreign),
        ToolResults([ToolResult(call, "gone", is_error=True)]),
    )
    assert found["messages"][1]["content"] == [{"text": "I look."}, use("ours")]
    assert found["messages"][2]["content"] == [result("ours", "Error: gone")]
    # Refused otherwise: calls in the conversation, and no tools declared.
    [tool] = found["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "look"


@pytest.mark.requirement("C3", "S6")
def test_cut_answers_and_calls_without_results() -> None:
    call = ToolCall("ours", "look", {}, "tooluse_1")
    state = ProviderState(data=[use("tooluse_1")], **ME)
    found = wire(
        user("Hi"),
        AssistantStep("", [call], state),
        AssistantStep("Hal", interrupted=True),
        user("Go on"),
    )
    assert [message["role"] for message in found] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert found[2]["content"] == [result("tooluse_1", NO_RESULT)]
    assert found[4]["content"] == [{"text": INTERRUPTED}, {"text": "Go on"}]


def test_images() -> None:
    picture = {"type": "file", "name": "a.jpg", "mediaType": "image/jpeg", "data": b"\xff\xd8\xff"}
    assert wire(UserEntry([picture]))[0]["content"] == [
        {"image": {"format": "jpeg", "source": {"bytes": "/9j/"}}}
    ]
