"""The model-facing history on the Chat Completions wire."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models import (
    AssistantStep,
    Entry,
    Http,
    ModelRequest,
    ProviderState,
    ToolCall,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserEntry,
)
from app.models.chat_completions import ChatCompletions
from app.models.chat_request import INTERRUPTED, NO_RESULT, NOTHING_SAID, body, messages
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import STOP, FakeProvider, chunk, say, tool
from tests.app.models.recorder import Recorder

ME = {"provider": "chat_completions", "model": "fake"}


def user(*texts: str) -> UserEntry:
    return UserEntry([{"type": "text", "text": text} for text in texts])


def wire(*entries: Entry, **members: Any) -> list[dict[str, Any]]:
    return messages(ModelRequest(list(entries), **members), **ME)


def call(id_: str, provider_id: str | None = None, **input_: Any) -> ToolCall:
    return ToolCall(id_, "look", input_, provider_id)


def state(**data: Any) -> ProviderState:
    return ProviderState(data=data, **ME)


def test_a_plain_conversation() -> None:
    assert wire(user("Hi"), AssistantStep("Hello"), user("a", "b"), instructions="Be kind.") == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "a\n\nb"},
    ]


@pytest.mark.requirement("S6")
def test_calls_and_results_by_the_providers_ids() -> None:
    one, two = call("c1", "call_a", q="é"), call("c2", "call_b")
    made = wire(
        user("Look"),
        AssistantStep("Looking.", [one, two]),
        ToolResults([ToolResult(one, "found"), ToolResult(two, {"why": 1}, is_error=True)]),
        AssistantStep("Done."),
    )
    assert made[1:] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"q":"é"}'},
                },
                {
                    "id": "call_b",
                    "type": "function",
                    "function": {"name": "look", "arguments": "{}"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "found"},
        {"role": "tool", "tool_call_id": "call_b", "content": 'Error: {"why":1}'},
        {"role": "assistant", "content": "Done."},
    ]


@pytest.mark.requirement("S7")
@pytest.mark.parametrize("provider_id", [None, "", "same"])
def test_ids_that_a_provider_left_out_or_repeated_become_ours(provider_id: str | None) -> None:
    one, two = call("c1", provider_id), call("c2", provider_id)
    results = ToolResults([ToolResult(one, "1"), ToolResult(two, "2")])
    made = wire(user("x"), AssistantStep("", [one, two]), results)
    assert [c["id"] for c in made[1]["tool_calls"]] == ["c1", "c2"]
    assert [m["tool_call_id"] for m in made[2:]] == ["c1", "c2"]
    assert made[1]["content"] is None


@pytest.mark.requirement("S6")
def test_a_call_without_a_result_is_answered_for() -> None:
    one, two = call("c1"), call("c2")
    made = wire(
        user("x"), AssistantStep("", [one, two]), ToolResults([ToolResult(two, "2")]), user("y")
    )
    assert [(m["role"], m.get("tool_call_id"), m["content"]) for m in made[2:]] == [
        ("tool", "c2", "2"),
        ("tool", "c1", NO_RESULT),
        ("user", None, "y"),
    ]


@pytest.mark.requirement("C3")
def test_an_interrupted_answer_is_kept_and_marked() -> None:
    made = wire(user("a"), AssistantStep("half an", interrupted=True), user("b"))
    assert made == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "half an"},
        {"role": "user", "content": f"{INTERRUPTED}\n\nb"},
    ]


def test_an_answer_interrupted_before_it_began_leaves_one_message_of_the_person() -> None:
    made = wire(user("a"), AssistantStep("", interrupted=True), user("b"), AssistantStep("c"))
    assert made == [
        {"role": "user", "content": f"a\n\n{NOTHING_SAID}\n\nb"},
        {"role": "assistant", "content": "c"},
    ]


def test_input_that_is_no_object_is_wrapped_and_attachments_are_named() -> None:
    made = wire(
        UserEntry([{"type": "file", "name": "cat.tiff", "mediaType": "image/tiff"}]),
        AssistantStep("", [ToolCall("c1", "look", [1])]),
    )
    assert "cat.tiff" in made[0]["content"]
    assert made[1]["tool_calls"][0]["function"]["arguments"] == '{"input":[1]}'


def test_reasoning_details_go_back_verbatim_but_only_to_who_made_them() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x", "id": None}]
    mine = AssistantStep("a", state=state(reasoning_details=details))
    other = AssistantStep("b", state=ProviderState("chat_completions", "another", {"x": 1}))
    made = wire(user("x"), mine, user("y"), other)
    assert made[1] == {"role": "assistant", "content": "a", "reasoning_details": details}
    assert made[3] == {"role": "assistant", "content": "b"}


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_plain_reasoning_goes_back_beside_tool_calls_only(key: str) -> None:
    made = wire(
        user("x"),
        AssistantStep("", [call("c1")], state=state(**{key: "hm"})),
        ToolResults([ToolResult(call("c1"), "1")]),
        AssistantStep("a", state=state(**{key: "so"})),
    )
    assert made[1][key] == "hm"
    assert key not in made[3]


def test_the_body() -> None:
    tools = [ToolSpec("look", "Looks.", {"type": "object"})]
    options = {"temperature": 0.5, "stream_options": None}
    made = body(ask("x", tools=tools), options=options, **ME)
    assert made == {
        "model": "fake",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks.",
                    "parameters": {"type": "object"},
                },
            }
        ],
        "temperature": 0.5,
    }
    assert body(ask("x"), options={}, **ME)["stream_options"] == {"include_usage": True}
    assert "tools" not in body(ask("x"), options={}, **ME)


async def test_on_the_wire(provider: FakeProvider, http: Http) -> None:
    provider.stream(say("x"), STOP)
    model = ChatCompletions(
        name="m", http=http, base_url=provider.base_url, model="fake", api_key="key-1234"
    )
    await model.respond(ask("Grüße 👩‍🚀"), Recorder())
    request = provider.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer key-1234"
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["content-type"] == "application/json"
    assert request.json["messages"] == [{"role": "user", "content": "Grüße 👩‍🚀"}]
    assert request.json["stream"] is True


async def test_without_a_key_no_authorization_is_sent(provider: FakeProvider, http: Http) -> None:
    provider.stream(STOP)
    model = ChatCompletions(name="m", http=http, base_url=provider.base_url, model="fake")
    await model.respond(ask("x"), Recorder())
    assert "authorization" not in provider.requests[0].headers


async def test_a_step_with_a_tool_and_its_state_round_trip(
    provider: FakeProvider, http: Http
) -> None:
    """What a response gave comes back in the next request as the provider knows it."""
    sink = Recorder()
    detail = {"type": "reasoning.text", "text": "hm", "signature": "sig", "index": 0}
    provider.stream(
        chunk({"reasoning_details": [detail]}),
        say("Looking."),
        tool(0, "call_7", "look", '{"q": 1}'),
        chunk(finish="tool_calls"),
    )
    model = ChatCompletions(name="m", http=http, base_url=provider.base_url, model="fake")
    completion = await model.respond(ask("x"), sink)
    made = sink.calls["call-1"]
    one = ToolCall(made.id, made.name, json.loads(made.input_text or ""), made.provider_id)
    step = AssistantStep(sink.all_text, [one], completion.state)
    provider.stream(say("Done."), STOP)
    entries = [*ask("x").entries, step, ToolResults([ToolResult(one, "found")])]
    await model.respond(ModelRequest(entries), sink)
    assert provider.requests[1].json["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {
                    "id": "call_7",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"q":1}'},
                }
            ],
            "reasoning_details": [detail],
        },
        {"role": "tool", "tool_call_id": "call_7", "content": "found"},
    ]


CALLS = st.lists(st.sampled_from([None, "", "a", "b"]), max_size=3)
STEPS = st.lists(st.tuples(st.text(max_size=3), CALLS, st.booleans(), st.booleans()), max_size=5)


@given(STEPS)
def test_every_history_has_the_shape_that_providers_demand(
    steps: list[tuple[str, list[str | None], bool, bool]],
) -> None:
    """Roles alternate, each call has exactly one result behind it, ids are unique in a step."""
    entries: list[Entry] = []
    for number, (text, ids, answered, interrupted) in enumerate(steps):
        calls = [call(f"c{number}-{n}", id_) for n, id_ in enumerate(ids)]
        entries += [user(f"u{number}"), AssistantStep(text, calls, interrupted=interrupted)]
        if answered and calls:
            entries.append(ToolResults([ToolResult(c, "r") for c in calls]))
    entries.append(user("last"))
    made = wire(*entries)
    previous = ""
    waiting: list[str] = []
    for message in made:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting
        assert message["role"] != previous
        previous = message["role"]
        waiting = [c["id"] for c in message.get("tool_calls", [])]
        assert len(set(waiting)) == len(waiting)
    assert made[-1]["role"] == "user"
    assert made[-1]["content"].endswith("last")
    text = json.dumps(made)
    assert all(f"u{number}" in text for number in range(len(steps)))


@given(STEPS)
def test_more_entries_never_change_what_was_sent(
    steps: list[tuple[str, list[str | None], bool, bool]],
) -> None:
    """Append-only: providers cache, and bind signatures to, the exact prefix."""
    entries: list[Entry] = [user("u")]
    before = wire(*entries)
    for number, (text, ids, _, _) in enumerate(steps):
        calls = [call(f"c{number}-{n}", id_) for n, id_ in enumerate(ids)]
        entries.append(AssistantStep(text or "t", calls))
        if calls:
            entries.append(ToolResults([ToolResult(c, "r") for c in calls]))
        entries.append(user(f"u{number}"))
        after = wire(*entries)
        assert after[: len(before)] == before
        before = after


def test_images_and_text_files_reach_the_model() -> None:
    picture = {"type": "file", "name": "a.png", "mediaType": "image/png", "data": b"\x89PNG"}
    note = {"type": "file", "name": 'a"b.txt', "mediaType": "text/plain", "data": "né".encode()}
    made = wire(UserEntry([{"type": "text", "text": "See"}, picture, note]), UserEntry([picture]))
    seen = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    assert made == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See"},
                seen,
                {"type": "text", "text": '<file name="a&quot;b.txt">\nné\n</file>'},
                seen,
            ],
        }
    ]


def test_text_after_an_image_and_before_one_keeps_its_place() -> None:
    picture = {"type": "file", "name": "a.png", "mediaType": "image/png", "data": b"\x89PNG"}
    text = {"type": "text", "text": "Which?"}
    made = wire(UserEntry([text]), UserEntry([picture, text]))
    kinds = [part["type"] for part in made[0]["content"]]
    assert kinds == ["text", "image_url", "text"]
