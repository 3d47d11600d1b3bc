"""The states of a turn and the only ways between them. Pure; nothing else changes a state."""

from enum import StrEnum


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABORTED = "aborted"
    INTERRUPTED = "interrupted"


TERMINAL = frozenset(
    {State.FINISHED, State.FAILED, State.CANCELLED, State.ABORTED, State.INTERRUPTED}
)

TRANSITIONS: dict[State, frozenset[State]] = {
    # A queued turn can be stopped; it fails only through the store. Its deadline has not begun, and
    # a restart that finds it waiting is no recovery.
    State.QUEUED: frozenset({State.RUNNING, State.CANCELLED, State.FAILED}),
    # Recovery keeps it running on another stream, or gives up: interrupted.
    State.RUNNING: TERMINAL,
    **{state: frozenset() for state in TERMINAL},
}


class IllegalTransitionError(Exception):
    """A fault of the program: the state machine was left."""


def advance(present: State, to: State) -> State:
    """Returns `to`. Raises IllegalTransitionError, naming both, if the table does not allow it."""
    if to not in TRANSITIONS[present]:
        raise IllegalTransitionError(f"a turn cannot go from {present} to {to}")
    return to
