"""Every await of a turn is the moment of a stop, a deadline, a shutdown, a broken store, once.

Whatever the moment: the log ends with exactly one terminal event, no tool runs twice, nothing that
was said is lost, and the conversation goes on (C1, O1, S5, STYLE 42).
"""

import tempfile
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from app.models.errors import ModelError
from app.models.interface import (
    AssistantStep,
    Completion,
    ModelRequest,
    Sink,
    ToolResults,
    UserEntry,
)
from app.tools import Toolbox
from app.turns.outcomes import CANCELLED
from store.errors import StoreUnavailableError
from tests.app import truth
from tests.app.world import Probe, ScriptedModel, World, in_mock_time, says, world

TURN_TASKS = ("tool ", "app.turns.")


class At(trio.abc.Instrument):
    """Calls `act` just before step number `number` of the turn's tasks; `done` tells whether."""

    def __init__(self, number: int, act: Callable[[], Any]) -> None:
        self.left = number
        self.done = False
        self._act = act
        self._token = trio.lowlevel.current_trio_token()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self.done and task.name.startswith(TURN_TASKS) and "serve" not in task.name:
            self.left -= 1
            if self.left == 0:
                self.done = True
                self._token.run_sync_soon(self._act)


async def steps(_arguments: Any) -> str:
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    return "done"


async def two_calls(_request: ModelRequest, sink: Sink) -> Completion:
    sink.text("Let me see. ")
    await sink.room()
    await trio.lowlevel.checkpoint()
    ids = [sink.tool_start(name) for name in ("first", "second")]
    await trio.lowlevel.checkpoint()
    for id_ in ids:
        sink.tool_ready(id_, "{}")
    await trio.lowlevel.checkpoint()
    return Completion("tool-calls")


async def breaks(_request: ModelRequest, sink: Sink) -> Completion:
    sink.reasoning("hm")
    await trio.lowlevel.checkpoint()
    sink.text("never seen")
    await trio.lowlevel.checkpoint()
    raise ModelError("The connection broke", code="MODEL_EOF", retryable=True)


class Case:
    """One turn with all there is: text, two tools side by side, a retry, another text."""

    def __init__(self) -> None:
        self.tools = [Probe("first", steps), Probe("second", steps)]
        self.model = ScriptedModel(self.plays)
        self.broke = False
        self.after = ScriptedModel(says("fine"), name="after")

    async def plays(self, request: ModelRequest, sink: Sink) -> Completion:
        """Goes by what it is told, so that it does the same before and after a restart."""
        if not any(isinstance(entry, ToolResults) for entry in request.entries):
            return await two_calls(request, sink)
        broke, self.broke = self.broke, True
        return await (says("All ", "done.") if broke else breaks)(request, sink)

    def world(self, path: Path, **settings: Any) -> Any:
        toolbox = Toolbox(self.tools)
        return world(path, self.model, self.after, tools=toolbox, **settings)

    async def converse(self, w: World) -> None:
        """The conversation goes on, and the model is told what happened, in a form it can take."""
        await wait_all_tasks_blocked()  # what was to happen has happened
        seen = await w.answer("and now?", id_="message-then", model="after")
        assert seen.outcome.code == "FINISHED"
        entries = self.after.requests[-1].entries
        assert isinstance(entries[0], UserEntry)
        assert isinstance(entries[-1], UserEntry)
        for entry, following in pairwise(entries):
            if isinstance(entry, AssistantStep) and entry.calls:
                assert isinstance(following, ToolResults)
                assert [one.call for one in following.results] == entry.calls
        said = "".join(entry.text for entry in entries if isinstance(entry, AssistantStep))
        assert "never seen" not in said or said.endswith("never seen")
        assert all(len(tool.runs) <= 1 for tool in self.tools)
        await truth.check(w)


Moment = Callable[[Case, Path, int], Awaitable[bool]]


