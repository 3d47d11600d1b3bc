"""One turn: steps and tools, until it has an ending.

The loop can begin anywhere: with nothing, after a step whose calls are not settled, or after one
that was the last. So a recovered turn and a new one are the same code.
"""

import functools
import operator
from dataclasses import dataclass, field

import trio

from app import events as ev
from app.models.interface import Entry, ModelRequest, ToolResult, ToolSpec
from app.tail import Tail
from app.turns import outcomes
from app.turns.attempt import Attempts, GaveUpError, StepResult
from app.turns.calls import Calls
from app.turns.outcomes import Ending
from app.turns.state import State, advance
from app.turns.steps import StepRecord, encode_step, step_entries
from store import turns
from store.database import Database


@dataclass(eq=False)
class LiveTurn:
    """A turn that has not ended, in this process: queued, or running with a task of its own."""

    number: int
    id: str
    thread: str
    question: str
    model: str
    instructions: str | None
    tail: Tail
    state: State
    life: int = 0  # streams it had before; makes the part ids of each life distinct
    started_at: int | None = None  # wall-clock ms, as is the next
    deadline_at: int | None = None
    records: list[StepRecord] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    checkpoint: bytes | None = None  # of the response its last life had under way
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    # Set by `stop`; says what is recorded if the scope was what ended the run.
    reason: Ending = outcomes.CANCELLED
    ended: trio.Event = field(default_factory=trio.Event)  # the outcome is on record

    @property
    def usage(self) -> ev.Usage | None:
        """Of all complete steps, also those of earlier lives; None: nothing is known."""
        known = [record.usage for record in self.records if record.usage is not None]
        return functools.reduce(operator.add, known) if known else None

    def stop(self, reason: Ending) -> None:
        """End the run at once, wherever it is. Idempotent: the first reason stays."""
        if not self.scope.cancel_called:
            self.reason = reason
            self.scope.cancel(reason=reason.code)

    def fail(self) -> None:
        """A commit failed: the run must end, for nothing it does would be on record."""
        self.stop(outcomes.STORE_FAILED)

    def move(self, to: State) -> None:
        self.state = advance(self.state, to)


class Run:
    """The steps of one turn."""

    def __init__(
        self,
        live: LiveTurn,
        *,
        database: Database,
        attempts: Attempts,
        calls: Calls,
        instructions: str | None,
        tools: list[ToolSpec],
        max_steps: int,
    ) -> None:
        self._live = live
        self._database = database
        self._attempts = attempts
        self._calls = calls
        self._instructions = instructions
        self._tools = tools
        self._max_steps = max_steps

    async def until_ended(self, history: list[Entry]) -> Ending:
        """Go on from where the turn is. Returns how it ended; stops and deadlines come as
        cancellation.

        Args:
            history: the thread before this answer, its question last.
        """
        live = self._live
        bad: dict[str, str] = {}
        while True:
            if live.records:
                last = live.records[-1]
                if not last.step.calls:
                    return outcomes.finished(last.finish_reason)
                await self._calls.run(last.step.calls, bad, live.results)
            if len(live.records) >= self._max_steps:
                return outcomes.TOO_MANY_STEPS
            entries = [*history, *step_entries(live.records, live.results)]
            request = ModelRequest(
                entries, self._instructions, self._tools, thread=live.thread, turn=live.id
            )
            checkpoint, live.checkpoint = live.checkpoint, None
            try:
                result = await self._attempts.step(request, checkpoint)
            except GaveUpError as failure:
                return outcomes.model_failed(failure.error, failure.tries)
            bad = result.bad_calls
            await self._record(result)

    async def _record(self, result: StepResult) -> None:
        """The step is complete: from here it is never asked for again, also after a crash."""
        live, record = self._live, result.record
        encoded, ordinal = encode_step(record), len(live.records)
        live.records.append(record)
        live.tail.checkpoint(b"")
        live.tail.append(ev.FinishStep(record.finish_reason, record.usage))
        await self._database.write(lambda c: turns.add_step(c, live.number, ordinal, encoded))
