"""How turns end: codes, sentences for the person, and whether trying again makes sense (O1)."""

from typing import NamedTuple

from app import events as ev
from app.durations import spoken
from app.message import Fold
from app.models.errors import ModelError
from app.turns.plain import whole


class Ending(NamedTuple):
    """What the terminal record will say; it becomes one outcome event."""

    outcome: ev.OutcomeName
    code: str
    text: str
    retryable: bool
    finish_reason: ev.FinishReason | None = None

    def event(self, at: int, usage: ev.Usage | None) -> ev.Outcome:
        return ev.Outcome(
            outcome=self.outcome,
            code=self.code,
            text=whole(self.text),  # may contain a provider's words
            retryable=self.retryable,
            at=at,
            finish_reason=self.finish_reason,
            usage=usage,
        )


CANCELLED = Ending("cancelled", "CANCELLED", "Stopped.", True)
REPLACED = Ending("cancelled", "REPLACED", "Stopped by a newer message.", True)
DELETED = Ending("cancelled", "CANCELLED", "The conversation was deleted.", False)
STORE_FAILED = Ending(
    "failed", "STORE_FAILED", "The answer could not be saved: the store does not work.", True
)
INTERNAL = Ending("failed", "INTERNAL", "Something went wrong inside the server.", True)
UNREADABLE = Ending(
    "failed", "INTERNAL", "What this answer had said cannot be read any more.", True
)
RECOVERY_EXHAUSTED = Ending(
    "interrupted",
    "RECOVERY_EXHAUSTED",
    "The server stopped several times during this answer, so it was given up.",
    True,
)
TOO_MANY_STEPS = Ending(
    "failed", "TOO_MANY_STEPS", "The answer took more steps than are allowed.", True
)


# The same request will fail again, whoever makes it and whenever. A key can be put right.
_HOPELESS = {"CONTEXT_TOO_LONG", "CONTENT_FILTERED", "MODEL_REQUEST_REFUSED"}


def finished(reason: ev.FinishReason) -> Ending:
    if reason == "length":
        return Ending(
            "finished", "LENGTH", "The answer was cut at the model's limit.", True, reason
        )
    if reason == "content-filter":
        text = "The provider withheld the rest of this answer."
        return Ending("failed", "CONTENT_FILTERED", text, False, reason)
    return Ending("finished", "FINISHED", "", False, reason)


def timed_out(started_at: int | None, deadline_at: int | None) -> Ending:
    """By the deadline it had from its start, whatever the settings are now; both are there then."""
    limit = spoken(((deadline_at or 0) - (started_at or 0)) / 1000)
    text = f"Stopped: the answer took longer than the limit of {limit}."
    return Ending("aborted", "TURN_TIMEOUT", text, True)


def model_failed(error: ModelError, tries: int) -> Ending:
    """`tries`: requests made for the failed step; 1: none was repeated."""
    text = error.text if tries == 1 else f"{error.text} (asked {tries} times)"
    return Ending("failed", error.code, text, error.code not in _HOPELESS)


def closing_events(fold: Fold, at: int) -> list[ev.Event]:
    """What must be said before a terminal: every open text and tool call gets its end."""
    events = fold.open_events()
    for part in fold.parts():
        if part["type"] != "tool":
            continue
        id_, state = part["toolCallId"], part["state"]
        if state == "input-streaming":
            text = "The answer ended before this call was complete."
            events.append(ev.ToolInputError(id_, part["toolName"], part["inputText"], text))
        elif state == "input-available":
            events.append(ev.ToolOutputError(id_, "Not run: the answer ended before.", at))
        elif state == "running":
            text = "Cut short: it may have had its effect."
            events.append(ev.ToolOutputError(id_, text, at, unknown=True))
    return events
