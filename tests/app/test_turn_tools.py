"""Tool calls in a turn: the fence before them, their results, their faults (S5-S7, P36)."""

import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app import events as ev
from app.models.interface import (
    AssistantStep,
    Completion,
    Entry,
    ModelRequest,
    Sink,
    ToolResult,
    ToolResults,
)
from app.tools import Toolbox, ToolError
from app.turns.steps import UNKNOWN_RESULT
from tests.app import truth
from tests.app.world import Probe, Script, ScriptedModel, World, calls, fails, hangs, says, world


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


def asks(*wanted: tuple[str, str], text: str = "") -> Script:
    """A response that calls these tools, each with that input."""

    async def script(_request: ModelRequest, sink: Sink) -> Completion:
        if text:
            sink.text(text)
        for name, input_text in wanted:
            sink.tool_ready(sink.tool_start(name), input_text)
            await sink.room()
        await trio.lowlevel.checkpoint()
        return Completion("tool-calls")

    return script


def results(entries: list[Entry]) -> list[tuple[Any, bool]]:
    """What the model is told of all calls, in order: output, and whether it is an error."""
    found = [entry.results for entry in entries if isinstance(entry, ToolResults)]
    return [(one.output, one.is_error) for several in found for one in several]


def raising(error: Exception) -> Callable[[Any], Awaitable[Any]]:
    async def do(_arguments: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise error

    return do


def giving(output: Any) -> Callable[[Any], Awaitable[Any]]:
    async def do(_arguments: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return output

    return do


@pytest.mark.requirement("S5")
async def test_a_tool_starts_only_after_that_is_on_record(
    autojump_clock: MockClock, path: Path
) -> None:
    """The fence: when it runs, its dispatch and its whole step are in the store."""
    seen: list[str] = []
    async with world(path, ScriptedModel(), tools=Toolbox([])) as w:

        async def do(_arguments: Any) -> Any:
            row = (await w.turns())[0]
            log = await w.services.database.read(
                lambda c: truth.log_of(c, row.stream, row.stream_id)
            )
            seen.extend(log.types)

        box = w.services.turns._toolbox
        box._tools["probe"] = Probe(do=do)
        model = w.services.catalogue.get()
        assert isinstance(model, ScriptedModel)
        model.scripts += [calls("probe"), says("fine")]
        await w.answer()
    assert seen[-1] == "ToolDispatched"
    assert "FinishStep" in seen


async def test_calls_of_a_step_run_side_by_side(autojump_clock: MockClock, path: Path) -> None:
    """Each waits for the other; their results are told in the order of the calls."""
    events = [trio.Event(), trio.Event()]

    async def first(_arguments: Any) -> str:
        events[0].set()
        await events[1].wait()
        await trio.sleep(5)  # so it ends last
        return "first"

    async def second(_arguments: Any) -> str:
        events[1].set()
        await events[0].wait()
        return "second"

    tools = Toolbox([Probe("first", first), Probe("second", second)])
    model = ScriptedModel(asks(("first", "{}"), ("second", "{}")), says("fine"))
    async with world(path, model, tools=tools) as w:
        seen = await w.answer()
        outputs = [e.output for e in seen.events if isinstance(e, ev.ToolOutputAvailable)]
        assert outputs == ["second", "first"]
        assert results(model.requests[1].entries) == [("first", False), ("second", False)]
        await truth.check(w)


async def test_whatever_goes_wrong_with_a_call_is_told_to_the_model(
    autojump_clock: MockClock, path: Path
) -> None:
    """One step with a good call and every kind of bad one; the turn goes on."""
    good = Probe("good")
    tools = Toolbox([good, Probe("sad", raising(ToolError("the file \ud83d is gone")))])
    wanted = [("good", '{"a": 1}'), ("none", "{}"), ("sad", "{}"), ("good", '{"a": NaN}')]
    model = ScriptedModel(asks(*wanted), says("fine"))
    async with world(path, model, tools=tools) as w:
        seen = await w.answer()
        assert seen.outcome.code == "FINISHED"
        told = results(model.requests[1].entries)
        assert told[:3] == [
            ({"ok": True}, False),
            ("There is no tool named 'none'", True),
            ("the file \ufffd is gone", True),
        ]
        assert told[3][1]
        assert "not valid JSON" in told[3][0]
        assert good.runs == [{"a": 1}]
        states = [part["state"] for part in seen.fold.parts() if part["type"] == "tool"]
        assert states == ["output-available", "output-error", "output-error", "input-error"]
        dispatched = [e for e in seen.events if isinstance(e, ev.ToolDispatched)]
        assert len(dispatched) == 2  # what did not start is not said to have started
        await truth.check(w)


@pytest.mark.requirement("O1")
async def test_a_fault_in_a_tool_is_the_turns_own(autojump_clock: MockClock, path: Path) -> None:
    """The turn ends INTERNAL, its other call is cut short, another thread notices nothing."""
    cut = trio.Event()

    async def slow(_arguments: Any) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            cut.set()

    tools = Toolbox([Probe("bug", raising(RuntimeError("secret detail"))), Probe("slow", slow)])
    model = ScriptedModel(asks(("slow", "{}"), ("bug", "{}")), says("fine"))
    other = ScriptedModel(says(*"other", every=1), name="other")
    async with world(path, model, other, tools=tools) as w:
        beside = await w.send(thread="thread-02", model="other")
        seen = await w.answer()
        assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "INTERNAL")
        assert "secret" not in str(seen.events)
        assert cut.is_set()
        calls_ = [part for part in seen.fold.parts() if part["type"] == "tool"]
        assert [part["unknown"] for part in calls_] == [True, True]
        assert (await w.read(beside.turn.stream_id)).text == "other"
        assert (await w.answer()).text == "fine"
        await truth.check(w)


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
DEEP: Any = "bottom"
for _ in range(600):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "output", [object(), {(1, 2): 3}, CIRCLE, DEEP], ids=["object", "key", "circle", "deep"]
)
async def test_a_result_that_cannot_be_kept_is_told(
    autojump_clock: MockClock, path: Path, output: Any
) -> None:
    """It is the tool's error, not the end of the turn, and never the end of the server."""
    model = ScriptedModel(calls("probe"), says("fine"))
    async with world(path, model, tools=Toolbox([Probe(do=giving(output))])) as w:
        seen = await w.answer()
        assert seen.outcome.code == "FINISHED"
        ((told, is_error),) = results(model.requests[1].entries)
        assert is_error
        assert told.startswith("The result of the tool is ")
        assert (await w.answer()).outcome.code == "FINISHED"
        await truth.check(w)


