"""The Quart application class and the streaming response that fit this transport."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from quart.typing import ResponseTypes
from quart_trio import QuartTrio
from quart_trio.wrappers import TrioResponse

# Proxies and browsers must neither store, nor compress, nor hold back a stream.
STREAM_HEADERS = {
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


class App(QuartTrio):
    """QuartTrio without its traps. The lifespan is not run under `Transport`: start and stop of
    services belong to the composition root, and `app.nursery` does not exist (fault 7)."""

    def __init__(self, import_name: str, **options: Any) -> None:
        super().__init__(import_name, **options)
        # Quart would cut a response after 60 s, however well it flows. The transport's own write
        # deadline cuts what does not flow.
        self.config["RESPONSE_TIMEOUT"] = None

    async def handle_websocket_exception(self, error: Exception) -> ResponseTypes | None:
        """Let it through to the transport, which logs it and closes with 1011, or answers 500 when
        the socket was not accepted yet. Quart would close with 1000, "all is well" (fault 8)."""
        raise error


def stream_response(
    body: AsyncGenerator[bytes, None],
    *,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> TrioResponse:
    """A response that goes on as long as its generator does.

    Args:
        body: an async generator (Quart-Trio accepts no other iterable). It is cancelled at its
            `yield` or `await` when the reader goes away; one that was never started runs no
            `finally`, so what needs cleaning up is acquired inside. An exception in it is logged
            and ends the body without the final chunk: the reader sees a cut, not an end.
        headers: more headers, or other values for ours.
    """
    return TrioResponse(
        body, content_type=content_type, headers={**STREAM_HEADERS, **(headers or {})}
    )
