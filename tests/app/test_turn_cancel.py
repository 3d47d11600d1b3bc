"""Stopping: at once, wherever the turn is; what was said is kept (C1-C5, P16, P19)."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app import events as ev
from app.errors import NotFoundError
from app.models.errors import ModelError
from app.models.interface import AssistantStep, Completion, ModelRequest, Sink, ToolResults
from app.tools import Toolbox, ToolError
from app.turns.steps import UNKNOWN_RESULT
from tests.app import truth
from tests.app.world import Paused, Probe, ScriptedModel, World, calls, fails, hangs, says, world


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


async def stop(w: World, stream: str) -> None:
    """The stop of a person, and how long it took in the turn's own time."""
    before = trio.current_time()
    await w.services.turns.cancel(stream)
    await wait_all_tasks_blocked()
    assert trio.current_time() == before, "a stop waited for something"


@pytest.mark.requirement("C1", "C2")
async def test_before_the_first_token(autojump_clock: MockClock, path: Path) -> None:
    model = Paused()
    async with world(path, ScriptedModel(model)) as w:
        sent = await w.send()
        await model.reached.wait()
        await stop(w, sent.turn.stream_id)
        assert model.cancelled
        seen = await w.read(sent.turn.stream_id)
        assert (seen.outcome.outcome, seen.outcome.code) == ("cancelled", "CANCELLED")
        assert seen.fold.parts() == [{"type": "step-start"}]
        await truth.check(w)


@pytest.mark.requirement("C1", "C2", "C3")
async def test_in_the_middle_of_a_text(autojump_clock: MockClock, path: Path) -> None:
    """P16: the 500 tokens are the message; the next turn sees them and that they were cut."""
    pieces = [f"word {n} " for n in range(500)]
    running = Paused(*pieces)
    model = ScriptedModel(running, says("on"))
    async with world(path, model) as w:
        sent = await w.send("first")
        await running.reached.wait()
        await stop(w, sent.turn.stream_id)
        assert running.cancelled
        seen = await w.read(sent.turn.stream_id)
        assert seen.text == "".join(pieces)
        view = (await w.answers())[0]
        assert view.parts == seen.fold.parts()
        assert truth.outcome(view) == seen.outcome
        await w.answer("second")
        assert model.requests[1].entries[1] == AssistantStep("".join(pieces), interrupted=True)
        await truth.check(w)
    async with world(path, model) as w:  # and after a restart
        assert (await w.answers())[0] == view


