"""One step's model request: deadlines around the whole call, retries, withdrawal.

The scopes are outside the adapter and its HTTP client, so DNS, credentials, connecting, headers and
every kind of body are watched alike (S2).
"""

import random
from collections.abc import Callable

import msgspec
import trio

from app import events as ev
from app.clock import WallClock
from app.models.catalogue import Limits
from app.models.errors import ModelError
from app.models.interface import (
    AssistantStep,
    Completion,
    Model,
    ModelRequest,
    ProviderState,
    ResumableModel,
)
from app.tail import Tail
from app.turns.plain import plain, whole
from app.turns.sink import AttemptSink, PartIds, Saved, Watch
from app.turns.steps import StepRecord, last_step
from store.database import Database

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_LIMIT_SECONDS = 30.0
# A provider may ask for a longer pause than our own backoff; beyond this we do not wait for it.
RETRY_AFTER_LIMIT_SECONDS = 120.0


class GaveUpError(Exception):
    """The step failed for good. `tries`: how many requests were made."""

    def __init__(self, error: ModelError, tries: int) -> None:
        super().__init__(error.text)
        self.error = error
        self.tries = tries


class StepResult(msgspec.Struct, frozen=True):
    """A complete response. `bad_calls`: call id -> why its input is not usable."""

    record: StepRecord
    bad_calls: dict[str, str]


class Attempts:
    """Asks one model, again where that makes sense, until a response is complete."""

    def __init__(
        self,
        model: Model,
        limits: Limits,
        *,
        tail: Tail,
        database: Database,
        clock: WallClock,
        ids: PartIds,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._limits = limits
        self._tail = tail
        self._database = database
        self._clock = clock
        self._ids = ids
        self._jitter = jitter

    async def step(self, request: ModelRequest, checkpoint: bytes | None = None) -> StepResult:
        """One step. Everything a failed attempt streamed is withdrawn before the next (S4).

        Args:
            checkpoint: of the response that an earlier life of the turn had under way, whose output
                is there: the first attempt goes on with it, if the model can.

        Raises GaveUpError; cancellation passes through, also during a pause.
        """
        if checkpoint is None:
            self._tail.append(ev.StartStep())
            # That the server was restarted is told until the model says something (O5).
            if self._status() != "recovering":
                self._tail.append(ev.Status("connecting", f"Asking {self._model.name}"))
        limit = self._limits.max_retries + 1
        for number in range(1, limit + 1):
            try:
                return await self._attempt(request, checkpoint)
            except ModelError as error:
                # Whoever stopped the turn in the same moment keeps what was said.
                await trio.lowlevel.checkpoint_if_cancelled()
                pause = self._pause(error, number)
                if not error.retryable or number == limit or pause is None:
                    raise GaveUpError(error, number) from error
                await self._wait(error, number + 1, limit, pause)
                checkpoint = None
        raise AssertionError("unreachable")

    def _status(self) -> ev.StatusState | None:
        status = self._tail.fold.status
        return status.state if status else None

    async def _attempt(self, request: ModelRequest, checkpoint: bytes | None) -> StepResult:
        limits = self._limits
        progress = Watch(limits.header, limits.chunk)
        life = Watch(limits.alive, limits.alive)
        sink = AttemptSink(
            self._tail, self._database, self._clock, self._ids, progress=progress, life=life
        )
        completion = None
        with life.scope, progress.scope:
            completion = await self._respond(request, sink, checkpoint)
        if completion is None:
            raise ModelError("The model stopped responding.", code="MODEL_STALLED", retryable=True)
        sink.close()
        state = _plain(completion.state)
        step = AssistantStep("".join(sink.texts), list(sink.calls), state)
        record = StepRecord(step, completion.finish_reason, completion.usage)
        return StepResult(record, sink.bad_calls)

    async def _respond(
        self, request: ModelRequest, sink: AttemptSink, checkpoint: bytes | None
    ) -> Completion:
        if checkpoint is None:
            return await self._model.respond(request, sink)
        if not isinstance(self._model, ResumableModel):  # it was another one then
            self._withdraw("INTERRUPTED")
            return await self._model.respond(request, sink)
        saved = msgspec.json.decode(checkpoint, type=Saved)
        sink.restore(saved, last_step(self._tail.preview().parts()))
        return await self._model.resume(request, sink, saved.data)

    def _withdraw(self, reason: str) -> None:
        self._tail.checkpoint(b"")
        self._tail.append(ev.ResetStep(reason))

    async def _wait(self, error: ModelError, attempt: int, limit: int, pause: float) -> None:
        until = self._clock.now_ms() + round(pause * 1000)
        self._withdraw(error.code)
        text = whole(error.text)
        self._tail.append(ev.Status("retrying", text, attempt=attempt, limit=limit, until=until))
        await trio.sleep(pause)
        text = f"Asking {self._model.name} again"
        self._tail.append(ev.Status("connecting", text, attempt=attempt, limit=limit))

    def _pause(self, error: ModelError, failures: int) -> float | None:
        """Seconds before the next request; None if the provider asks for too long a pause."""
        backoff = min(BACKOFF_LIMIT_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** (failures - 1))
        backoff *= 0.75 + 0.25 * self._jitter()
        if error.retry_after is None:
            return backoff
        if error.retry_after > RETRY_AFTER_LIMIT_SECONDS:
            return None
        return max(backoff, error.retry_after)


def _plain(state: ProviderState | None) -> ProviderState | None:
    if state is None:
        return None
    try:
        return msgspec.structs.replace(state, data=plain(state.data))
    except ValueError as error:
        text = f"What the model sent along {error}."
        raise ModelError(text, code="MODEL_PROTOCOL", retryable=True) from None
