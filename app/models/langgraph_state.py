"""What the state of a thread says, as a LangGraph server gives it. Pure."""

from collections.abc import Mapping
from typing import Any

from app.models import langgraph_messages as messages
from app.models.langgraph_messages import Message

State = Mapping[str, Any]

TURN = "unbroken_turn"  # in the metadata of runs, and so in that of states


def is_of(state: State, turn: str, sent: str | None) -> bool:
    """Whether a state of a thread is that of a run for this turn.

    `sent`: a message of ours that shows it too, where a server forgets the metadata of runs.
    """
    metadata = state.get("metadata")
    named = isinstance(metadata, dict) and metadata.get(TURN) == turn
    return named or (sent is not None and sent in map(_id_of, said_in(state)))


def said_in(state: State) -> list[Message]:
    """The messages of a state."""
    values = state.get("values")
    listed = values.get("messages") if isinstance(values, dict) else None
    unpacked = map(messages.unpacked, listed if isinstance(listed, list) else ())
    return [message for message in unpacked if message is not None]


def checkpoint_of(state: State) -> str | None:
    """None for a checkpoint that the server does not have: it answers with an empty state."""
    checkpoint = state.get("checkpoint")
    id_ = checkpoint.get("checkpoint_id") if isinstance(checkpoint, dict) else None
    id_ = id_ or state.get("checkpoint_id")
    return str(id_) if id_ and (state.get("created_at") or state.get("values")) else None


def is_over(state: State) -> bool:
    """Whether the agent has nothing more to do: it is done, or has asked something."""
    return not state.get("next") or bool(questions_in(state))


def run_of(state: State) -> str | None:
    """The id of the run that made it."""
    metadata = state.get("metadata")
    id_ = metadata.get("run_id") if isinstance(metadata, dict) else None
    return id_ if isinstance(id_, str) else None


def failure_of(state: State) -> str:
    """What went wrong in it; "" if it does not say."""
    tasks = state.get("tasks")
    errors = [task.get("error") for task in tasks or () if isinstance(task, dict)]
    return next((str(error) for error in errors if error), "")


def questions_in(state: State) -> list[Any]:
    """What the agent waits to be told before it goes on."""
    tasks = state.get("tasks")
    return [
        question
        for task in (tasks if isinstance(tasks, list) else ())
        if isinstance(task, dict)
        for question in interrupts_in(task.get("interrupts"))
    ]


def interrupts_in(interrupts: Any) -> list[Any]:
    """What each of them asks."""
    found = interrupts if isinstance(interrupts, list) else ()
    return [one.get("value") if isinstance(one, dict) else one for one in found]


def pending_tool(state: State) -> str | None:
    """The name of a tool that the agent called and has no result of; None: there is none."""
    found = said_in(state)
    settled = {message.get("tool_call_id") for message in found if messages.is_result(message)}
    answers = filter(messages.is_answer, found)
    calls = (call for answer in answers for call in messages.calls_of(answer))
    return next((call.name for call in calls if call.id not in settled), None)


def last_id(state: State) -> str | None:
    """The id of the last message in it."""
    found = said_in(state)
    return _id_of(found[-1]) if found else None


def _id_of(message: Message) -> Any:
    return message.get("id")