async def stopped(case: Case, path: Path, number: int) -> bool:
    async with case.world(path) as w, trio.open_nursery() as nursery:
        sent = await w.send()
        cancel = w.services.turns.cancel
        at = At(number, lambda: nursery.start_soon(cancel, sent.turn.stream_id))
        trio.lowlevel.add_instrument(at)
        seen = await w.read(sent.turn.stream_id)
        trio.lowlevel.remove_instrument(at)
        assert seen.outcome.code in ("CANCELLED", "FINISHED")
        assert seen.outcome.text in ("Stopped.", "")
        await case.converse(w)
    return at.done


async def timed_out(case: Case, path: Path, number: int) -> bool:
    async with case.world(path) as w:

        def sleep_a_night() -> None:
            w.wall.ahead += 10 * 3600
            w.services.clock.compare()

        at = At(number, sleep_a_night)
        sent = await w.send()
        trio.lowlevel.add_instrument(at)
        seen = await w.read(sent.turn.stream_id)
        trio.lowlevel.remove_instrument(at)
        assert seen.outcome.code in ("TURN_TIMEOUT", "FINISHED")
        await case.converse(w)
    return at.done


async def shut_down(case: Case, path: Path, number: int) -> bool:
    """The turn goes on in the next life, and neither tool runs again."""
    async with case.world(path, grace=0) as w:
        at = At(number, w.services.shut_down)
        sent = await w.send()
        trio.lowlevel.add_instrument(at)
        await w.read(sent.turn.stream_id)
        trio.lowlevel.remove_instrument(at)
    async with case.world(path) as w:
        seen = await w.read(sent.turn.stream_id)
        assert seen.outcome.code == "FINISHED"
        assert seen.text.endswith("All done.")
        await case.converse(w)
    return at.done


async def store_broke(case: Case, path: Path, number: int) -> bool:
    """One commit fails: the turn ends with that, and the next turn works."""
    async with case.world(path) as w:
        writer = w.services.database._writer
        commit, broken = writer._commit, False

        def fail_once(batch: Any) -> None:
            nonlocal broken
            if broken:
                broken = False
                raise OSError("the disk is full")
            commit(batch)

        def break_it() -> None:
            nonlocal broken
            broken = True

        writer._commit = fail_once  # type: ignore[method-assign]
        at = At(number, break_it)
        sent = await w.send()
        trio.lowlevel.add_instrument(at)
        seen = await w.read(sent.turn.stream_id)
        trio.lowlevel.remove_instrument(at)
        assert seen.outcome.code in ("STORE_FAILED", "FINISHED")
        await wait_all_tasks_blocked()
        await trio.sleep(5)
        if broken:  # nothing was left to commit: the next one gets it
            with pytest.raises(StoreUnavailableError):
                await w.send("this one is refused", thread="thread-02")
        await case.converse(w)
    return at.done


@pytest.mark.requirement("C1", "C3", "C5", "O1", "S5", "T3", "T7", "L9")
@pytest.mark.parametrize("moment", [stopped, timed_out, shut_down, store_broke])
def test_every_await(moment: Moment) -> None:
    number, reached = 0, True
    while reached:
        number += 1

        async def main(number: int = number) -> None:
            nonlocal reached
            with tempfile.TemporaryDirectory() as folder:
                reached = await moment(Case(), Path(folder) / "unbroken.db", number)

        in_mock_time(main)
    assert number > 20  # each of the turn's awaits was one of the moments


@pytest.mark.requirement("C1", "O1")
def test_every_tick_of_a_stop_without_a_request() -> None:
    """The same with the bare stop, at every tick of the scheduler, also before the task runs."""
    for ticks in range(40):

        async def main(ticks: int = ticks) -> None:
            case = Case()
            with tempfile.TemporaryDirectory() as folder:
                async with case.world(Path(folder) / "unbroken.db") as w:
                    sent = await w.send()
                    live = w.services.turns.live(sent.turn.id)
                    assert live is not None
                    for _ in range(ticks):
                        await trio.lowlevel.checkpoint()
                    live.stop(CANCELLED)
                    seen = await w.read(sent.turn.stream_id)
                    assert seen.types.count("Outcome") == 1
                    await case.converse(w)

        in_mock_time(main)
