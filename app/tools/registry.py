"""Tools by name, and which of them a model is offered."""

from collections.abc import Iterable
from typing import Any, Protocol

from app.models.interface import ToolSpec


class ToolError(Exception):
    """The tool could not do it. The text is told to the model and shown to the person."""


class Tool(Protocol):
    """One tool. `idempotent`: running it again after a crash does no harm (S5).

    `providers`: offered only to models of these providers; None: to all.
    """

    spec: ToolSpec
    idempotent: bool
    providers: frozenset[str] | None

    async def run(self, arguments: Any) -> Any:
        """Do it. Returns JSON. Raises ToolError; cancellation must really stop it."""


class Toolbox:
    """The tools of this server."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def specs(self, provider: str) -> list[ToolSpec]:
        """What a model of this provider is offered, in a stable order."""
        return [
            tool.spec
            for tool in self._tools.values()
            if tool.providers is None or provider in tool.providers
        ]
