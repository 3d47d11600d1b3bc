"""What an adapter pushes becomes the log, byte for byte, whatever it pushes (M1, M3, S7)."""

from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from app import events as ev
from app.clock import WallClock
from app.message import Fold
from app.tail import Tail
from app.turns.plain import whole
from app.turns.sink import AttemptSink, PartIds, Watch
from store.database import Database
from tests.app.world import Wall, in_mock_time


class Log:
    """Stands for the tail: keeps what is appended, encoded as the real one does."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []
        self.fold = Fold()

    def append(self, *events: ev.Event) -> None:
        for event in events:
            self.events.append(ev.decode(ev.encode(event)))
            self.fold.apply(event)

    @property
    def types(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def sink_into(log: Log, ids: PartIds | None = None) -> AttemptSink:
    return watched_sink(log, ids or PartIds(0), Watch(None, None), Watch(None, None))


def watched_sink(log: Log, ids: PartIds, progress: Watch, life: Watch) -> AttemptSink:
    database = cast(Database, None)  # only `room` needs it
    clock = WallClock(Wall())
    return AttemptSink(cast(Tail, log), database, clock, ids, progress=progress, life=life)


def texts(log: Log, kind: str = "text") -> list[str]:
    return [part["text"] for part in log.fold.parts() if part["type"] == kind]


# Texts

HALVES = st.text(st.sampled_from("a|\n\u00e9\U0001f600\ud83d\ude00\ud800\udfff"), max_size=6)


def utf16_units(text: str) -> list[str]:
    data = text.encode("utf-16-le")
    return [chr(int.from_bytes(data[i : i + 2], "little")) for i in range(0, len(data), 2)]


@pytest.mark.requirement("M1", "M3")
@given(st.text("|a \n\u00e9\U0001f600\U0001f468\u200d", max_size=20), st.data())
def test_a_text_is_whole_however_it_is_cut(text: str, data: st.DataObject) -> None:
    """Cut anywhere between UTF-16 units, as a provider's JSON may be: the same text comes out."""
    units = utf16_units(text)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(units)), max_size=10)))
    pairs = zip([0, *cuts], [*cuts, len(units)], strict=True)
    pieces = ["".join(units[a:b]) for a, b in pairs]

    async def main() -> None:
        for push in ("text", "reasoning"):
            log = Log()
            sink = sink_into(log)
            for piece in pieces:
                getattr(sink, push)(piece)
            sink.close()
            assert texts(log, push) == ([text] if text else [])
            if push == "text":
                assert "".join(sink.texts) == text

    in_mock_time(main)


@pytest.mark.requirement("M3")
@given(st.lists(st.tuples(st.sampled_from(["text", "reasoning", "end"]), HALVES), max_size=12))
def test_shown_stored_and_told_are_the_same(pushes: list[tuple[str, str]]) -> None:
    """Also where a half has no other half: it becomes U+FFFD, the same one everywhere."""

    async def main() -> None:
        log = Log()
        sink = sink_into(log)
        for kind, piece in pushes:
            if kind == "end":
                sink.end_part()
            else:
                getattr(sink, kind)(piece)
        sink.close()
        assert "".join(texts(log)) == "".join(sink.texts)
        assert all(part["state"] == "done" for part in log.fold.parts())

    in_mock_time(main)


@pytest.mark.requirement("M1")
async def test_texts_that_prefix_each_other_are_all_kept() -> None:
    """P09: nothing compares a delta with what is there."""
    log = Log()
    sink = sink_into(log)
    pieces = ["|", "|", "||", "|", " ", " ", "\n", "|a|", "|a|", "|"]
    for piece in pieces:
        sink.text(piece)
    assert texts(log) == ["".join(pieces)]


async def test_an_empty_delta_is_a_sign_of_life_and_nothing_else() -> None:
    log = Log()
    sink = sink_into(log)
    sink.text("")
    sink.reasoning("")
    assert log.events == []
    sink.reasoning("a")
    sink.text("")  # as servers send beside each piece of thinking
    sink.reasoning("b")
    assert log.types == ["ReasoningStart", "ReasoningDelta", "ReasoningDelta"]


async def test_text_and_thinking_take_turns() -> None:
    log = Log()
    sink = sink_into(log)
    sink.reasoning("hm")
    sink.text("a")
    sink.text("b")
    sink.end_part()
    sink.text("c")
    sink.close()
    shown = [(part["type"], part["id"], part["text"]) for part in log.fold.parts()]
    assert shown == [("reasoning", "p1", "hm"), ("text", "p2", "ab"), ("text", "p3", "c")]
    assert log.fold.open_events() == []


