"""An answer on a terminal: what is shown, and what is said when something is taken back."""

from __future__ import annotations

from app import events as ev
from app.terminal import Live, Whole


class Screen:
    """Everything in its order; remarks in angle brackets."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def note(self, text: str) -> None:
        self.text += f"<{text.strip()}>\n"


def live(*events: ev.AnyEvent) -> str:
    screen = Screen()
    view = Live(screen.write, screen.note)
    for event in events:
        view.tell(event)
    view.end()
    return screen.text


def whole(*events: ev.AnyEvent) -> str:
    screen = Screen()
    view = Whole(screen.write)
    for event in events:
        view.tell(event)
    assert screen.text == ""
    view.end()
    return screen.text


def said(part: str, *deltas: str) -> list[ev.AnyEvent]:
    return [ev.TextStart(part), *(ev.TextDelta(part, delta) for delta in deltas), ev.TextEnd(part)]


DONE = ev.FinishStep("stop")
WITHDRAWN = "<[the last part is withdrawn: the model is asked again]>\n"


def test_text_is_shown_as_it_comes_also_what_repeats_itself() -> None:
    assert live(ev.StartStep(), *said("p1", "ha", "ha", "ha"), DONE) == "hahaha\n"


def test_parts_are_told_apart_by_an_empty_line() -> None:
    events = [ev.StartStep(), *said("p1", "One."), DONE, ev.StartStep(), *said("p2", "Two.\n")]
    assert live(*events) == "One.\n\nTwo.\n"


def test_thinking_is_not_shown_and_a_tool_is_named_in_passing() -> None:
    thinking = [ev.ReasoningStart("r1"), ev.ReasoningDelta("r1", "hm"), ev.ReasoningEnd("r1")]
    tool = [ev.ToolInputAvailable("c1", "wait", {}), ev.ToolDispatched("c1", 0)]
    assert live(ev.StartStep(), *thinking, *said("p1", "So"), *tool) == "So\n<[a tool runs]>\n"


def test_a_retry_says_so_and_shows_the_new_attempt() -> None:
    retry = ev.Status("retrying", "The model broke off; asking again", attempt=2, limit=5)
    events = [ev.StartStep(), *said("p1", "Hel"), ev.ResetStep("eof"), retry, *said("p2", "Hello")]
    expected = f"Hel\n{WITHDRAWN}<[The model broke off; asking again]>\nHello\n"
    assert live(*events) == expected
    assert whole(*events) == "Hello\n"


def test_finished_steps_stay_when_a_later_one_is_withdrawn() -> None:
    events = [ev.StartStep(), *said("p1", "One."), DONE, ev.StartStep(), *said("p2", "Tw")]
    again = [ev.ResetStep("eof"), *said("p3", "Two.")]
    assert live(*events, *again) == f"One.\n\nTw\n{WITHDRAWN}\nTwo.\n"
    assert whole(*events, *again) == "One.\nTwo.\n"


def snapshot(*parts: dict[str, str]) -> ev.Snapshot:
    return ev.Snapshot(list(parts))


def text_part(id_: str, text: str, state: str = "done") -> dict[str, str]:
    return {"type": "text", "id": id_, "text": text, "state": state}


STEP = {"type": "step-start"}


def test_after_a_restart_what_is_kept_is_not_shown_twice() -> None:
    """Found by id and length, never by comparing texts."""
    before = [ev.StartStep(), *said("p1", "One."), DONE, ev.StartStep(), *said("p2", "aaa")]
    kept = snapshot(STEP, text_part("p1", "One."), STEP, text_part("p2", "aaaaa", "streaming"))
    after = [kept, ev.TextDelta("p2", "a"), ev.TextEnd("p2"), DONE]
    assert live(*before, *after) == "One.\n\naaaaaa\n"
    assert whole(*before, *after) == "One.\naaaaaa\n"


def test_after_a_restart_what_is_not_kept_is_withdrawn() -> None:
    before = [ev.StartStep(), *said("p1", "One."), DONE, ev.StartStep(), *said("p2", "Tw")]
    kept = snapshot(STEP, text_part("p1", "One."))
    after = [kept, ev.StartStep(), *said("p3", "Two.")]
    assert live(*before, *after) == f"One.\n\nTw\n{WITHDRAWN}\nTwo.\n"


def test_a_step_that_came_in_a_snapshot_can_still_be_withdrawn() -> None:
    kept = snapshot(STEP, text_part("p1", "One."), STEP, text_part("p2", "Tw", "streaming"))
    assert live(kept, ev.ResetStep("eof"), *said("p3", "Two.")) == (
        f"One.\n\nTw\n{WITHDRAWN}\nTwo.\n"
    )


def test_a_finished_step_that_came_in_a_snapshot_is_never_shown_again() -> None:
    kept = snapshot(STEP, text_part("p1", "One."))
    later = [ev.StartStep(), *said("p2", "Tw"), ev.ResetStep("eof"), kept, *said("p3", "Two.")]
    assert live(kept, *later).count("One.") == 1
