"""Pieces, snapshots and states of a LangGraph run, merged by identity (M1, M2, M5)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.events import Usage
from app.models.langgraph_merge import Merge, SavedMerge
from app.models.langgraph_speech import NO_RESULT
from tests.app.models.recorder import Recorder
from tests.app.models.wire_langgraph import (
    ME,
    ai,
    call_piece,
    human,
    last,
    piece,
    result,
    state,
)

pytestmark = pytest.mark.requirement("M5")

Step = Callable[[Merge], None]


def merged(*steps: Step, after: str | None = ME) -> tuple[Recorder, Merge]:
    sink = Recorder()
    merge = Merge(sink, after)
    for step in steps:
        step(merge)
    return sink, merge


def said(message: dict[str, Any], **metadata: Any) -> Step:
    return lambda merge: merge.piece(message, metadata)


def partial(*messages: dict[str, Any]) -> Step:
    return lambda merge: merge.snapshot(list(messages))


def complete(*messages: dict[str, Any]) -> Step:
    return lambda merge: merge.complete(list(messages))


def stated(*messages: dict[str, Any]) -> Step:
    return lambda merge: merge.state(state(*messages))


def ended(*messages: dict[str, Any]) -> Step:
    return lambda merge: merge.end(state(*messages))


# pieces


@pytest.mark.requirement("M1", "M3")
def test_pieces_are_appended_also_where_they_repeat_what_is_there() -> None:
    pieces = ["|", "|", " |", "|", "", "the same\n", "the same\n", "the"]
    whole = "".join(pieces)
    sink, _ = merged(
        *(said(piece("a", p)) for p in pieces), said(last("a")), ended(human(), ai("a", whole))
    )
    assert sink.text_deltas == [p for p in pieces if p]
    assert sink.texts == [whole]
    assert "final_text" not in sink.kinds


def test_pieces_that_do_not_say_so_are_pieces_too() -> None:
    """From JavaScript every piece is typed like a whole message."""
    sink, _ = merged(said(ai("a", "Hel")), said(ai("a", "lo")), ended(human(), ai("a", "Hello")))
    assert sink.texts == ["Hello"]


@pytest.mark.requirement("M1")
def test_a_whole_message_after_pieces_is_canonical() -> None:
    sink, _ = merged(
        said(piece("a", "Hel")), said(ai("a", "Hello!")), said(piece("a", "lo")), ended(human())
    )
    assert sink.texts == ["Hello!"]


def test_a_message_without_pieces() -> None:
    sink, _ = merged(said(ai("a", "At once.")), ended(human(), ai("a", "At once.")))
    assert sink.texts == ["At once."]


def test_a_message_that_only_the_state_has() -> None:
    sink, _ = merged(stated(human(), ai("a", "At once.")), ended(human(), ai("a", "At once.")))
    assert sink.texts == ["At once."]


def test_thinking_in_all_its_forms() -> None:
    forms: list[dict[str, Any]] = [
        piece("a", [{"type": "thinking", "thinking": "1"}]),
        piece("a", [{"type": "reasoning", "reasoning": "2"}]),
        piece("a", [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "3"}]}]),
        piece("a", additional_kwargs={"reasoning_content": "4"}),
        piece("a", additional_kwargs={"reasoning": {"summary": [{"text": "5"}]}}),
    ]
    sink, _ = merged(*map(said, forms), said(piece("a", [{"type": "text", "text": "6"}, "7"])))
    assert [(one.kind, one.text) for one in sink.parts] == [("reasoning", "12345"), ("text", "67")]


def test_thinking_of_a_message_without_pieces_comes_before_its_text() -> None:
    whole = ai("a", [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Yes"}])
    for step in (stated(human(), whole), complete(whole), said(whole), ended(human(), whole)):
        sink, _ = merged(step, ended(human(), whole))
        assert [(one.kind, one.text) for one in sink.parts] == [
            ("reasoning", "Hm"),
            ("text", "Yes"),
        ]


def test_langchains_own_serialisation() -> None:
    def packed(message: dict[str, Any], name: str) -> dict[str, Any]:
        id_ = ["langchain_core", "messages", name]
        return {"lc": 1, "type": "constructor", "id": id_, "kwargs": message}

    sink, _ = merged(
        said(packed(piece("a", "Hel"), "AIMessageChunk")),
        said({"type": "AIMessageChunk", "data": piece("a", "lo")}),
        ended(packed(human(), "HumanMessage"), packed(ai("a", "Hello"), "AIMessage")),
    )
    assert sink.texts == ["Hello"]


def test_messages_without_ids_are_told_apart_by_where_they_are_said() -> None:
    sink, _ = merged(
        said(piece("", "Hel"), langgraph_checkpoint_ns="one"),
        said(piece("", "lo", chunk_position="last"), langgraph_checkpoint_ns="one"),
        said(piece("", "You"), langgraph_checkpoint_ns="two"),
        ended(human()),
    )
    assert sink.texts == ["Hello", "You"]


def test_what_others_say_is_no_part_of_the_answer() -> None:
    system = {**human("Be kind."), "type": "system", "id": "s"}
    removed = {"type": "remove", "id": "x", "content": ""}
    sink, _ = merged(
        said(human()), said(system), said({"odd": 1}), partial(human()), complete(system),
        stated(human(), system, removed, human("And?", "b")), ended(human(), system),
        lambda merge: merge.piece("?"), lambda merge: merge.state(None),
        lambda merge: merge.state({"messages": "?"}), lambda merge: merge.complete("?"),
    )  # fmt: skip
    assert sink.parts == []


# snapshots


@pytest.mark.requirement("M2")
def test_snapshots_grow_where_there_are_no_pieces() -> None:
    texts = ["|", "||", "||", "|", "||\n|", "||\n||"]
    sink, _ = merged(
        *(partial(ai("a", text)) for text in texts), ended(human(), ai("a", texts[-1]))
    )
    assert sink.text_deltas == ["|", "|", "\n|", "|"]
    assert sink.texts == ["||\n||"]


@pytest.mark.requirement("M2")
def test_a_lagging_snapshot_changes_nothing() -> None:
    sink, _ = merged(
        said(piece("a", "one ")),
        said(piece("a", "two ")),
        partial(ai("a", "one ")),
        stated(human(), ai("a", "one ")),
        said(piece("a", "three")),
        ended(human(), ai("a", "one two three")),
    )
    assert sink.texts == ["one two three"]
    assert "final_text" not in sink.kinds


@pytest.mark.requirement("M1", "M2")
def test_a_snapshot_may_be_ahead_of_the_pieces() -> None:
    sink, _ = merged(
        partial(ai("a", "one two")),
        said(piece("a", "one ")),
        said(piece("a", "two ")),
        said(piece("a", "three")),
        ended(human(), ai("a", "one two three")),
    )
    assert sink.texts == ["one two three"]


@pytest.mark.requirement("M1")
@pytest.mark.parametrize("form", ["complete", "state", "end"])
def test_the_canonical_text_replaces_and_closes(form: str) -> None:
    """A guard has rewritten it, or pieces were lost."""
    final = {
        "complete": complete(ai("a", "[withheld]")),
        "state": stated(human(), ai("a", "[withheld]")),
        "end": ended(human(), ai("a", "[withheld]")),
    }[form]
    sink, _ = merged(
        said(piece("a", "The code is 1")),
        said(last("a")),
        final,
        said(piece("a", "234")),
        partial(ai("a", "The code is 1234")),
        ended(human(), ai("a", "[withheld]")),
    )
    assert sink.texts == ["[withheld]"]


def test_only_what_is_new_in_the_state_is_of_this_run() -> None:
    old = [human("Before", "h0"), ai("old", "An old answer."), human()]
    sink, _ = merged(
        stated(*old), complete(*old), said(piece("a", "New.")), ended(*old, ai("a", "New."))
    )
    assert sink.texts == ["New."]


def test_an_agent_that_cuts_its_history() -> None:
    sink, _ = merged(
        said(piece("a", "Ne")), said(last("a")), stated(ai("old", "Summary."), ai("a", "New.")),
        ended(ai("old", "Summary."), ai("a", "New.")),
    )  # fmt: skip
    assert sink.texts == ["New."]


def test_a_run_that_is_all_its_own() -> None:
    sink, _ = merged(ended(human("?", "x"), ai("a", "New.")), after=None)
    assert sink.texts == ["New."]


# tools


def looking(args: str = '{"q": 1}') -> list[Step]:
    return [
        said(piece("a", "Let me see.")),
        said(call_piece("a", 0, "", "call_1", "look")),
        said(call_piece("a", 0, args[:4])),
        said(call_piece("a", 0, args[4:])),
        said(last("a")),
    ]


def test_a_tool_that_the_agent_runs() -> None:
    whole = ai("a", "Let me see.", ("call_1", "look", {"q": 1}))
    found = result("call_1", "3 cats")
    sink, merge = merged(
        *looking(),
        stated(human(), whole),
        said(found),
        stated(human(), whole, found),
        said(piece("b", "Cats.")),
        ended(human(), whole, found, ai("b", "Cats.")),
    )
    assert [one.kind for one in sink.parts] == ["text", "tool", "text"]
    assert sink.texts == ["Let me see.", "Cats."]
    look = sink.calls["call-1"]
    assert (look.name, look.provider_id) == ("look", "call_1")
    assert (look.fragments, look.input_text) == (['{"q"', ": 1}"], '{"q": 1}')
    assert look.settled == ("3 cats", False)
    assert merge.running is None


def test_it_is_shown_while_it_runs() -> None:
    sink, merge = merged(*looking())
    assert (sink.calls["call-1"].input_text, merge.running) == ('{"q": 1}', "look")


@pytest.mark.parametrize("pieces", [0, 2, 4, 5])
def test_what_pieces_do_not_tell_of_a_call_the_state_does(pieces: int) -> None:
    whole = ai("a", "Let me see.", ("call_1", "look", {"q": 1}))
    sink, _ = merged(
        *looking()[:pieces], stated(human(), whole), ended(human(), whole, result("call_1", "3"))
    )
    assert sink.texts == ["Let me see."]
    call = sink.calls["call-1"]
    assert msgspec.json.decode(call.input_text or "") == {"q": 1}
    assert call.settled == ("3", False)


def test_results_in_all_their_forms() -> None:
    whole = ai("a", "", *((f"call_{n}", "look", {}) for n in range(4)))
    text = [{"type": "text", "text": "one "}, "two"]
    image = [{"type": "image_url", "image_url": {"url": "data:"}}]
    results = [
        result("call_0", text),
        result("call_1", image),
        result("call_2", "no", status="error"),
    ]
    sink, _ = merged(stated(human(), whole), complete(*results), ended(human(), whole, *results))
    assert [call.settled for call in sink.calls.values()] == [
        ("one two", False),
        (image, False),
        ("no", True),
        (NO_RESULT, True),
    ]


def test_a_call_whose_input_is_no_json() -> None:
    bad = {"name": "look", "args": '{"q": ', "id": "call_1", "error": "cut", "type": "invalid"}
    whole = ai("a", "", invalid_tool_calls=[bad])
    sink, _ = merged(ended(human(), whole, result("call_1", "Error", status="error")))
    assert sink.calls["call-1"].input_text == '{"q": '


@pytest.mark.requirement("S7")
def test_ids_of_calls_that_are_used_again() -> None:
    """Each result goes to the newest call that has none."""
    one, two = (ai(id_, "", ("call_1", "look", {})) for id_ in ("a", "b"))
    first, second = result("call_1", "1", id_="r1"), result("call_1", "2", id_="r2")
    sink, _ = merged(
        stated(human(), one), said(first), stated(human(), one, first, two), said(second),
        ended(human(), one, first, two, second),
    )  # fmt: skip
    assert [call.settled for call in sink.calls.values()] == [("1", False), ("2", False)]


def test_a_result_of_a_call_that_was_not_seen() -> None:
    sink, _ = merged(
        said(result("call_9", "deep", "dig")), ended(human(), result("call_9", "deep", "dig"))
    )
    [call] = sink.calls.values()
    assert (call.name, call.input_text, call.settled) == ("dig", "", ("deep", False))


def test_a_call_that_was_cut() -> None:
    sink, _ = merged(*looking()[:3], lambda merge: merge.end(None))
    assert sink.calls["call-1"].settled == (NO_RESULT, True)


# agents side by side


def test_two_that_speak_at_once_do_not_interrupt_each_other() -> None:
    sink, _ = merged(
        said(piece("a", "one ")), said(piece("b", "ONE ")), said(piece("a", "two")),
        said(piece("b", "TWO")), said(last("a")), said(piece("b", "!")), said(last("b")),
        ended(human(), ai("b", "ONE TWO!"), ai("a", "one two")),
    )  # fmt: skip
    assert sink.texts == ["one two", "ONE TWO!"]
    assert sink.text_deltas == ["one ", "two", "ONE ", "TWO", "!"]


def test_who_does_not_say_that_it_ends_is_believed_by_the_state() -> None:
    """Older servers do not mark the last piece."""
    sink, _ = merged(
        said(piece("a", "one")), stated(human(), ai("a", "one")), said(piece("b", "two")),
    )  # fmt: skip
    assert sink.texts == ["one", "two"]


def test_a_result_does_not_wait_for_who_speaks() -> None:
    sink, _ = merged(*looking(), said(piece("b", "Meanwhile ")), said(result("call_1", "3")))
    assert sink.calls["call-1"].settled == ("3", False)
    assert sink.parts[-1].open


# what is counted


def test_usage_is_the_sum_of_all_messages() -> None:
    def tokens(given: int, made: int, cached: int = 0) -> dict[str, Any]:
        details = {"cache_read": cached}
        return {"input_tokens": given, "output_tokens": made, "input_token_details": details}

    _, merge = merged(
        said(piece("inner", "x", usage_metadata=tokens(100, 1))),
        said(piece("inner", "", usage_metadata=tokens(0, 1))),
        said(last("a", usage_metadata=tokens(5, 7, 2))),
        ended(human(), ai("a", "", usage_metadata=tokens(5, 7, 2)), ai("b", "!")),
    )
    assert merge.usage == Usage(105, 9, 2)
    assert merged(ended(human()))[1].usage is None


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"finish_reason": "tool_calls"}, "stop"),
        ({"finish_reason": "length"}, "length"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"done_reason": "length"}, "length"),
        ({"finish_reason": "content_filter"}, "content-filter"),
        ({}, "stop"),
    ],
)
def test_why_it_stopped(metadata: dict[str, Any], reason: str) -> None:
    _, merge = merged(
        said(piece("a", "x")), ended(human(), ai("a", "x", response_metadata=metadata))
    )
    assert merge.finish_reason == reason


# any stream


@dataclass
class Told:
    """A message of a random run; each of its characters tells whose it is."""

    id: str
    deltas: list[str]
    fragments: list[str] = field(default_factory=list)
    marks_last: bool = True

    @property
    def text(self) -> str:
        return "".join(self.deltas)

    def whole(self, length: int | None = None) -> dict[str, Any]:
        calls = [(f"call_{self.id}", "look", {"q": self.id})] if self.fragments else []
        return (
            ai(self.id, self.text[:length], *calls)
            if length is None
            else ai(self.id, self.text[:length])
        )

    def pieces(self) -> list[dict[str, Any]]:
        made = [piece(self.id, delta) for delta in self.deltas]
        for number, fragment in enumerate(self.fragments):
            name = ("look", f"call_{self.id}") if number == 0 else (None, None)
            made.append(call_piece(self.id, 0, fragment, name[1], name[0]))
        return [*made, last(self.id)] if self.marks_last else made


@st.composite
def runs(draw: st.DrawFn, *, tools: bool = True) -> list[Told]:
    told = []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        # Prefix-heavy: everything is the beginning of everything.
        token = st.integers(0, 3).map(lambda n, name=name: name * n)
        fragments = ['{"q":', f' "{name}"', "}"] if tools and draw(st.booleans()) else []
        told.append(Told(name, draw(st.lists(token, max_size=6)), fragments, draw(st.booleans())))
    return told


@st.composite
def streams(draw: st.DrawFn, run: list[Told]) -> list[Step]:
    """The pieces of each message in their order, all mixed, with snapshots that lag or lead."""
    queues = [(told, told.pieces()) for told in run]
    steps: list[Step] = []
    while any(queue for _, queue in queues):
        told, queue = draw(st.sampled_from([one for one in queues if one[1]]))
        kind = draw(st.sampled_from(["piece", "piece", "piece", "partial", "state", "complete"]))
        length = draw(st.integers(0, len(told.text)))
        if kind == "piece":
            steps.append(said(queue.pop(0)))
        elif kind == "partial":
            steps.append(partial(told.whole(length)))
        elif kind == "complete":
            steps.append(complete(told.whole()))
        elif not any(pieces and pieces != one.pieces() for one, pieces in queues):
            # A state is written when nobody is in the middle of a sentence, or it lags behind.
            steps.append(stated(human(), *(one.whole() for one, pieces in queues if not pieces)))
        else:
            steps.append(stated(human(), ai(told.id, told.text[:length])))
    return steps


def check(sink: Recorder, run: list[Told]) -> None:
    for told in run:
        own = "".join(text for text in sink.texts if text.startswith(told.id))
        assert own == told.text
    called = {call.provider_id: call for call in sink.calls.values()}
    assert len(called) == len(sink.calls)
    assert set(called) == {f"call_{told.id}" for told in run if told.fragments}
    for id_, call in called.items():
        assert msgspec.json.decode(call.input_text or "") == {"q": (id_ or "")[-1]}
        assert call.settled == (f"found {id_}", False)
    assert not any(one.open for one in sink.parts)


def ending(run: list[Told]) -> Step:
    messages = []
    for told in run:
        call = f"call_{told.id}"
        messages.append(told.whole())
        messages += [result(call, f"found {call}")] if told.fragments else []
    return ended(human(), *messages)


@pytest.mark.requirement("M1", "M2", "M3")
@given(st.data())
@settings(max_examples=150)
def test_any_mixture_ends_in_the_canonical_texts(data: st.DataObject) -> None:
    run = data.draw(runs())
    steps = data.draw(streams(run))
    sink, _ = merged(*steps, ending(run))
    check(sink, run)


@pytest.mark.requirement("M1", "M2")
@given(st.data())
@settings(max_examples=100)
def test_pieces_that_got_lost_are_in_the_canonical_texts(data: st.DataObject) -> None:
    """Agents one after the other, whose server drops pieces when a stream is joined again."""
    run = [told for told in data.draw(runs(tools=False)) if told.text]
    for told in run:
        told.marks_last = True
    steps: list[Step] = []
    for number, told in enumerate(run):
        kept = [one for one in told.pieces() if one["chunk_position"] or data.draw(st.booleans())]
        steps += map(said, kept)
        steps.append(stated(human(), *(one.whole() for one in run[: number + 1])))
    sink, _ = merged(*steps, ending(run))
    check(sink, run)
    assert len(sink.texts) == len(run)


@pytest.mark.requirement("R1")
@given(st.data())
@settings(max_examples=150)
def test_a_crash_anywhere_ends_in_the_canonical_texts(data: st.DataObject) -> None:
    run = data.draw(runs())
    steps = data.draw(streams(run))
    cut = data.draw(st.integers(0, len(steps)))
    before, merge = merged(*steps[:cut])
    saved = msgspec.json.encode(merge.save())
    before.checkpoint(saved)
    after = Merge(sink := before.at(0), ME)
    after.restore(msgspec.json.decode(saved, type=SavedMerge))
    for step in [*steps[cut:], ending(run)]:
        step(after)
    check(sink, run)


@pytest.mark.requirement("M1", "M2")
@given(st.data())
@settings(max_examples=100)
def test_a_run_that_is_told_from_its_beginning_once_more(data: st.DataObject) -> None:
    run = data.draw(runs())
    steps = data.draw(streams(run))
    cut = data.draw(st.integers(0, len(steps)))
    sink, merge = merged(*steps[:cut])
    merge.replayed()
    for step in [*steps, ending(run)]:
        step(merge)
    check(sink, run)
