"""Deadlines: the whole turn, one tool call; off; asleep; through a restart (T3)."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app import events as ev
from app.clock import COMPARE_SECONDS
from app.models.catalogue import Limits
from app.tools import Toolbox
from tests.app import truth
from tests.app.world import (
    Paused,
    Probe,
    ScriptedModel,
    TimedModel,
    Wall,
    calls,
    hangs,
    says,
    world,
)

HOUR = 3600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


@pytest.mark.requirement("T3", "O1")
async def test_a_turn_ends_at_its_deadline(autojump_clock: MockClock, path: Path) -> None:
    """The default hour; the outcome names it, and what was said is kept."""
    pieces = ["word "] * 1000
    async with world(path, ScriptedModel(says(*pieces, every=10))) as w:
        seen = await w.answer()
        assert trio.current_time() == pytest.approx(HOUR)
        assert (seen.outcome.outcome, seen.outcome.code) == ("aborted", "TURN_TIMEOUT")
        assert "1 hour" in seen.outcome.text
        assert seen.outcome.retryable
        assert len(seen.text) > 300 * len("word ")
        await truth.check(w)


@pytest.mark.requirement("T3")
async def test_the_deadline_can_be_set(autojump_clock: MockClock, path: Path) -> None:
    model = Paused("so far")
    async with world(path, ScriptedModel(model), turn_timeout=90.0) as w:
        seen = await w.answer()
        assert trio.current_time() == pytest.approx(90)
        assert "90 seconds" in seen.outcome.text
        assert model.cancelled


@pytest.mark.requirement("T3")
async def test_the_deadline_can_be_off(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(says("a", "b", every=HOUR))
    limits = Limits(header=None, chunk=None, alive=None)
    async with world(path, model, limits=limits, turn_timeout=None) as w:
        seen = await w.answer()
        assert (seen.text, seen.outcome.code) == ("ab", "FINISHED")


@pytest.mark.requirement("T3")
async def test_the_deadline_holds_between_retries(autojump_clock: MockClock, path: Path) -> None:
    """Also in a pause, and the retries do not start it anew."""
    model = TimedModel(hangs)
    limits = Limits(header=50, max_retries=100)
    async with world(path, model, limits=limits, turn_timeout=500.0) as w:
        seen = await w.answer()
        assert trio.current_time() == pytest.approx(500)
        assert seen.outcome.code == "TURN_TIMEOUT"
        await truth.check(w)


@pytest.mark.requirement("T3")
async def test_time_in_the_queue_does_not_count(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(says("one", every=80), says("two", every=80))
    async with world(path, model, turn_timeout=100.0) as w:
        await w.send()
        second = await w.send()
        seen = await w.read(second.turn.stream_id)
        assert (seen.text, seen.outcome.code) == ("two", "FINISHED")
        assert trio.current_time() == pytest.approx(160)


@pytest.mark.requirement("T3")
async def test_a_laptop_that_slept_a_night(autojump_clock: MockClock, path: Path) -> None:
    """Trio's clock stood still; the turn is over within seconds of waking up."""
    running = Paused("so far")
    async with world(path, ScriptedModel(running)) as w:
        sent = await w.send()
        await trio.sleep(60)
        w.wall.ahead += 8 * HOUR
        seen = await w.read(sent.turn.stream_id)
        assert trio.current_time() <= 60 + COMPARE_SECONDS
        assert (seen.outcome.code, seen.text) == ("TURN_TIMEOUT", "so far")
        assert running.cancelled


@pytest.mark.requirement("T3", "R1")
async def test_the_deadline_survives_a_restart(autojump_clock: MockClock, path: Path) -> None:
    """Ten minutes, of which the server was down for four: six are left of the ten."""
    wall = Wall()
    async with world(path, ScriptedModel(hangs), wall=wall, grace=0, turn_timeout=600.0) as w:
        sent = await w.send()
        await trio.sleep(60)
    wall.ahead += 240
    async with world(path, ScriptedModel(hangs), wall=wall, turn_timeout=7200.0) as w:
        seen = await w.read(sent.turn.stream_id)
        assert trio.current_time() + wall.ahead == pytest.approx(600)
        assert seen.outcome.code == "TURN_TIMEOUT"
        assert "10 minutes" in seen.outcome.text
        await truth.check(w)


