"""A model that falls silent, and one that is merely slow (S1, S2, P02, P37)."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from app.models.catalogue import Limits
from app.models.interface import Completion, ModelRequest, Sink
from app.tools import Toolbox
from tests.app.world import Probe, ScriptedModel, TimedModel, calls, hangs, says, world


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


@pytest.mark.requirement("S1", "S2")
async def test_a_model_that_never_answers(autojump_clock: MockClock, path: Path) -> None:
    """P37: seen as stalled at the limit, ended within a stated total."""
    model = TimedModel(hangs)
    async with world(path, model, limits=Limits(header=10, max_retries=2)) as w:
        sent = await w.send()
        await trio.sleep(10.5)
        view = (await w.answers())[0]
        assert view.turn is not None
        assert (view.turn.status.state, view.turn.status.attempt) == ("retrying", 2)
        assert view.turn.status.text == "The model stopped responding."
        seen = await w.read(sent.turn.stream_id)
        assert seen.outcome.code == "MODEL_STALLED"
        assert seen.outcome.text == "The model stopped responding. (asked 3 times)"
        assert trio.current_time() <= 3 * 10 + 1 + 2


@pytest.mark.requirement("S1")
async def test_comments_do_not_feed_the_watchdog(autojump_clock: MockClock, path: Path) -> None:
    """P02: a provider that only pings is as silent as one that does not."""

    async def pings(_request: ModelRequest, sink: Sink) -> Completion:
        while True:
            await trio.sleep(5)
            sink.alive()

    model = TimedModel(pings, says("at last"))
    limits = Limits(header=30, chunk=60, alive=600)
    async with world(path, model, limits=limits) as w:
        seen = await w.answer()
        assert seen.text == "at last"
        assert model.times[1] == pytest.approx(30 + 0.9, abs=0.2)


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(header=10, chunk=60), 5 + 60),
        (Limits(header=300, chunk=20), 5 + 20),
        (Limits(header=10, chunk=None, alive=100), 5 + 100),
        (Limits(header=None, chunk=20), 5 + 20),
    ],
)
async def test_silence_in_the_middle(
    autojump_clock: MockClock, path: Path, limits: Limits, expected: float
) -> None:
    async def stalls(_request: ModelRequest, sink: Sink) -> Completion:
        await trio.sleep(5)
        sink.text("Hel")
        await trio.sleep_forever()
        raise AssertionError

    model = TimedModel(stalls, says("Hello"))
    async with world(path, model, limits=limits) as w:
        seen = await w.answer()
        assert seen.text == "Hello"
        assert model.times[1] - 1 <= expected <= model.times[1]


@pytest.mark.requirement("S1")
async def test_off_removes_the_protection(autojump_clock: MockClock, path: Path) -> None:
    limits = Limits(header=None, chunk=None, alive=None)

    async def slow(_request: ModelRequest, sink: Sink) -> Completion:
        await trio.sleep(1800)
        sink.text("slow")
        await trio.sleep(1700)
        return Completion("stop")

    model = TimedModel(slow)
    async with world(path, model, limits=limits) as w:
        seen = await w.answer()
        assert (seen.text, len(model.requests)) == ("slow", 1)


@pytest.mark.requirement("S1")
async def test_a_quiet_tool_is_no_silence(autojump_clock: MockClock, path: Path) -> None:
    """P37: a 200 s tool raises nothing under limits of a few seconds."""

    async def slow(_arguments: Any) -> str:
        await trio.sleep(200)
        return "done"

    model = TimedModel(calls("probe"), says("fine"))
    limits = Limits(header=5, chunk=5, alive=5)
    async with world(path, model, limits=limits, tools=Toolbox([Probe(do=slow)])) as w:
        seen = await w.answer()
        assert seen.text == "fine"
        assert "ResetStep" not in seen.types
        assert len(model.requests) == 2


@pytest.mark.requirement("S1")
async def test_steady_output_may_last(autojump_clock: MockClock, path: Path) -> None:
    pieces = ["x"] * 400
    limits = Limits(header=5, chunk=5, alive=5)
    async with world(path, ScriptedModel(says(*pieces, every=4)), limits=limits) as w:
        seen = await w.answer()
        assert seen.text == "x" * 400
        assert trio.current_time() == pytest.approx(1600)