@pytest.mark.parametrize(
    "output", [None, False, 0, "", [], {}, {"n": 2**70}, "\U0001f600", (1, {"a": (2,)})]
)
async def test_every_result_is_told_again_as_it_was(
    autojump_clock: MockClock, path: Path, output: Any
) -> None:
    """To the same turn, to the next turn, and to the one after a restart: the same bytes."""
    model = ScriptedModel(calls("probe"), says("fine"))
    async with world(path, model, tools=Toolbox([Probe(do=giving(output))])) as w:
        await w.answer(id_="message-a")
        await w.answer(id_="message-b")
        await truth.check(w)
    async with world(path, model) as w:
        await w.answer(id_="message-c")
    told = [request.entries for request in model.requests[1:]]
    assert len(told) == 3
    for before, after in itertools.pairwise(told):
        assert after[: len(before)] == before
    ((kept, is_error),) = results(told[0])
    assert not is_error
    assert kept == ([1, {"a": [2]}] if isinstance(output, tuple) else output)
    assert type(kept) is (list if isinstance(output, tuple) else type(output))


async def test_a_tool_cannot_change_what_it_was_asked(
    autojump_clock: MockClock, path: Path
) -> None:
    async def greedy(arguments: Any) -> str:
        arguments["list"].clear()
        arguments.clear()
        await trio.lowlevel.checkpoint()
        return "done"

    model = ScriptedModel(calls("probe", '{"list": [1, 2]}'), says("fine"))
    async with world(path, model, tools=Toolbox([Probe(do=greedy)])) as w:
        seen = await w.answer()
        step = model.requests[1].entries[1]
        assert isinstance(step, AssistantStep)
        assert step.calls[0].input == {"list": [1, 2]}
        assert seen.fold.parts()[1]["input"] == {"list": [1, 2]}
        await truth.check(w)


# What the model sees afterwards


@pytest.mark.requirement("S6")
@pytest.mark.parametrize("how", ["fails", "stopped", "bug"])
async def test_calls_that_completed_stay_in_the_context(
    autojump_clock: MockClock, path: Path, how: str
) -> None:
    """The turn broke after the side effect; the next one's model is told that it happened."""

    async def bug(_request: ModelRequest, _sink: Sink) -> Completion:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("a fault of the program")

    then = {"fails": fails(retryable=False), "stopped": hangs, "bug": bug}[how]
    tool = Probe(do=giving("mail was sent"))
    model = ScriptedModel(calls("probe", text="Sending. "), then, says("on"))
    async with world(path, model, tools=Toolbox([tool])) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()
        if how == "stopped":
            await w.services.turns.cancel(sent.turn.stream_id)
        seen = await w.read(sent.turn.stream_id)
        assert seen.outcome.code in ("MODEL_ERROR", "CANCELLED", "INTERNAL")
        await w.answer()
        entries = model.requests[2].entries
        assert results(entries) == [("mail was sent", False)]
        step = entries[1]
        assert isinstance(step, AssistantStep)
        assert (step.text, len(step.calls)) == ("Sending. ", 1)
        assert len(tool.runs) == 1
        await truth.check(w)


