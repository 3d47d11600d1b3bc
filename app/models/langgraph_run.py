"""One run of a LangGraph server, over all connections it takes, and the events of each."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.models import langgraph_state as states
from app.models.errors import ModelError
from app.models.event_reader import EventReader
from app.models.faults import from_object, scrub
from app.models.http import Call
from app.models.interface import Sink
from app.models.langgraph_merge import Merge, SavedMerge

# What an agent's program raises when somebody else failed for a moment. Any other exception is its
# own fault, and would come again.
_TRANSIENT = ("timeout", "connect", "ratelimit", "overloaded", "unavailable", "internalserver")
# What a server says for a run that somebody stopped there.
_STOPPED = ("UserInterrupt", "UserRollback")


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    thread: str
    run: str
    event: str
    after: str | None
    merge: SavedMerge


class Run:
    """`id` is "" until the server said it, `event` until an event had an id.

    `ended`: nothing more comes, whether well or not. `values`: the newest state of the agent, and
    `stated`, whether nothing was said after it. `questions`: what it waits to be told.
    """

    def __init__(self, sink: Sink, thread: str, after: str | None) -> None:
        self.sink = sink
        self.thread = thread
        self.after = after
        self.id = ""
        self.event = ""
        self.ended = False
        self.values: Any = None
        self.stated = False
        self.questions: list[Any] = []
        self.merge = Merge(sink, after)

    @classmethod
    def restored(cls, sink: Sink, checkpoint: bytes) -> "Run":
        """The run of an earlier life of ours."""
        saved = msgspec.json.decode(checkpoint, type=_Saved)
        run = cls(sink, saved.thread, saved.after)
        run.id, run.event = saved.run, saved.event
        run.merge.restore(saved.merge)
        return run

    def checkpoint(self) -> bytes:
        return msgspec.json.encode(
            _Saved(self.thread, self.id, self.event, self.after, self.merge.save())
        )

    def can_go_on(self, error: ModelError) -> bool:
        """Whether it was the connection that failed, and not the run."""
        lost = error.code in ("MODEL_EOF", "MODEL_UNREACHABLE", "MODEL_PROTOCOL")
        begun = bool(self.id) and not self.ended
        return begun and error.retryable and (lost or error.status is not None)

    def failure(self, error: Any, *, who: str, secrets: tuple[str, ...]) -> ModelError:
        """What the agent's program raised, `{"error": name, "message": text}`."""
        self.ended = True
        name = str(error.get("error") or "") if isinstance(error, dict) else ""
        message = str(error.get("message") or "") if isinstance(error, dict) else str(error)
        if name in _STOPPED:
            text = f"{who} says that the run was stopped there."
            return ModelError(text, code="MODEL_ERROR", retryable=False)
        found = from_object({"message": message, "type": name}, who=who, secrets=secrets)
        if found.code != "MODEL_ERROR":
            return found
        said = scrub(f"{name}: {message}" if name else message, secrets).rstrip(".")
        transient = any(word in name.lower() for word in _TRANSIENT)
        text = f"The agent at {who} failed: {said}."
        return ModelError(text, code="MODEL_ERROR", retryable=transient)


class RunReader(EventReader):
    """One connection's part of a run."""

    def __init__(self, run: Run, call: Call) -> None:
        super().__init__(run.sink, who=call.who, secrets=call.secrets)
        self._run = run
        self._joined = bool(run.event)
        self._taken = 0  # events

    def opened(self, headers: Mapping[str, str]) -> None:
        super().opened(headers)
        # "/threads/{thread}/runs/{run}": known before anything is said.
        place = headers.get("content-location", "").rstrip("/").split("/")
        if not self._run.id and len(place) > 1 and place[-2] == "runs":
            self._run.id = place[-1]

    def feed(self, data: bytes) -> bool:
        run, before = self._run, self._taken
        try:
            moved = super().feed(data)
            if not moved and run.merge.running:
                self.sink.progress()  # the server is there, and a tool needs no words
            return moved
        finally:
            # Also after an event that is an error: those before it are shown. Without ids nothing
            # can be resumed. (An id alone does not tell what is new: servers repeat them.)
            run.event = self.event_id or run.event
            if self._taken > before and run.id and run.event:
                self.sink.checkpoint(run.checkpoint())

    def take(self, name: str, value: Any) -> bool:
        run, (kind, _, inside) = self._run, name.partition("|")
        self._taken += 1
        self.sink.progress()
        run.stated = kind == "values" and not inside
        if run.stated and isinstance(value, dict):
            run.values = value
            run.questions = states.interrupts_in(value.get("__interrupt__"))
            run.merge.state(value)
        elif kind == "messages":
            message, metadata = value if _is_pair(value) else (value, None)
            run.merge.piece(message, metadata)
        elif kind == "messages/partial":
            run.merge.snapshot(value)
        elif kind == "messages/complete":
            run.merge.complete(value)
        elif kind == "metadata":
            self._take_metadata(value)
        elif kind == "end":
            self.complete = self.done = run.ended = True
        elif kind == "message" and isinstance(value, dict) and value.get("error"):
            raise self.failed(value)
        self.spoke = True
        return True

    def _take_metadata(self, value: Any) -> None:
        """The first event of every run; where we have heard it before, all of it comes again."""
        id_ = value.get("run_id") if isinstance(value, dict) else None
        if isinstance(id_, str):
            self._run.id = self._run.id or id_
        if self._joined:
            self._run.merge.replayed()

    def take_whole(self, value: Any) -> None:
        says_why = isinstance(value, dict) and value.get("error")
        raise self.failed(value) if says_why else self.garbled()

    def failed(self, error: Any) -> ModelError:
        return self._run.failure(error, who=self.who, secrets=self._secrets)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2
