"""The model-facing history on the Responses wire (PROTOCOLS.md, B1)."""

import json
from typing import Any

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
from app.models.responses_request import ENCRYPTED, body, items, replayable
from app.models.transcript import INTERRUPTED, NO_RESULT, NOTHING_SAID

ME = {"provider": "responses", "model": "fake"}


def user(*texts: str) -> UserEntry:
    return UserEntry([{"type": "text", "text": text} for text in texts])


def wire(*entries: Entry, stored: bool = False, **members: Any) -> list[dict[str, Any]]:
    return items(ModelRequest(list(entries), **members), **ME, stored=stored)


def made(*entries: Entry, options: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    request = ModelRequest(list(entries), **given.pop("members", {}))
    return body(request, **ME, options=options or {}, **given)


def state(*output: dict[str, Any], model: str = "fake") -> ProviderState:
    return ProviderState("responses", model, {"output": list(output)})


def call(id_: str, provider_id: str | None = None, **input_: Any) -> ToolCall:
    return ToolCall(id_, "look", input_, provider_id)


def thought(id_: str = "rs_1", encrypted: str | None = "s3cret") -> dict[str, Any]:
    return {"type": "reasoning", "id": id_, "summary": [], "encrypted_content": encrypted}


def message(text: str, id_: str = "msg_1") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": id_, "role": "assistant", "content": content}


def function_call(call_id: str, **more: Any) -> dict[str, Any]:
    made = {"type": "function_call", "call_id": call_id, "name": "look", "arguments": '{ "q":1}'}
    return {**made, "id": f"fc_{call_id}", "status": "completed", **more}


def output(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def test_a_plain_conversation() -> None:
    entries = [user("Hi"), AssistantStep("Hello"), user("a", "b")]
    assert made(*entries, members={"instructions": "Be kind."}) == {
        "model": "fake",
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "a\n\nb"},
        ],
        "stream": True,
        "store": False,
        "include": [ENCRYPTED],
    }


def test_in_the_background_the_provider_has_to_store_it() -> None:
    found = made(user("Hi"), background=True)
    assert (found["background"], found["store"]) == (True, True)
    assert "background" not in made(user("Hi"))


def test_options_have_the_last_word() -> None:
    options = {"store": True, "include": [], "reasoning": {"effort": "low"}, "instructions": None}
    found = made(user("Hi"), options=options, members={"instructions": "Be kind."})
    assert (found["store"], found["include"], found["reasoning"]) == (True, [], {"effort": "low"})
    assert "instructions" not in found
    assert "include" not in made(user("Hi"), encrypted=False)