async def test_a_half_does_not_leak_into_the_next_part() -> None:
    log = Log()
    sink = sink_into(log)
    sink.text("a\ud83d")
    sink.reasoning("\ude00b")
    sink.close()
    assert (texts(log), texts(log, "reasoning")) == (["a\ufffd"], ["\ufffdb"])


# Tool calls


async def call(input_text: str) -> tuple[AttemptSink, Log]:
    log = Log()
    sink = sink_into(log)
    id_ = sink.tool_start("wait", "provider-1")
    sink.tool_delta(id_, input_text)
    sink.tool_ready(id_, input_text)
    return sink, log


@pytest.mark.parametrize(
    ("input_text", "value"),
    [
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
        ('{"n": 1.5e3, "x": null}', {"n": 1500.0, "x": None}),
        ('{"s": "\\ud83d\\ude00"}', {"s": "\U0001f600"}),
        ("[1, 2]", [1, 2]),
        ('"text"', "text"),
        ('{"a": ' * 60 + "1" + "}" * 60, None),
    ],
)
async def test_input_is_read_exactly(input_text: str, value: Any) -> None:
    sink, log = await call(input_text)
    (made,) = sink.calls
    (part,) = log.fold.parts()
    assert part["state"] == "input-available"
    assert part["input"] == made.input
    assert value is None or made.input == value
    assert sink.bad_calls == {}


@pytest.mark.parametrize(
    "input_text",
    [
        '{"seconds": NaN}',
        '{"seconds": Infinity}',
        '{"seconds": 1e999}',
        '{"seconds": 2',
        "{seconds: 2}",
        '{"a": 1} and more',
        '{"s": "\\ud83d"}',
        "[" * 400 + "]" * 400,
        "[" * 100_000 + "]" * 100_000,
        '{"s": "\ud83d}',
    ],
)
async def test_input_that_cannot_be_read_is_told(input_text: str) -> None:
    """The model is told by the call's result; the call is not run, and nothing else breaks."""
    sink, log = await call(input_text)
    (made,) = sink.calls
    (part,) = log.fold.parts()
    assert part["state"] == "input-error"
    assert part["errorText"] == sink.bad_calls[made.id] != ""
    assert made.input == {}


@pytest.mark.requirement("S7")
@pytest.mark.parametrize("provider_id", [None, "", "call_0", "\ud800"])
async def test_calls_never_collide(provider_id: str | None) -> None:
    """Ids that a provider repeats, leaves out or uses again in another attempt."""
    log = Log()
    ids = PartIds(0)
    made = []
    for _attempt in range(2):
        sink = sink_into(log, ids)
        for text in ('{"n": 1}', '{"n": 2}'):
            id_ = sink.tool_start("wait", provider_id)
            sink.tool_ready(id_, text)
        made += sink.calls
        log.append(ev.FinishStep("tool-calls"))
    assert len({one.id for one in made}) == 4
    assert [part["input"]["n"] for part in log.fold.parts()] == [1, 2, 1, 2]


@pytest.mark.requirement("S7")
def test_parts_of_each_life_have_ids_of_their_own() -> None:
    made = [ids.part() for ids in (PartIds(0), PartIds(1), PartIds(11)) for _ in range(120)]
    assert len(set(made)) == len(made)


async def test_two_calls_written_side_by_side() -> None:
    log = Log()
    sink = sink_into(log)
    first, second = sink.tool_start("a"), sink.tool_start("b")
    for id_, piece in ((second, '{"x":'), (first, "{"), (second, "2}"), (first, "}")):
        sink.tool_delta(id_, piece)
    sink.tool_ready(second, '{"x":2}')
    sink.tool_ready(first, "{}")
    assert [(one.name, one.input) for one in sink.calls] == [("b", {"x": 2}), ("a", {})]
    assert [part["inputText"] for part in log.fold.parts()] == ["{}", '{"x":2}']


async def test_a_call_that_was_only_begun_is_none() -> None:
    """A response that is complete with half a call: shown as not valid, never run."""
    log = Log()
    sink = sink_into(log)
    id_ = sink.tool_start("wait")
    sink.tool_delta(id_, '{"sec')
    sink.close()
    log.append(ev.FinishStep("length"))
    (part,) = log.fold.parts()
    assert (part["state"], part["inputText"]) == ("input-error", '{"sec')
    assert sink.calls == []


