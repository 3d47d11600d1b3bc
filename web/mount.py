"""The path we are mounted under: a proxy in front may strip it or pass it on, both work.

Inside, every path is as web/PROTOCOL.md has it; outside, what we send is relative, so it needs no
knowledge of the prefix.
"""

from hypercorn.typing import ASGIFramework, ASGIReceiveCallable, ASGISendCallable, Scope


class Mounted:
    """An ASGI application that also answers below a prefix."""

    def __init__(self, app: ASGIFramework, base: str) -> None:
        """`base`: the prefix; slashes at its ends make no difference."""
        self._app = app
        self._root = root_of(base)

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        if scope["type"] != "lifespan" and self._below(scope["path"], scope.get("root_path", "")):
            scope["root_path"] = self._root  # Quart takes it off the path
        await self._app(scope, receive, send)

    def _below(self, path: str, outer: str) -> bool:
        # An application we are mounted in has set the root path by itself.
        return bool(self._root) and not outer and path.startswith(f"{self._root}/")


def root_of(base: str) -> str:
    """Without a slash at the end; "" for the root."""
    name = base.strip("/")
    return f"/{name}" if name else ""