def test_tools_are_declared() -> None:
    tool = ToolSpec("look", "Look it up", {"type": "object"})
    assert made(user("Hi"), members={"tools": [tool]})["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "Look it up",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]


def test_the_providers_own_tools_stand_beside_ours() -> None:
    search = {"type": "web_search"}
    tool = ToolSpec("look", "Look it up", {"type": "object"})
    found = made(user("Hi"), options={"tools": [search]}, members={"tools": [tool]})["tools"]
    assert [one.get("name") or one["type"] for one in found] == ["look", "web_search"]
    assert made(user("Hi"), options={"tools": [search]})["tools"] == [search]


@pytest.mark.requirement("S6")
def test_a_response_is_replayed_as_it_came_and_in_its_order() -> None:
    said = [thought("rs_1"), message("Let me see."), thought("rs_2"), function_call("call_a")]
    one = call("c1", "call_a", q=1)
    found = wire(
        user("Look"),
        AssistantStep("Let me see.", [one], state(*said)),
        ToolResults([ToolResult(one, {"found": True})]),
        AssistantStep("Done.", state=state(thought("rs_3"), message("Done.", "msg_2"))),
        user("Thanks"),
    )
    assert found[1:5] == said
    assert found[5] == output("call_a", '{"found":true}')
    assert found[6:] == [
        thought("rs_3"),
        message("Done.", "msg_2"),
        {"role": "user", "content": "Thanks"},
    ]


def test_what_another_model_said_is_told_in_words() -> None:
    one = call("c1", "call_a", q=1)
    told = [
        {"role": "assistant", "content": "Let me see."},
        {
            "type": "function_call",
            "call_id": "call_a",
            "name": "look",
            "arguments": '{"q":1}',
        },
        output("call_a", "Error: no"),
    ]
    for foreign in (
        state(function_call("call_a"), model="other"),
        ProviderState("anthropic", "fake", {"output": [function_call("call_a")]}),
        ProviderState("responses", "fake", "from an older version"),
        None,
    ):
        step = AssistantStep("Let me see.", [one], foreign)
        assert wire(step, ToolResults([ToolResult(one, "no", is_error=True)])) == told


@pytest.mark.requirement("S7")
def test_ids_that_the_provider_repeats_are_ours_instead() -> None:
    one, two = call("c1", "call_a"), call("c2", "call_a")
    step = AssistantStep("", [one, two], state(function_call("call_a"), function_call("call_a")))
    found = wire(step, ToolResults([ToolResult(one, "1"), ToolResult(two, "2")]))
    assert [item.get("call_id") for item in found] == ["c1", "c2", "c1", "c2"]


def test_reasoning_that_nobody_keeps_is_left_out() -> None:
    """Sent by its id alone it is "not found", where nothing is stored."""
    step = AssistantStep("Hello", state=state(thought(encrypted=None), message("Hello")))
    assert wire(step) == [message("Hello")]
    assert wire(step, stored=True) == [thought(encrypted=None), message("Hello")]
    open_weights = {**thought(encrypted=None), "content": [{"type": "reasoning_text", "text": "?"}]}
    kept = AssistantStep("Hello", state=state(open_weights, message("Hello")))
    assert wire(kept) == [open_weights, message("Hello")]


def test_a_call_that_was_cut_does_not_go_back_and_neither_does_the_thought_before_it() -> None:
    cut = function_call("call_b", status="incomplete")
    said = [thought("rs_1"), function_call("call_a"), thought("rs_2"), thought("rs_3"), cut]
    assert replayable(said) == said[:2]
    assert replayable([thought(), message("Hi")]) == [thought(), message("Hi")]


def test_a_call_without_a_result_gets_one() -> None:
    one = call("c1", "call_a")
    step = AssistantStep("", [one], state(function_call("call_a")))
    assert wire(step)[1:] == [output("call_a", NO_RESULT)]
    assert wire(step, user("Go on"))[1:] == [
        output("call_a", NO_RESULT),
        {"role": "user", "content": "Go on"},
    ]
    assert wire(step, AssistantStep("Hm"))[1] == output("call_a", NO_RESULT)


@pytest.mark.requirement("C3")
def test_what_was_cut_short_is_told_in_the_next_message() -> None:
    cut = AssistantStep("Hel", interrupted=True)
    assert wire(user("Hi"), cut, user("Go on"))[1:] == [
        {"role": "assistant", "content": "Hel"},
        {"role": "user", "content": f"{INTERRUPTED}\n\nGo on"},
    ]
    assert wire(user("Hi"), AssistantStep("", interrupted=True), user("Go on"))[1:] == [
        {"role": "user", "content": f"{NOTHING_SAID}\n\nGo on"},
    ]


def test_images_and_text_files() -> None:
    png = {"type": "file", "name": "a.png", "mediaType": "image/png", "data": b"\x89PNG"}
    notes = {"type": "file", "name": "n.txt", "mediaType": "text/plain", "data": b"Notes"}
    video = {"type": "file", "name": "v.mp4", "mediaType": "video/mp4", "data": b"?"}
    text = {"type": "text", "text": "What is this?"}
    assert wire(UserEntry([text, png, notes, video])) == [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {
                    "type": "input_image",
                    "detail": "auto",
                    "image_url": "data:image/png;base64,iVBORw==",
                },
                {
                    "type": "input_text",
                    "text": '<file name="n.txt">\nNotes\n</file>\n\n'
                    "[An attachment that this model cannot see: v.mp4]",
                },
            ],
        }
    ]


ENTRIES = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=5)),
        st.builds(AssistantStep, st.text(max_size=5), interrupted=st.booleans()),
        st.builds(
            lambda text: AssistantStep(text, state=state(thought(), message(text))), st.text()
        ),
        st.builds(
            lambda n: AssistantStep(
                "", [call("c", f"call_{n}")], state(thought(), function_call(f"call_{n}"))
            ),
            st.integers(0, 3),
        ),
    ),
    max_size=8,
)


@given(ENTRIES, ENTRIES)
def test_more_entries_only_add_to_the_end(before: list[Entry], after: list[Entry]) -> None:
    """What the provider has cached, and what its reasoning is bound to, stays as it was."""
    before = [*before, user("the end")]
    short, long = wire(*before), wire(*before, *after)
    assert json.dumps(long[: len(short)]) == json.dumps(short)
