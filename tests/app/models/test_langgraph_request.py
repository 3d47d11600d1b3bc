"""The conversation as a LangGraph server is told it, and what its states say."""

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
    UserEntry,
)
from app.models import langgraph_state as states
from app.models.langgraph_request import base_of, continued, conversation, thread_id, whole
from app.models.transcript import INTERRUPTED, NO_RESULT, NOTHING_SAID
from tests.app.models.wire_langgraph import ai, human, result, state

pytestmark = pytest.mark.requirement("M5")


def user(*texts: str) -> UserEntry:
    return UserEntry([{"type": "text", "text": text} for text in texts])


def told(*entries: Entry) -> list[dict[str, Any]]:
    """Without the ids."""
    made = conversation(entries, "turn-1")
    return [{key: value for key, value in one.items() if key != "id"} for one in made]


def kept(**data: Any) -> ProviderState:
    return ProviderState("langgraph", "agent", {"thread": "t", "checkpoint": "c", **data})


def test_a_plain_conversation() -> None:
    assert told(user("Hi"), AssistantStep("Hello"), user("a", "b")) == [
        {"type": "human", "content": "Hi"},
        {"type": "ai", "content": "Hello", "tool_calls": []},
        {"type": "human", "content": "a\n\nb"},
    ]


@pytest.mark.requirement("S6", "S7")
def test_calls_and_their_results() -> None:
    one, two = ToolCall("c1", "look", {"q": 1}, "x"), ToolCall("c2", "look", [1], "x")
    three = ToolCall("c3", "see", {}, "y")
    found = told(
        AssistantStep("I look.", [one, two]),
        ToolResults([ToolResult(one, {"n": 3}), ToolResult(two, "no", is_error=True)]),
        AssistantStep("", [three]),
        user("Well?"),
    )
    assert found == [
        {
            "type": "ai",
            "content": "I look.",
            "tool_calls": [
                {"type": "tool_call", "id": "c1", "name": "look", "args": {"q": 1}},
                {"type": "tool_call", "id": "c2", "name": "look", "args": {"input": [1]}},
            ],
        },
        {
            "type": "tool",
            "tool_call_id": "c1",
            "name": "look",
            "content": '{"n":3}',
            "status": "success",
        },
        {"type": "tool", "tool_call_id": "c2", "name": "look", "content": "no", "status": "error"},
        {
            "type": "ai",
            "content": "",
            "tool_calls": [{"type": "tool_call", "id": "y", "name": "see", "args": {}}],
        },
        {
            "type": "tool",
            "tool_call_id": "y",
            "name": "see",
            "content": NO_RESULT,
            "status": "error",
        },
        {"type": "human", "content": "Well?"},
    ]


@pytest.mark.requirement("C3")
def test_what_was_cut_short() -> None:
    assert told(AssistantStep("Hel", interrupted=True), user("Go on")) == [
        {"type": "ai", "content": "Hel", "tool_calls": []},
        {"type": "human", "content": f"{INTERRUPTED}\n\nGo on"},
    ]
    assert told(AssistantStep("", interrupted=True), user("Go on")) == [
        {"type": "human", "content": f"{NOTHING_SAID}\n\nGo on"},
    ]


def test_images_and_text_files() -> None:
    png = {"type": "file", "name": "a.png", "mediaType": "image/png", "data": b"\x89PNG"}
    notes = {"type": "file", "name": "n.txt", "mediaType": "text/plain", "data": b"Notes"}
    [message] = told(UserEntry([{"type": "text", "text": "What is this?"}, png, notes]))
    assert message["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {"type": "text", "text": '<file name="n.txt">\nNotes\n</file>'},
    ]


def test_ids_are_the_same_each_time_within_a_turn_and_of_their_own() -> None:
    entries: list[Entry] = [user("a"), AssistantStep("b"), user("a")]
    ids = [message["id"] for message in conversation(entries, "turn-1")]
    assert ids == [message["id"] for message in conversation(entries, "turn-1")]
    others = [message["id"] for message in conversation(entries, "turn-2")]
    assert len({*ids, *others}) == 6