@pytest.mark.requirement("T3", "R1")
async def test_a_deadline_that_passed_while_the_server_was_down(
    autojump_clock: MockClock, path: Path
) -> None:
    wall = Wall()
    running = Paused("so far")
    async with world(path, ScriptedModel(running), wall=wall, grace=0, turn_timeout=600.0) as w:
        sent = await w.send()
        await running.reached.wait()
        await trio.sleep(1)
    wall.ahead += 24 * HOUR
    model = ScriptedModel(says("never asked"))
    async with world(path, model, wall=wall) as w:
        seen = await w.read(sent.turn.stream_id)
        assert (seen.outcome.code, seen.text) == ("TURN_TIMEOUT", "so far")
        assert "10 minutes" in seen.outcome.text
        assert model.requests == []
        await truth.check(w)


# Tools


def waits(seconds: float) -> Probe:
    async def do(_arguments: Any) -> str:
        await trio.sleep(seconds)
        return "done"

    return Probe(do=do)


@pytest.mark.requirement("T3")
@pytest.mark.parametrize(
    ("timeout", "takes", "ends", "result"),
    [
        (300.0, 299, 299, "done"),
        (300.0, 10_000, 300, "The tool took longer than 5 minutes and was stopped."),
        (0.5, 10_000, 0.5, "The tool took longer than 0.5 seconds and was stopped."),
        (None, 3000, 3000, "done"),
    ],
)
async def test_a_tool_call_has_a_deadline(
    autojump_clock: MockClock,
    path: Path,
    timeout: float | None,
    takes: float,
    ends: float,
    result: str,
) -> None:
    """The turn goes on after it: the model is told."""
    tool = waits(takes)
    model = TimedModel(calls("probe"), says("fine"))
    async with world(path, model, tools=Toolbox([tool]), tool_timeout=timeout) as w:
        seen = await w.answer()
        assert model.times[1] == pytest.approx(ends)
        call = seen.fold.parts()[1]
        assert call.get("output", call.get("errorText")) == result
        told = model.requests[1].entries[-1]
        assert [one.output for one in getattr(told, "results", [])] == [result]
        assert seen.outcome.code == "FINISHED"
        await truth.check(w)


@pytest.mark.requirement("T3")
async def test_a_tool_call_asleep(autojump_clock: MockClock, path: Path) -> None:
    model = TimedModel(calls("probe"), says("fine"))
    async with world(path, model, tools=Toolbox([waits(10_000)]), turn_timeout=None) as w:
        sent = await w.send()
        await trio.sleep(60)
        w.wall.ahead += 8 * HOUR
        seen = await w.read(sent.turn.stream_id)
        assert model.times[1] <= 60 + COMPARE_SECONDS
        assert "ToolOutputError" in seen.types
        assert seen.outcome.code == "FINISHED"


@pytest.mark.requirement("T3")
async def test_the_turns_deadline_ends_a_tool_call(autojump_clock: MockClock, path: Path) -> None:
    tools = Toolbox([waits(10_000)])
    model = ScriptedModel(calls("probe", text="Let me see."))
    async with world(path, model, tools=tools, turn_timeout=100.0) as w:
        seen = await w.answer()
        assert seen.outcome.code == "TURN_TIMEOUT"
        assert seen.fold.parts()[-1]["unknown"] is True
        await truth.check(w)


@pytest.mark.requirement("T3")
async def test_a_tool_that_fails_at_the_turns_deadline(
    autojump_clock: MockClock, path: Path
) -> None:
    """Its fault does not hide the deadline."""

    async def do(_arguments: Any) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            raise RuntimeError("a fault in its cleaning up")

    tools = Toolbox([Probe(do=do)])
    async with world(path, ScriptedModel(calls("probe")), tools=tools, turn_timeout=100.0) as w:
        assert (await w.answer()).outcome.code == "TURN_TIMEOUT"


@pytest.mark.requirement("T3")
async def test_a_stop_at_the_deadline_is_one_of_the_two(
    autojump_clock: MockClock, path: Path
) -> None:
    running = Paused("so far")
    async with world(path, ScriptedModel(running), turn_timeout=100.0) as w:
        sent = await w.send()
        await trio.sleep(100)
        await w.services.turns.cancel(sent.turn.stream_id)
        seen = await w.read(sent.turn.stream_id)
        assert seen.outcome.code in ("CANCELLED", "TURN_TIMEOUT")
        assert [event for event in seen.events if isinstance(event, ev.Outcome)] == [seen.outcome]
        await wait_all_tasks_blocked()
        await truth.check(w)
