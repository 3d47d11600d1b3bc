"""Tools that are always there."""

from typing import Any

import trio

from app.models.interface import ToolSpec
from app.tools.registry import ToolError

WAIT_LIMIT_SECONDS = 3600.0


class Wait:
    """Waits. It lets the demonstration show a slow tool; real models are not offered it."""

    spec = ToolSpec(
        "wait",
        "Waits for a number of seconds and says how long it waited.",
        {
            "type": "object",
            "properties": {"seconds": {"type": "number", "minimum": 0}},
            "required": ["seconds"],
        },
    )
    idempotent = False
    providers: frozenset[str] | None = frozenset({"demo"})

    async def run(self, arguments: Any) -> Any:
        seconds: Any = arguments.get("seconds") if isinstance(arguments, dict) else None
        if type(seconds) not in (int, float) or not 0 <= seconds <= WAIT_LIMIT_SECONDS:
            raise ToolError(f"`seconds` must be a number from 0 to {WAIT_LIMIT_SECONDS:g}")
        await trio.sleep(seconds)
        return {"waited": seconds}