async def test_a_call_ends_the_text_before_it() -> None:
    log = Log()
    sink = sink_into(log)
    sink.text("Wait\ud83d")
    id_ = sink.tool_start("wait")
    sink.tool_ready(id_, "{}")
    sink.text("done")
    shown = [part.get("text", part["type"]) for part in log.fold.parts()]
    assert shown == ["Wait\ufffd", "tool", "done"]


async def test_a_call_the_provider_ran_itself_is_not_ours_to_run() -> None:
    log = Log()
    sink = sink_into(log)
    for is_error in (False, True):
        id_ = sink.tool_start("search")
        sink.tool_ready(id_, '{"q": 1}')
        sink.tool_settled(id_, "found", is_error=is_error)
    ours = sink.tool_start("wait")
    sink.tool_ready(ours, "{}")
    assert [one.id for one in sink.calls] == [ours]
    states = [part["state"] for part in log.fold.parts()]
    assert states == ["output-available", "output-error", "input-available"]


@pytest.mark.parametrize("output", [object(), "\ud83d", {"deep": [[[[[[1]]]]]]}, float("nan")])
async def test_whatever_a_provider_calls_a_result_can_be_kept(output: Any) -> None:
    log = Log()
    sink = sink_into(log)
    id_ = sink.tool_start("search")
    sink.tool_ready(id_, "{}")
    sink.tool_settled(id_, output)
    (part,) = log.fold.parts()
    assert part["state"] in ("output-available", "output-error")


# Final texts


@pytest.mark.requirement("M1", "M2")
@given(st.lists(HALVES, max_size=4), HALVES, st.lists(HALVES, max_size=4))
def test_a_final_text_replaces_its_part_alone(
    before: list[str], final: str, after: list[str]
) -> None:
    async def main() -> None:
        log = Log()
        sink = sink_into(log)
        sink.text("kept ")
        sink.end_part()
        for piece in before:
            sink.text(piece)
        sink.final_text(final)
        for piece in after:
            sink.text(piece)
        sink.close()
        assert "".join(texts(log)) == "".join(sink.texts)
        assert texts(log)[:2] == ["kept ", whole(final)]

    in_mock_time(main)


# The deadlines it moves


NEVER = 50_000.0


async def gives_up(watch: Watch, signs: list[float]) -> float:
    """Seconds until the watch gives up, if there are signs of life at those times."""
    begun = trio.current_time()
    with trio.move_on_after(NEVER), watch.scope:
        for at in signs:
            await trio.sleep(begun + at - trio.current_time())
            watch.sign(trio.current_time())
        await trio.sleep_forever()
    return trio.current_time() - begun


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(
    ("first", "timeout", "signs", "expected"),
    [
        (10, 120, [], 10),
        (10, 120, [1], 121),  # the first sign ends the wait for the first one
        (300, 120, [1], 121),
        (300, 120, [299], 419),
        (300, 120, [100, 200, 300], 420),
        (None, 120, [], NEVER),
        (None, 120, [5], 125),
        (10, None, [], 10),
        (10, None, [9], NEVER),  # off: nothing after the first sign
        (None, None, [5], NEVER),
    ],
)
async def test_a_watch(
    autojump_clock: MockClock,
    first: float | None,
    timeout: float | None,
    signs: list[float],
    expected: float,
) -> None:
    assert await gives_up(Watch(first, timeout), signs) == pytest.approx(expected)


@pytest.mark.requirement("S1")
@given(st.lists(st.floats(0.01, 99), max_size=20))
def test_a_watch_is_never_early_by_more_than_its_slack(pauses: list[float]) -> None:
    """Signs less than the timeout apart keep it quiet; after the last one it is true to 1/64."""

    async def main() -> None:
        signs = [sum(pauses[: n + 1]) for n in range(len(pauses))]
        last = signs[-1] if signs else 0
        gave_up = await gives_up(Watch(100, 100), signs)
        if all(pause < 98 for pause in pauses):
            assert last + 100 * 63 / 64 <= gave_up + 1e-6
            assert gave_up <= last + 100 + 1e-6

    in_mock_time(main)


@pytest.mark.requirement("S1")
async def test_comments_reset_only_the_longer_clock(autojump_clock: MockClock) -> None:
    """P02: keep-alive bytes do not feed the watchdog."""
    progress, life = Watch(300, 120), Watch(600, 600)
    sink = watched_sink(Log(), PartIds(0), progress, life)
    begun = trio.current_time()
    with life.scope, progress.scope:
        sink.text("a")
        while True:
            await trio.sleep(10)
            sink.alive()
    assert progress.scope.cancelled_caught
    assert trio.current_time() - begun == pytest.approx(120)
    assert life.scope.deadline == pytest.approx(begun + 110 + 600, abs=10)