@pytest.mark.requirement("S5", "R1")
@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_call_that_a_restart_cut(
    autojump_clock: MockClock, path: Path, idempotent: bool
) -> None:
    """P36: told as unknown and never run again, unless it says that this does no harm."""

    async def slow(_arguments: Any) -> str:
        await trio.sleep(100)
        return "done"

    tool = Probe(do=slow)
    tool.idempotent = idempotent
    model = ScriptedModel(calls("probe"), says("fine"))
    async with world(path, model, tools=Toolbox([tool]), grace=0) as w:
        sent = await w.send()
        await trio.sleep(1)
        assert len(tool.runs) == 1
    async with world(path, model, tools=Toolbox([tool])) as w:
        seen = await w.read(sent.turn.stream_id)
        assert (seen.outcome.code, seen.text) == ("FINISHED", "fine")
        assert len(tool.runs) == (2 if idempotent else 1)
        expected = ("done", False) if idempotent else (UNKNOWN_RESULT, True)
        assert results(model.requests[1].entries) == [expected]
        (call,) = [part for part in seen.fold.parts() if part["type"] == "tool"]
        assert call.get("unknown", False) is not idempotent
        await truth.check(w)


@pytest.mark.requirement("S5", "R1")
async def test_only_what_is_missing_runs_after_a_restart(
    autojump_clock: MockClock, path: Path
) -> None:
    """Of two calls one had its result: that one is not run again, also if it might be."""

    async def slow(_arguments: Any) -> str:
        await trio.sleep(100)
        return "done"

    quick, late = Probe("quick"), Probe("late", slow)
    quick.idempotent = late.idempotent = True
    tools = Toolbox([quick, late])
    model = ScriptedModel(asks(("quick", "{}"), ("late", "{}")), says("fine"))
    async with world(path, model, tools=tools, grace=0) as w:
        sent = await w.send()
        await trio.sleep(1)
    async with world(path, model, tools=tools) as w:
        await w.read(sent.turn.stream_id)
        assert (len(quick.runs), len(late.runs)) == (1, 2)
        assert results(model.requests[1].entries) == [({"ok": True}, False), ("done", False)]


@pytest.mark.requirement("S7")
async def test_history_names_each_call_once(autojump_clock: MockClock, path: Path) -> None:
    """A provider that calls everything `call_0`: results still find their calls."""

    async def same(request: ModelRequest, sink: Sink) -> Completion:
        made = sum(isinstance(entry, ToolResults) for entry in request.entries)
        if made == 3:
            return await says("fine")(request, sink)
        sink.tool_ready(sink.tool_start("probe", "call_0"), f'{{"n": {made}}}')
        await trio.lowlevel.checkpoint()
        return Completion("tool-calls")

    async def echo(arguments: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return arguments["n"]

    model = ScriptedModel(same)
    async with world(path, model, tools=Toolbox([Probe(do=echo)])) as w:
        await w.answer()
        found = [entry for entry in model.requests[-1].entries if isinstance(entry, ToolResults)]
        settled: list[ToolResult] = [one for entry in found for one in entry.results]
        assert [(one.call.input["n"], one.output) for one in settled] == [(0, 0), (1, 1), (2, 2)]
        assert len({one.call.id for one in settled}) == 3
        assert {one.call.provider_id for one in settled} == {"call_0"}


async def test_a_turn_has_a_limit_of_steps(autojump_clock: MockClock, path: Path) -> None:
    tool = Probe()
    model = ScriptedModel(calls("probe"))
    async with world(path, model, tools=Toolbox([tool]), max_steps=4) as w:
        seen = await w.answer()
        assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "TOO_MANY_STEPS")
        assert len(model.requests) == len(tool.runs) == 4
        await truth.check(w)


async def test_history_grows_only_at_its_end(autojump_clock: MockClock, path: Path) -> None:
    """Within a turn and over turns each request begins with the one before: caches hold."""
    model = ScriptedModel(
        calls("probe", text="one"), fails("ghost"), calls("probe", text="two"), says("three")
    )

    async def answer(w: World) -> None:
        await w.answer()
        model.scripts = [calls("probe", text="four"), says("five")] * 4
        await w.answer()

    async with world(path, model, tools=Toolbox([Probe()])) as w:
        await answer(w)
    requests = [request.entries for request in model.requests]
    for before, after in itertools.pairwise(requests):
        assert after[: len(before)] == before
