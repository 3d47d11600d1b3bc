"""The reducer: the binding vectors, and what holds for every sequence of events (M1-M3, S4)."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import events as ev
from app.message import Fold

VECTORS = json.loads(
    (Path(__file__).parent.parent / "vectors" / "fold.json").read_text(encoding="utf-8")
)
FUTURE = "from-the-future"  # a reader of the wire ignores it; the server reads only its own log


def folded(*events: ev.Event, into: Fold | None = None) -> Fold:
    fold = into or Fold()
    for event in events:
        fold.apply(event)
    return fold


def seen(fold: Fold) -> Any:
    """Everything a reader can see of a fold."""
    return fold.parts(), fold.status, fold.outcome, fold.usage, fold.open_events()


@pytest.mark.requirement("M1", "M3", "S4")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector(vector: dict[str, Any]) -> None:
    known = [event for event in vector["events"] if event["type"] != FUTURE]
    fold = folded(*(ev.decode(msgspec.json.encode(event)) for event in known))
    assert fold.parts() == vector["parts"]
    assert (fold.status and fold.status.state) == vector["status"]
    assert (fold.outcome and fold.outcome.outcome) == vector["outcome"]


# Any order of any events, of few ids, so that they meet.

TEXT_IDS, CALL_IDS = st.sampled_from(["p1", "p2", "p3"]), st.sampled_from(["c1", "c2"])
PIECES = st.text("|a \n\U0001f600", max_size=3)
VALUES = st.sampled_from([None, False, 0, "", {}, {"a": [1, "x"]}])
EVENTS = st.one_of(
    st.just(ev.StartStep()),
    st.builds(ev.TextStart, TEXT_IDS),
    st.builds(ev.TextDelta, TEXT_IDS, PIECES),
    st.builds(ev.TextEnd, TEXT_IDS),
    st.builds(ev.ReasoningStart, TEXT_IDS),
    st.builds(ev.ReasoningDelta, TEXT_IDS, PIECES),
    st.builds(ev.ReasoningEnd, TEXT_IDS),
    st.builds(ev.ToolInputStart, CALL_IDS, st.just("wait")),
    st.builds(ev.ToolInputDelta, CALL_IDS, PIECES),
    st.builds(ev.ToolInputAvailable, CALL_IDS, st.just("wait"), VALUES),
    st.builds(ev.ToolInputError, CALL_IDS, st.just("wait"), PIECES, st.just("bad")),
    st.builds(ev.ToolDispatched, CALL_IDS, st.just(1)),
    st.builds(ev.ToolOutputAvailable, CALL_IDS, VALUES, st.just(2)),
    st.builds(ev.ToolOutputError, CALL_IDS, PIECES, st.just(2), st.booleans()),
    st.builds(ev.FinishStep, st.just("stop"), st.just(ev.Usage(1, 2)) | st.none()),
    st.just(ev.ResetStep("MODEL_EOF")),
    st.just(ev.Status("retrying", "again", attempt=2)),
)
LOGS = st.lists(EVENTS, max_size=30)


@given(LOGS, LOGS)
def test_a_copy_is_the_same_fold(before: list[ev.Event], after: list[ev.Event]) -> None:
    """What goes on with a copy goes on as the original would: closed, withdrawn and taken ids."""
    fold = folded(*before)
    copy = fold.copy()
    assert seen(copy) == seen(fold)
    assert seen(folded(*after, into=copy)) == seen(folded(*after, into=fold))


@given(LOGS, LOGS)
def test_a_copy_is_independent(before: list[ev.Event], after: list[ev.Event]) -> None:
    fold = folded(*before)
    was = seen(fold)
    folded(*after, into=fold.copy())
    assert seen(fold) == was


@given(LOGS)
def test_parts_are_the_callers(log: list[ev.Event]) -> None:
    fold = folded(*log)
    was = fold.parts()
    for part in fold.parts():
        part.clear()
    assert fold.parts() == was


@pytest.mark.requirement("M3")
@given(LOGS)
def test_looking_changes_nothing(log: list[ev.Event]) -> None:
    """A snapshot taken between any two events leaves the text what it is."""
    watched = Fold()
    for event in log:
        watched.apply(event)
        watched.parts()
    assert seen(watched) == seen(folded(*log))


@given(LOGS)
def test_parts_survive_json(log: list[ev.Event]) -> None:
    """What is stored and what goes over the wire is what was folded."""
    parts = folded(*log).parts()
    assert msgspec.json.decode(msgspec.json.encode(parts)) == parts


# Texts


@pytest.mark.requirement("M1", "M3")
@given(st.lists(st.text("|a- \n", max_size=4)), st.data())
def test_the_text_is_the_concatenation_of_its_deltas(
    pieces: list[str], data: st.DataObject
) -> None:
    """However they repeat or prefix what is there (P09), and however they are cut."""
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    recut = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for chunks in (pieces, recut):
        fold = folded(ev.TextStart("p1"), *(ev.TextDelta("p1", piece) for piece in chunks))
        assert fold.parts() == [{"type": "text", "id": "p1", "text": text, "state": "streaming"}]


@pytest.mark.requirement("M1")
def test_interleaved_parts_grow_each_on_its_own() -> None:
    events: list[ev.Event] = [ev.TextStart("p1"), ev.ReasoningStart("p2")]
    for letter in "abc":
        events += [ev.TextDelta("p1", letter), ev.ReasoningDelta("p2", letter.upper())]
    texts = [part["text"] for part in folded(*events).parts()]
    assert texts == ["abc", "ABC"]


@pytest.mark.requirement("M1", "M2")
def test_a_closed_part_takes_no_more() -> None:
    """The final part closes its id; what comes late for it is dropped by the id."""
    closed = [ev.TextStart("p1"), ev.TextDelta("p1", "final"), ev.TextEnd("p1")]
    fold = folded(*closed, ev.TextDelta("p1", " late"), ev.TextStart("p1"), ev.TextDelta("p1", "!"))
    assert fold.parts() == [{"type": "text", "id": "p1", "text": "final", "state": "done"}]


@pytest.mark.requirement("M2")
def test_a_snapshot_replaces_and_its_open_parts_go_on() -> None:
    part = {"type": "text", "id": "p9", "text": "so far", "state": "streaming"}
    fold = folded(ev.TextStart("p1"), ev.TextDelta("p1", "old"), ev.Snapshot([part]))
    folded(ev.TextDelta("p1", "lost"), ev.TextDelta("p9", ", and on"), into=fold)
    assert [one["text"] for one in fold.parts()] == ["so far, and on"]
    assert part["text"] == "so far"  # the event is not written to


# Withdrawal


@pytest.mark.requirement("S4")
def test_a_withdrawn_call_has_no_trace() -> None:
    kept = [ev.StartStep(), ev.TextStart("p1"), ev.TextDelta("p1", "kept"), ev.TextEnd("p1")]
    before = folded(*kept, ev.FinishStep("tool-calls"), ev.StartStep())
    after = folded(
        ev.ReasoningStart("p2"),
        ev.ToolInputStart("c1", "wait"),
        ev.ToolInputDelta("c1", "{"),
        ev.ResetStep("MODEL_EOF"),
        ev.ToolInputAvailable("c1", "wait", {}),
        ev.ToolDispatched("c1", 1),
        ev.ToolOutputAvailable("c1", "late", 2),
        ev.ReasoningDelta("p2", "late"),
        into=before.copy(),
    )
    assert seen(after) == seen(before)


@given(LOGS)
def test_what_a_step_said_is_what_a_reset_takes(log: list[ev.Event]) -> None:
    """Nothing before the last start-step is touched by what comes after it and is withdrawn."""
    step = [event for event in log if not isinstance(event, ev.StartStep)]
    step = [event for event in step if isinstance(event, ev.TextStart | ev.TextDelta)]
    kept = [ev.StartStep(), ev.TextStart("k"), ev.TextDelta("k", "kept"), ev.FinishStep("stop")]
    before = folded(*kept, ev.StartStep())
    after = folded(*step, ev.ResetStep("MODEL_EOF"), into=before.copy())
    assert after.parts() == before.parts()


# Tools


@pytest.mark.parametrize("output", [None, False, True, 0, "", [], {}])
def test_every_output_is_kept(output: Any) -> None:
    """Also one that is false: it is what the model is told."""
    events = [
        ev.ToolInputAvailable("c1", "wait", output),
        ev.ToolDispatched("c1", 1),
        ev.ToolOutputAvailable("c1", output, 2),
    ]
    (part,) = folded(*events).parts()
    assert (part["input"], part["output"]) == (output, output)
    assert "unknown" not in part


def test_an_unknown_outcome_says_so() -> None:
    events = [ev.ToolInputAvailable("c1", "wait", {}), ev.ToolDispatched("c1", 1)]
    (part,) = folded(*events, ev.ToolOutputError("c1", "cut short", 2, unknown=True)).parts()
    assert part["unknown"] is True
    (part,) = folded(*events, ev.ToolOutputError("c1", "no", 2)).parts()
    assert "unknown" not in part


# What is shown beside the parts


@pytest.mark.requirement("O5")
@given(EVENTS)
def test_a_status_holds_until_content(event: ev.Event) -> None:
    status = ev.Status("connecting", "Asking")
    after = folded(status, event).status
    if event.content:
        assert after is None
    else:
        assert after == (event if isinstance(event, ev.Status) else status)


@given(st.lists(st.builds(ev.Usage, *[st.none() | st.integers(0, 99)] * 3)))
def test_usage_is_the_sum_of_the_steps(usages: list[ev.Usage]) -> None:
    fold = folded(*(ev.FinishStep("stop", usage) for usage in usages))

    def total(name: str) -> int | None:
        said = [getattr(usage, name) for usage in usages if getattr(usage, name) is not None]
        return sum(said) if said else None

    names = ("input_tokens", "output_tokens", "cached_tokens")
    assert [fold.usage and getattr(fold.usage, name) for name in names] == [
        total(name) for name in names
    ]


@settings(max_examples=50)
@given(LOGS)
def test_the_outcome_closes_everything(log: list[ev.Event]) -> None:
    outcome = ev.Outcome("cancelled", "CANCELLED", "Stopped.", True, 3)
    fold = folded(*log, outcome)
    assert fold.status is None
    assert fold.outcome == outcome
    assert fold.open_events() == []
    assert all(part.get("state") != "streaming" for part in fold.parts())