def test_threads_are_of_a_turn() -> None:
    request = ModelRequest([user("Hi")], thread="thread-01")
    assert thread_id(request, "turn-1") == thread_id(request, "turn-1")
    assert thread_id(request, "turn-1") != thread_id(request, "turn-2")
    other = ModelRequest([user("Hi")], thread="thread-02")
    assert thread_id(request, "turn-1") != thread_id(other, "turn-1")


def test_the_answer_begins_behind_the_last_message() -> None:
    given = whole(ModelRequest([user("Hi")], "Be kind."), "turn-1")
    made = given.members["input"]["messages"]
    assert [one["type"] for one in made] == ["system", "human"]
    assert given.after == given.sent == made[-1]["id"]
    assert whole(ModelRequest([]), "turn-1").after is None


def test_the_newest_answer_of_this_agent_is_built_on() -> None:
    entries: list[Entry] = [
        user("1"),
        AssistantStep("a", state=kept(checkpoint="c1")),
        user("2"),
        AssistantStep("b", state=kept(checkpoint="c2", last="m", asks=True)),
        user("3"),
        AssistantStep("c", interrupted=True),
        user("4"),
    ]
    base = base_of(ModelRequest(entries), "langgraph", "agent")
    assert base is not None
    assert (base.checkpoint, base.last, base.asks, base.entries) == ("c2", "m", True, entries[4:])
    assert base_of(ModelRequest(entries), "langgraph", "other") is None
    assert base_of(ModelRequest(entries[:1]), "langgraph", "agent") is None


def test_what_is_said_after_a_question_is_its_answer_unless_more_happened() -> None:
    step = AssistantStep("Really?", state=kept(last="m", asks=True))
    base = base_of(ModelRequest([step, user("Yes")]), "langgraph", "agent")
    assert base is not None
    assert continued(base, "turn-2") == ({"command": {"resume": "Yes"}}, "m", None)
    more = base._replace(entries=[user("Yes"), AssistantStep("D", interrupted=True), user("So?")])
    assert "input" in continued(more, "turn-2").members


# states


def snapshot(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"values": state(*messages), "created_at": "now", **members}


def test_a_checkpoint_that_the_server_does_not_have() -> None:
    """langgraph-api answers with an empty state that has the id that was asked for."""
    asked = {"checkpoint": {"checkpoint_id": "c"}, "created_at": None}
    assert states.checkpoint_of({**asked, "values": {}}) is None
    assert states.checkpoint_of({**asked, "values": state(human())}) == "c"
    assert states.checkpoint_of(snapshot(checkpoint_id="c")) == "c"
    assert states.checkpoint_of({}) is None


def test_a_run_that_has_nothing_more_to_do() -> None:
    assert states.is_over({"next": []})
    assert not states.is_over({"next": ["model"], "tasks": [{"interrupts": []}]})
    assert states.is_over({"next": ["model"], "tasks": [{"interrupts": [{"value": "?"}]}]})


def test_the_tool_that_is_pending() -> None:
    called = ai("a", "", ("x", "look", {}), ("y", "see", {}))
    assert states.pending_tool(snapshot(human(), called)) == "look"
    assert states.pending_tool(snapshot(human(), called, result("x", "1"))) == "see"
    assert states.pending_tool(snapshot(called, result("x", "1"), result("y", "2"))) is None
    assert states.pending_tool({"values": None}) is None


def test_whose_state_it_is() -> None:
    named = snapshot(human(id_="m"), metadata={"unbroken_turn": "turn-1", "run_id": "r"})
    assert states.is_of(named, "turn-1", None)
    assert not states.is_of(named, "turn-2", None)
    assert states.is_of(named, "turn-2", "m")
    assert (states.run_of(named), states.last_id(named)) == ("r", "m")
    assert (states.run_of({}), states.last_id({}), states.failure_of({})) == (None, None, "")
    assert states.failure_of({"tasks": [{"error": None}, "?", {"error": "no"}]}) == "no"
