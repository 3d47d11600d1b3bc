"""The model-facing history on the Messages wire (PROTOCOLS.md, C)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from app.models.anthropic_request import MAX_TOKENS, body
from app.models.transcript import INTERRUPTED, NO_RESULT, NOTHING_SAID

ME = {"provider": "anthropic", "model": "fake"}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


def user(*texts: str) -> UserEntry:
    return UserEntry([text(t) for t in texts])


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def made(*entries: Entry, options: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    request = ModelRequest(list(entries), **members)
    return body(request, **ME, options=options or {}, paused=[])


def wire(*entries: Entry, **members: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made(*entries, **members)["messages"]
    return found


def state(*blocks: dict[str, Any], model: str = "fake") -> ProviderState:
    return ProviderState("anthropic", model, list(blocks))


def tool_use(id_: str, **input_: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "look", "input": input_}


def result(id_: str, content: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def test_a_plain_conversation() -> None:
    assert made(user("Hi"), AssistantStep("Hello"), user("a", "b"), instructions="Be kind.") == {
        "model": "fake",
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "system": "Be kind.",
        "messages": [
            {"role": "user", "content": [text("Hi")]},
            {"role": "assistant", "content": [text("Hello")]},
            {"role": "user", "content": [text("a"), text("b")]},
        ],
    }


def test_tools_and_options() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    found = made(
        user("Hi"),
        tools=[ToolSpec("look", "Looks.", SCHEMA)],
        options={"max_tokens": 5, "stream": None, "tools": [search], "messages": []},
    )
    assert found["tools"] == [
        {"name": "look", "description": "Looks.", "input_schema": SCHEMA},
        search,
    ]
    assert found["max_tokens"] == 5
    assert "stream" not in found
    assert found["messages"] != []


@pytest.mark.requirement("S6")
def test_a_step_of_this_model_goes_back_verbatim() -> None:
    """Thinking with its signature, what is redacted, unknown blocks, in their order."""
    blocks = [
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        text("I look."),
        {"type": "from_the_future", "nested": {"a": [1, None]}},
        tool_use("toolu_1", q="é"),
    ]
    call = ToolCall("ours", "look", {"q": "é"}, "toolu_1")
    found = wire(
        user("Hi"),
        AssistantStep("I look.", [call], state(*blocks)),
        ToolResults([ToolResult(call, {"found": 1})]),
        user("And?"),
    )
    assert found[1] == {"role": "assistant", "content": blocks}
    assert found[2] == {"role": "user", "content": [result("toolu_1", '{"found":1}'), text("And?")]}


@pytest.mark.parametrize(
    "foreign",
    [
        ProviderState("anthropic", "another", [{"type": "redacted_thinking", "data": "x"}]),
        ProviderState("bedrock", "fake", [{"text": "I look."}]),
        None,
    ],
)
def test_a_step_of_another_model_is_told_in_plain_words(foreign: ProviderState | None) -> None:
    call = ToolCall("ours", "look at.it", [1], "functions.look:0")
    found = wire(
        user("Hi"),
        AssistantStep("I look.", [call], foreign),
        ToolResults([ToolResult(call, "gone", is_error=True)]),
    )
    assert found[1]["content"] == [
        text("I look."),
        {"type": "tool_use", "id": "ours", "name": "look_at_it", "input": {"input": [1]}},
    ]
    assert found[2]["content"] == [result("ours", "gone", is_error=True)]


@pytest.mark.requirement("S7")
@pytest.mark.parametrize(
    ("ids", "provider_ids"),
    [
        (["toolu_1", "toolu_1"], ["toolu_1", "toolu_1"]),  # repeated
        (["toolu_1", "toolu_2"], ["toolu_1", None]),  # left out
        (["toolu_1"], ["toolu_1", "toolu_2"]),  # lost
    ],
)
def test_ids_that_name_no_single_call_are_replaced_by_ours(
    ids: list[str], provider_ids: list[str | None]
) -> None:
    calls = [ToolCall(f"ours{n}", "look", {}, id_) for n, id_ in enumerate(provider_ids)]
    step = AssistantStep("", calls, state(*map(tool_use, ids)))
    found = wire(user("Hi"), step, ToolResults([ToolResult(call, "r") for call in calls]))
    assert [block["id"] for block in found[1]["content"]] == ["ours0", "ours1"]
    assert found[2]["content"] == [result("ours0", "r"), result("ours1", "r")]


@pytest.mark.requirement("S7")
def test_an_id_that_a_provider_uses_again_in_a_later_step_is_replaced_by_ours() -> None:
    steps: list[Entry] = []
    for id_ in ("ours1", "ours2"):
        call = ToolCall(id_, "look", {}, "toolu_0")
        steps += [AssistantStep("", [call], state(tool_use("toolu_0")))]
        steps += [ToolResults([ToolResult(call, "r")])]
    found = wire(user("Hi"), *steps)
    assert [found[n]["content"][0]["id"] for n in (1, 3)] == ["toolu_0", "ours2"]
    assert [found[n]["content"] for n in (2, 4)] == [
        [result("toolu_0", "r")],
        [result("ours2", "r")],
    ]


def test_blank_text_is_left_out_since_the_provider_refuses_it() -> None:
    found = wire(
        user("Hi", " \n"),
        AssistantStep("", [], state(text(""))),
        user("Again"),
        AssistantStep("", [], state(text("\n"), {"type": "redacted_thinking", "data": "x"})),
        AssistantStep(" "),
        user(""),
    )
    assert found == [
        {"role": "user", "content": [text("Hi"), text("Again")]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
    ]
    assert "system" not in made(user("Hi"), instructions=" ")


@pytest.mark.requirement("C3")
def test_a_cut_answer_is_told_in_the_next_message() -> None:
    found = wire(
        user("Hi"),
        AssistantStep("Hal", interrupted=True),
        user("Go on"),
        AssistantStep("", interrupted=True),
        user("Well?"),
    )
    assert found == [
        {"role": "user", "content": [text("Hi")]},
        {"role": "assistant", "content": [text("Hal")]},
        {
            "role": "user",
            "content": [text(INTERRUPTED), text("Go on"), text(NOTHING_SAID), text("Well?")],
        },
    ]


@pytest.mark.requirement("S6")
def test_a_call_without_a_result_gets_one() -> None:
    call = ToolCall("ours", "look", {}, "toolu_1")
    found = wire(user("Hi"), AssistantStep("", [call], state(tool_use("toolu_1"))), user("And?"))
    assert found[2]["content"] == [result("toolu_1", NO_RESULT, is_error=True), text("And?")]


def test_tools_that_are_gone_are_still_declared_where_calls_stand() -> None:
    call = ToolCall("ours", "look", {}, "toolu_1")
    found = made(user("Hi"), AssistantStep("", [call]), ToolResults([ToolResult(call, "r")]))
    assert [tool["name"] for tool in found["tools"]] == ["look"]
    assert "tools" not in made(user("Hi"))


def test_images_and_text_files() -> None:
    picture = {"type": "file", "name": "a.png", "mediaType": "image/png", "data": b"\x89PNG"}
    note = {"type": "file", "name": "n.txt", "mediaType": "text/plain", "data": "né".encode()}
    gone = {"type": "file", "name": "b.png", "mediaType": "image/png"}
    found = wire(UserEntry([text("See"), picture, note, gone]))
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
    assert found[0]["content"] == [
        text("See"),
        {"type": "image", "source": source},
        text('<file name="n.txt">\nné\n</file>'),
        text("[An attachment that this model cannot see: b.png]"),
    ]


# the history only grows

CALL = ToolCall("ours", "look", {"q": 1}, "toolu_1")
TURNS: list[list[Entry]] = [
    [user("Hi"), AssistantStep("Hello", [], state(text("Hello")))],
    [
        user("Look"),
        AssistantStep(
            "", [CALL], state({"type": "thinking", "thinking": "t"}, tool_use("toolu_1"))
        ),
        ToolResults([ToolResult(CALL, "r")]),
        AssistantStep("Found"),
    ],
    [user("Long"), AssistantStep("Lo", interrupted=True)],
    [user("Nothing")],
]


@given(st.lists(st.sampled_from(TURNS), max_size=6))
def test_a_longer_history_begins_with_the_shorter_one(turns: list[list[Entry]]) -> None:
    """What a provider has signed or cached stays valid: the same blocks, and more at the end."""
    entries: list[Entry] = []
    before: list[bytes] = []
    for entry in (entry for turn in turns for entry in turn):
        entries.append(entry)
        if isinstance(entry, AssistantStep):
            continue  # a request is made only after a message of the person, or results
        blocks = [
            msgspec.json.encode((message["role"], block))
            for message in wire(*entries)
            for block in message["content"]
        ]
        assert blocks[: len(before)] == before
        before = blocks
