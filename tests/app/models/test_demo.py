"""The built-in demonstration model."""

import json
import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from app.models import (
    AssistantStep,
    Completion,
    ModelError,
    ModelRequest,
    ToolCall,
    ToolResult,
    ToolResults,
    ToolSpec,
)
from app.models import demo_text as said
from app.models.demo import Demo
from tests.app.models.conftest import ask
from tests.app.models.recorder import Recorder

pytestmark = pytest.mark.requirement("E3")

WAIT = ToolSpec("wait", "Waits.", {"type": "object"})


async def play(text: str, sink: Recorder, **members: Any) -> Completion:
    return await Demo().respond(ask(text, **members), sink)


async def test_it_says_what_it_is_and_shows_markdown(
    sink: Recorder, autojump_clock: MockClock
) -> None:
    completion = await play("Hello!", sink)
    assert sink.all_text == said.INTRODUCTION
    for sign in ("demonstration", "no network", "|---|", "\n1. ", "```python", "`flaky`"):
        assert sign in sink.all_text
    assert completion.finish_reason == "stop"
    assert completion.usage is not None


async def test_pieces_come_at_a_natural_pace(sink: Recorder, autojump_clock: MockClock) -> None:
    began = trio.current_time()
    await play("Hello!", sink)
    rate = len(sink.text_deltas) / (trio.current_time() - began)
    assert 30 < rate < 60
    assert max(map(len, sink.text_deltas)) <= 7
    assert sink.rooms == len(sink.text_deltas)


async def test_the_same_request_gives_the_same_pieces_and_another_seed_others(
    autojump_clock: MockClock,
) -> None:
    first, again, other = Recorder(), Recorder(), Recorder()
    await Demo().respond(ask("Hello!"), first)
    await Demo().respond(ask("Hello!"), again)
    await Demo(seed=1).respond(ask("Hello!"), other)
    assert first.text_deltas == again.text_deltas != other.text_deltas
    assert first.all_text == other.all_text


async def test_later_answers_are_shorter_and_explain_the_words_again(
    sink: Recorder, autojump_clock: MockClock
) -> None:
    entries = [*ask("Hello!").entries, AssistantStep("…"), *ask("And now?").entries]
    await Demo().respond(ModelRequest(entries), sink)
    assert sink.all_text == said.ANSWER
    assert said.COMMANDS in sink.all_text


@pytest.mark.requirement("M3")
@pytest.mark.parametrize(
    "text", ["", "|a|\n|\n||", "  two  spaces ", "👩‍🚀\né\u2028x", "echo echo"]
)
async def test_echo_repeats_exactly(sink: Recorder, text: str, autojump_clock: MockClock) -> None:
    await play(f"echo {text}", sink)
    assert sink.all_text == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("long", 120), ("Long 10 minutes", 600), ("long 30 s", 30), ("long 2m", 120)],
)
async def test_a_long_turn(
    sink: Recorder, text: str, seconds: float, autojump_clock: MockClock
) -> None:
    began = trio.current_time()
    await play(text, sink)
    assert seconds <= trio.current_time() - began < seconds + 10


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("long 1", "1 second"),
        ("long 2", "2 seconds"),
        ("long 0", "0 seconds"),
        ("long 60", "60 seconds"),
        ("long 2 minutes", "2 minutes"),
        ("long 121", "2 minutes 1 second"),
        ("long 1 hour", "1 hour"),
    ],
)
async def test_a_long_turn_counts_as_people_do(
    sink: Recorder, text: str, spoken: str, autojump_clock: MockClock
) -> None:
    await play(text, sink)
    assert f"This goes on for about {spoken}. " in sink.all_text
    assert sink.all_text.endswith(f"\nThat was {spoken}. The demonstration is over.\n")
    assert not re.search(r"\b1 (seconds|minutes|hours)\b", sink.all_text)


async def test_thinking_comes_before_the_answer(sink: Recorder, autojump_clock: MockClock) -> None:
    await play("think about it", sink)
    assert sink.kinds == ["reasoning", "end_part", "text"]
    assert sink.all_reasoning == said.THINKING


async def test_a_slow_tool_is_called_and_its_result_told(
    sink: Recorder, autojump_clock: MockClock
) -> None:
    completion = await play("tool 3", sink, tools=[WAIT])
    assert completion.finish_reason == "tool-calls"
    (made,) = sink.calls.values()
    assert (made.name, json.loads(made.input_text or "")) == ("wait", {"seconds": 3})
    assert "".join(made.fragments) == made.input_text

    answer = Recorder()
    one = ToolCall(made.id, made.name, {"seconds": 3})
    results = ToolResults([ToolResult(one, {"waited": 3})])
    entries = [*ask("tool 3").entries, AssistantStep(sink.all_text, [one]), results]
    completion = await Demo().respond(ModelRequest(entries, tools=[WAIT]), answer)
    assert completion.finish_reason == "stop"
    assert '`wait` answered: {"waited":3}' in answer.all_text


async def test_several_tools_at_once(sink: Recorder, autojump_clock: MockClock) -> None:
    await play("tool 1 and 2.5", sink, tools=[WAIT])
    inputs = [json.loads(made.input_text or "") for made in sink.calls.values()]
    assert inputs == [{"seconds": 1}, {"seconds": 2.5}]


async def test_no_tool_to_call(sink: Recorder, autojump_clock: MockClock) -> None:
    completion = await play("tool", sink)
    assert (completion.finish_reason, sink.calls) == ("stop", {})
    assert sink.all_text == said.TOOL_MISSING


async def test_a_failure(sink: Recorder, autojump_clock: MockClock) -> None:
    with pytest.raises(ModelError) as caught:
        await play("fail", sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_ERROR", False)
    assert sink.all_text == said.FAIL_OPENING


@pytest.mark.parametrize(("text", "failures"), [("flaky", 1), ("flaky 3", 3)])
async def test_a_failure_that_passes(text: str, failures: int, autojump_clock: MockClock) -> None:
    demo = Demo()
    for _ in range(2):  # asked a second time, it is as flaky again
        for _ in range(failures):
            with pytest.raises(ModelError) as caught:
                await demo.respond(ask(text), Recorder())
            assert caught.value.retryable
        last = {1: "(attempt 1 of 1 that fails)", 3: "(attempt 3 of 3 that fail)"}
        assert last[failures] in caught.value.text
        sink = Recorder()
        await demo.respond(ask(text), sink)
        assert sink.all_text == said.FLAKY_SUCCESS.format(failures=failures)


async def test_a_stall_ends_only_by_cancelling(sink: Recorder, autojump_clock: MockClock) -> None:
    with trio.move_on_after(100_000) as scope:
        await play("stall", sink)
    assert scope.cancelled_caught
    assert sink.all_text == said.STALL_OPENING