@pytest.mark.requirement("C1", "C5")
async def test_in_the_pause_before_a_retry(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(fails("gone"))
    async with world(path, model) as w:
        sent = await w.send()
        await trio.sleep(1 + 2 + 4 + 0.01)
        await stop(w, sent.turn.stream_id)
        asked = len(model.requests)
        assert asked > 1
        await trio.sleep(600)
        seen = await w.read(sent.turn.stream_id)
        assert len(model.requests) == asked
        assert (seen.outcome.code, seen.outcome.text) == ("CANCELLED", "Stopped.")
        assert seen.text == ""
        await truth.check(w)


@pytest.mark.requirement("C1", "C2", "S6")
async def test_in_a_tool_call(autojump_clock: MockClock, path: Path) -> None:
    """The tool really ends; that it may have had its effect is told to all."""
    cancelled = trio.Event()

    async def do(_arguments: Any) -> Any:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.set()
            raise

    tool = Probe(do=do)
    model = ScriptedModel(calls("probe", '{"n": 1}', text="Let me see."), says("on"))
    async with world(path, model, tools=Toolbox([tool])) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()
        assert tool.runs == [{"n": 1}]
        await stop(w, sent.turn.stream_id)
        assert cancelled.is_set()
        seen = await w.read(sent.turn.stream_id)
        call = seen.fold.parts()[-1]
        assert (call["state"], call["unknown"]) == ("output-error", True)
        await w.answer()
        results = model.requests[1].entries[2]
        assert isinstance(results, ToolResults)
        assert [one.output for one in results.results] == [UNKNOWN_RESULT]
        assert len(tool.runs) == 1
        await truth.check(w)


@pytest.mark.requirement("C1")
async def test_from_everywhere_at_once(autojump_clock: MockClock, path: Path) -> None:
    running = Paused("so far")
    async with world(path, ScriptedModel(running)) as w:
        sent = await w.send(id_="message-one")
        await running.reached.wait()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(w.services.turns.cancel, sent.turn.stream_id)
                nursery.start_soon(w.services.turns.cancel_message, "thread-01", "message-one")
        seen = await w.read(sent.turn.stream_id)
        assert seen.types.count("Outcome") == 1
        await truth.check(w)


@pytest.mark.requirement("C1")
async def test_a_turn_that_has_ended_is_left_as_it_is(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        sent = await w.send(id_="message-one")
        before = await w.read(sent.turn.stream_id)
        await stop(w, sent.turn.stream_id)
        await w.services.turns.cancel_message("thread-01", "message-one")
        after = await w.read(sent.turn.stream_id)
        assert after.events == before.events
        assert after.outcome.code == "FINISHED"
        await truth.check(w)


@pytest.mark.requirement("C1")
async def test_an_unknown_stream(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        with pytest.raises(NotFoundError) as error:
            await w.services.turns.cancel("no-such-stream")
        assert error.value.code == "STREAM_NOT_FOUND"


@pytest.mark.requirement("C1", "R3")
async def test_by_the_name_of_a_superseded_stream(autojump_clock: MockClock, path: Path) -> None:
    """A tab that slept through a restart has only the old name."""
    async with world(path, ScriptedModel(hangs), grace=0) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()
    running = Paused("again")
    async with world(path, ScriptedModel(running)) as w:
        await running.reached.wait()
        await stop(w, sent.turn.stream_id)
        assert running.cancelled
        seen = await w.read(sent.turn.stream_id)  # led to the successor
        assert seen.outcome.code == "CANCELLED"
        assert seen.text == "again"
        await truth.check(w)


@pytest.mark.requirement("C5")
async def test_a_model_that_fails_as_it_is_stopped(autojump_clock: MockClock, path: Path) -> None:
    """Closing the connection may raise; the turn was stopped all the same, and is not retried."""

    async def script(_request: ModelRequest, sink: Sink) -> Completion:
        sink.text("so far")
        try:
            await trio.sleep_forever()
        finally:
            raise ModelError("The connection broke", code="MODEL_UNREACHABLE", retryable=True)

    model = ScriptedModel(script)
    async with world(path, model) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()
        await stop(w, sent.turn.stream_id)
        await trio.sleep(600)
        seen = await w.read(sent.turn.stream_id)
        assert (seen.outcome.code, seen.text) == ("CANCELLED", "so far")
        assert len(model.requests) == 1
        await truth.check(w)


@pytest.mark.requirement("C3", "C5")
async def test_a_failure_and_a_stop_in_the_same_moment(
    autojump_clock: MockClock, path: Path
) -> None:
    """The stop was first: what was said is not withdrawn for a retry that never comes."""
    async with world(path, ScriptedModel()) as w:

        async def script(_request: ModelRequest, sink: Sink) -> Completion:
            sink.text("so far")
            await trio.sleep(1)
            live = w.services.turns.live((await w.turns())[0].id)
            assert live is not None
            live.stop(live.reason)
            raise ModelError("The connection broke", code="MODEL_UNREACHABLE", retryable=True)

        model = w.services.catalogue.get()
        assert isinstance(model, ScriptedModel)
        model.scripts.append(script)
        seen = await w.answer()
        assert (seen.outcome.code, seen.text) == ("CANCELLED", "so far")
        assert ev.ResetStep("MODEL_UNREACHABLE") not in seen.events
        await truth.check(w)


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("error", [ToolError("no"), RuntimeError("a fault in its cleaning up")])
async def test_a_tool_that_fails_as_it_is_stopped(
    autojump_clock: MockClock, path: Path, error: Exception
) -> None:
    async def do(_arguments: Any) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    model = ScriptedModel(calls("probe"), says("on"))
    async with world(path, model, tools=Toolbox([Probe(do=do)])) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()
        await stop(w, sent.turn.stream_id)
        seen = await w.read(sent.turn.stream_id)
        assert (seen.outcome.code, seen.outcome.text) == ("CANCELLED", "Stopped.")
        await truth.check(w)


@pytest.mark.requirement("C1", "C2")
async def test_one_stop_touches_one_turn(autojump_clock: MockClock, path: Path) -> None:
    first, second = Paused("one"), Paused("two", after="!")
    async with world(path, ScriptedModel(first, second)) as w:
        one = await w.send(thread="thread-01")
        two = await w.send(thread="thread-02")
        await second.reached.wait()
        await stop(w, one.turn.stream_id)
        assert (first.cancelled, second.cancelled) == (True, False)
        second.go.set()
        seen = await w.read(two.turn.stream_id)
        assert (seen.outcome.code, seen.text) == ("FINISHED", "two!")


@pytest.mark.requirement("C4", "O2")
async def test_every_reader_gets_the_end_as_often_as_it_asks(
    autojump_clock: MockClock, path: Path
) -> None:
    """P06: those that follow, one that joins, one that comes back after a restart."""
    running = Paused("so far")
    found: list[ev.Outcome] = []

    async def reader(w: World, stream: str) -> None:
        found.append((await w.read(stream)).outcome)

    async with world(path, ScriptedModel(running)) as w:
        sent = await w.send()
        await running.reached.wait()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(reader, w, sent.turn.stream_id)
            await wait_all_tasks_blocked()
            await stop(w, sent.turn.stream_id)
        await reader(w, sent.turn.stream_id)
    async with world(path, ScriptedModel(hangs)) as w:
        await reader(w, sent.turn.stream_id)
        found.append(truth.outcome((await w.answers())[0]))
    assert len(found) == 6
    assert set(map(ev.encode, found)) == {ev.encode(found[0])}
