"""The tool calls of one step: dispatched on record, run side by side, each under its deadline."""

import copy
from collections.abc import Sequence
from typing import Any

import trio

from app import events as ev
from app.clock import WallClock
from app.durations import spoken
from app.models.interface import ToolCall, ToolResult
from app.tail import Tail
from app.tools.registry import Tool, Toolbox, ToolError
from app.turns.plain import plain, whole
from store.database import Connection, Database


class Calls:
    """Runs calls and keeps the ledger: it is the log itself, `tool-dispatched` is the fence.

    A call is dispatched only after that record is fsynced, so after a crash the log says exactly
    which tools may have happened (S5).
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        tail: Tail,
        database: Database,
        clock: WallClock,
        timeout: float | None,
    ) -> None:
        """`timeout`: seconds for one call; None: no limit."""
        self._toolbox = toolbox
        self._tail = tail
        self._database = database
        self._clock = clock
        self._timeout = timeout

    async def run(
        self, calls: Sequence[ToolCall], bad: dict[str, str], results: dict[str, ToolResult]
    ) -> None:
        """Settle every call that has no result yet; fills `results` by call id.

        Args:
            bad: calls whose input could not be read: call id -> why. They are not run.
        """
        async with trio.open_nursery() as nursery:
            for call in calls:
                if call.id in bad:
                    results[call.id] = ToolResult(call, bad[call.id], is_error=True)
                elif call.id not in results:
                    nursery.start_soon(self._run_one, call, results, name=f"tool {call.name}")
        await self._database.write(_nothing)  # the results are on record before anybody asks on

    async def _run_one(self, call: ToolCall, results: dict[str, ToolResult]) -> None:
        tool = self._toolbox.get(call.name)
        if tool is None:
            self._settle(call, results, f"There is no tool named {call.name!r}", is_error=True)
            return
        self._tail.append(ev.ToolDispatched(call.id, self._clock.now_ms()))
        await self._database.write(_nothing)
        output, is_error = await self._guarded(tool, call.input)
        self._settle(call, results, output, is_error=is_error)

    async def _guarded(self, tool: Tool, arguments: Any) -> tuple[Any, bool]:
        """What the tool gave, and whether that is an error. What it raises is a fault of ours."""
        timeout = self._timeout
        deadline = None if timeout is None else self._clock.now_ms() + round(timeout * 1000)
        with self._clock.scope(deadline):
            try:
                # A copy: what the model asked for stays as it was, whatever the tool does with it.
                output = await tool.run(copy.deepcopy(arguments))
            except ToolError as error:
                return whole(str(error)), True
            try:
                return plain(output), False
            except ValueError as error:
                return f"The result of the tool {error}.", True
        return f"The tool took longer than {spoken(timeout or 0)} and was stopped.", True

    def _settle(
        self, call: ToolCall, results: dict[str, ToolResult], output: Any, *, is_error: bool
    ) -> None:
        results[call.id] = ToolResult(call, output, is_error)
        at = self._clock.now_ms()
        if is_error:
            self._tail.append(ev.ToolOutputError(call.id, str(output), at))
        else:
            self._tail.append(ev.ToolOutputAvailable(call.id, output, at))


def _nothing(_connection: Connection) -> None:
    """A job whose commit makes what was appended beside it durable."""
