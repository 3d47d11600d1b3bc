"""A model request that fails: asked again, withdrawn, given up (S1-S5, O5, P15)."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from app import events as ev
from app.models.catalogue import Limits
from app.models.interface import Completion, ModelRequest, ProviderState, Sink, UserEntry
from app.tools import Toolbox
from tests.app import truth
from tests.app.world import (
    EPOCH_MS,
    Probe,
    ScriptedModel,
    Seen,
    TimedModel,
    calls,
    fails,
    says,
    world,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


def pauses(seen: Seen) -> list[float]:
    """Seconds announced before each retry."""
    statuses = [event for event in seen.events if isinstance(event, ev.Status)]
    return [
        (event.until - EPOCH_MS) / 1000
        for event in statuses
        if event.state == "retrying" and event.until is not None
    ]


# Asking again


@pytest.mark.requirement("S1", "S3")
async def test_the_pauses_double_with_jitter_up_to_a_limit(
    autojump_clock: MockClock, path: Path
) -> None:
    model = TimedModel(*[fails()] * 8, says("at last"))
    async with world(path, model, limits=Limits(max_retries=8)) as w:
        seen = await w.answer()
        assert seen.text == "at last"
        for gap, full in zip(model.gaps, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
            assert 0.75 * full <= gap <= full
        # What was announced is what was done, on the wall's clock.
        asked = [round(at, 2) for at in model.times[1:]]
        assert [round(at, 2) for at in pauses(seen)] == pytest.approx(asked, abs=0.02)


@pytest.mark.requirement("S1")
async def test_the_jitter_differs(autojump_clock: MockClock, path: Path) -> None:
    """A hundred turns that failed together do not come back together."""
    gaps = set()
    for number in range(10):
        model = TimedModel(fails(), says("at last"))
        async with world(path.with_name(f"{number}.db"), model) as w:
            await w.answer()
            gaps.add(round(model.gaps[0], 4))
    assert len(gaps) > 5


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(("asked_for", "least"), [(0.0, 0.75), (0.1, 0.75), (7.0, 7), (120.0, 120)])
async def test_a_provider_may_ask_for_a_longer_pause(
    autojump_clock: MockClock, path: Path, asked_for: float, least: float
) -> None:
    model = TimedModel(fails(code="MODEL_RATE_LIMITED", retry_after=asked_for), says("at last"))
    async with world(path, model) as w:
        seen = await w.answer()
        assert seen.outcome.code == "FINISHED"
        assert least <= model.gaps[0] <= max(least, 1)


@pytest.mark.requirement("S1")
async def test_a_pause_that_is_too_long_is_not_waited_for(
    autojump_clock: MockClock, path: Path
) -> None:
    model = TimedModel(fails("text", text="Try again tomorrow.", retry_after=3600.0))
    async with world(path, model) as w:
        seen = await w.answer()
        assert (seen.outcome.code, seen.outcome.text) == ("MODEL_ERROR", "Try again tomorrow.")
        assert len(model.requests) == 1
        assert trio.current_time() < 1


@pytest.mark.requirement("O5")
async def test_a_retry_is_shown_to_all_until_output_flows(
    autojump_clock: MockClock, path: Path
) -> None:
    """Live, in the log and in a snapshot taken in the pause; gone with the first content."""
    model = TimedModel(fails("lost", text="The provider failed."), says("at last", every=1))
    async with world(path, model) as w:
        sent = await w.send()
        await trio.sleep(0.3)
        view = (await w.answers())[0]
        assert view.turn is not None
        status = view.turn.status
        assert (status.state, status.attempt, status.limit) == ("retrying", 2, 6)
        assert status.text == "The provider failed."
        assert view.parts == [{"type": "step-start"}]
        await trio.sleep(1)
        view = (await w.answers())[0]
        assert view.turn is not None
        assert (view.turn.status.state, view.turn.status.attempt) == ("connecting", 2)
        seen = await w.read(sent.turn.stream_id)
        assert seen.fold.status is None


# Withdrawing


@pytest.mark.requirement("S4")
async def test_a_withdrawal_and_its_reason_are_one_commit(
    autojump_clock: MockClock, path: Path
) -> None:
    """No reader ever sees the text gone without being told why."""
    async with world(path, TimedModel(fails("lost"), says("at last"))) as w:
        sent = await w.send()
        reader = await w.services.journal.locate(sent.turn.stream_id)
        pieces = []
        while isinstance(item := await reader.next(), bytes):
            seen = Seen()
            seen.feed(item)
            pieces.append(seen.types)
        (reset,) = [types for types in pieces if "ResetStep" in types]
        assert reset[reset.index("ResetStep") + 1] == "Status"


@pytest.mark.requirement("S4", "M3")
async def test_a_failed_attempt_leaves_no_trace(autojump_clock: MockClock, path: Path) -> None:
    """P15: text, thinking and half a tool call; live, late, snapshot, reload, next request."""

    async def half(_request: ModelRequest, sink: Sink) -> Completion:
        sink.reasoning("ghost thought")
        sink.text("ghost text")
        call = sink.tool_start("probe", "call_0")
        sink.tool_delta(call, '{"ghost":')
        await trio.sleep(1)
        return await fails(code="MODEL_EOF")(_request, sink)

    async def whole_call(_request: ModelRequest, sink: Sink) -> Completion:
        call = sink.tool_start("probe", "call_0")  # the provider uses its id again
        sink.tool_ready(call, "{}")
        await trio.lowlevel.checkpoint()
        return Completion("tool-calls")

    tool = Probe()
    model = ScriptedModel(half, half, whole_call, says("fine"), says("next"))
    async with world(path, model, tools=Toolbox([tool])) as w:
        sent = await w.send("first")
        live = await w.read(sent.turn.stream_id)
        late = await w.read(sent.turn.stream_id)
        view = (await w.answers())[0]
        assert "ghost" in str(live.events)
        for parts in (live.fold.parts(), late.fold.parts(), view.parts):
            assert "ghost" not in str(parts)
            assert parts == view.parts
        assert tool.runs == [{}]
        await w.answer("second")
        assert "ghost" not in str([request.entries for request in model.requests])
        await truth.check(w)
    async with world(path, model) as w:
        assert (await w.answers())[0] == view


@pytest.mark.requirement("S4", "S5")
async def test_earlier_steps_stay(autojump_clock: MockClock, path: Path) -> None:
    """A retry of the second step takes nothing of the first, and runs no tool again."""
    tool = Probe()
    model = ScriptedModel(calls("probe", text="Step one. "), fails("ghost"), says("Step two."))
    async with world(path, model, tools=Toolbox([tool])) as w:
        seen = await w.answer()
        assert seen.text == "Step one. Step two."
        assert len(tool.runs) == 1
        assert model.requests[2].entries == model.requests[1].entries
        await truth.check(w)


# Giving up


@pytest.mark.requirement("S1", "S3")
async def test_giving_up_names_the_cause_and_the_tries(
    autojump_clock: MockClock, path: Path
) -> None:
    model = TimedModel(fails("what was said", text="The provider failed: overloaded."))
    async with world(path, model, limits=Limits(max_retries=2)) as w:
        seen = await w.answer()
        assert len(model.requests) == 3
        assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "MODEL_ERROR")
        assert seen.outcome.text == "The provider failed: overloaded. (asked 3 times)"
        assert seen.outcome.retryable
        assert seen.text == "what was said"  # P16: the last attempt's text is kept
        await truth.check(w)


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("code", "sense"),
    [
        ("MODEL_UNAUTHORIZED", True),  # once the key is right
        ("MODEL_NOT_FOUND", True),
        ("MODEL_REQUEST_REFUSED", False),
        ("CONTEXT_TOO_LONG", False),
        ("CONTENT_FILTERED", False),
    ],
)
async def test_what_cannot_be_retried_ends_at_once(
    autojump_clock: MockClock, path: Path, code: str, sense: bool
) -> None:
    model = TimedModel(fails("so far", code=code, text="Because.", retryable=False))
    async with world(path, model) as w:
        seen = await w.answer()
        assert len(model.requests) == 1
        assert (seen.outcome.code, seen.outcome.text) == (code, "Because.")
        assert seen.outcome.retryable is sense
        assert seen.text == "so far"


@pytest.mark.requirement("S1")
async def test_no_retries_means_none(autojump_clock: MockClock, path: Path) -> None:
    model = TimedModel(fails())
    async with world(path, model, limits=Limits(max_retries=0)) as w:
        seen = await w.answer()
        assert len(model.requests) == 1
        assert "asked" not in seen.outcome.text


@pytest.mark.requirement("S4", "C3")
async def test_the_next_turn_sees_what_a_failed_one_said(
    autojump_clock: MockClock, path: Path
) -> None:
    model = ScriptedModel(fails("half an ans", retryable=False), says("on"))
    async with world(path, model) as w:
        await w.answer("first")
        await w.answer("second")
        told = [getattr(entry, "text", "") for entry in model.requests[1].entries]
        assert told == ["first", "half an ans", "second"]


# What a provider may hand over


@pytest.mark.requirement("S3")
async def test_a_providers_words_are_shown_whatever_they_are(
    autojump_clock: MockClock, path: Path
) -> None:
    """Half a surrogate pair in an error message is no reason for anything to break."""
    model = TimedModel(fails(text="broken \ud83d"), fails(text="and \udfff", retryable=False))
    async with world(path, model) as w:
        seen = await w.answer()
        statuses = [event.text for event in seen.events if isinstance(event, ev.Status)]
        assert "broken \ufffd" in statuses
        assert seen.outcome.text.startswith("and \ufffd")
        await truth.check(w)
        model.scripts.append(says("fine"))
        assert (await w.answer()).text == "fine"


async def test_provider_state_is_kept_for_the_next_request(
    autojump_clock: MockClock, path: Path
) -> None:
    """Also where its text was cut between two pieces in the middle of a character."""
    state = ProviderState("scripted", "scripted", {"reasoning": "so \ud83d\ude00", "n": [1, 2]})

    async def thinks(_request: ModelRequest, sink: Sink) -> Completion:
        sink.text("answer")
        await trio.lowlevel.checkpoint()
        return Completion("stop", state=state)

    model = ScriptedModel(thinks)
    async with world(path, model) as w:
        await w.answer("first")
        seen = await w.answer("second")
        kept = model.requests[1].entries[1]
        assert getattr(kept, "state", None) == ProviderState(
            "scripted", "scripted", {"reasoning": "so \U0001f600", "n": [1, 2]}
        )
        assert "reasoning" not in str(seen.events)  # never sent to browsers


@pytest.mark.requirement("S3")
async def test_provider_state_that_cannot_be_kept_is_a_failed_attempt(
    autojump_clock: MockClock, path: Path
) -> None:
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]

    async def thinks(_request: ModelRequest, sink: Sink) -> Completion:
        sink.text("ghost")
        await trio.lowlevel.checkpoint()
        return Completion("stop", state=ProviderState("scripted", "scripted", deep))

    async with world(path, ScriptedModel(thinks, says("fine"))) as w:
        seen = await w.answer()
        assert seen.text == "fine"
        await truth.check(w)


async def test_an_answer_without_anything(autojump_clock: MockClock, path: Path) -> None:
    """Complete and empty: it has ended, and the next turn is not confused by it."""
    model = ScriptedModel(says(), says("on"))
    async with world(path, model) as w:
        seen = await w.answer("first")
        assert (seen.outcome.code, seen.text) == ("FINISHED", "")
        await w.answer("second")
        assert isinstance(model.requests[1].entries[-1], UserEntry)
        await truth.check(w)


@pytest.mark.parametrize(
    ("reason", "outcome", "code"),
    [
        ("stop", "finished", "FINISHED"),
        ("other", "finished", "FINISHED"),
        ("tool-calls", "finished", "FINISHED"),
        ("length", "finished", "LENGTH"),
        ("content-filter", "failed", "CONTENT_FILTERED"),
    ],
)
@pytest.mark.requirement("O1")
async def test_how_a_response_ended(
    autojump_clock: MockClock, path: Path, reason: Any, outcome: str, code: str
) -> None:
    async def script(_request: ModelRequest, sink: Sink) -> Completion:
        sink.text("text")
        await trio.lowlevel.checkpoint()
        return Completion(reason, ev.Usage(3, 4))

    async with world(path, ScriptedModel(script)) as w:
        seen = await w.answer()
        assert (seen.outcome.outcome, seen.outcome.code) == (outcome, code)
        assert (seen.outcome.finish_reason, seen.outcome.usage) == (reason, ev.Usage(3, 4))
        assert seen.text == "text"
