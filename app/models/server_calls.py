"""Tool calls that a provider runs itself: shown, settled by its results, never ours to run."""

from typing import Any

from app.models.interface import Sink

NO_RESULT = "The provider gave no result of this call."


class ServerCalls:
    """Those of one answer, also where the provider makes several responses of it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        # Provider's id -> ours, of those without a result.
        self._open: dict[str, str] = {}

    def began(self, provider_id: str, call: str) -> None:
        """The input of `call`, our id, is complete."""
        self._open[provider_id] = call

    def ended(self, provider_id: str, output: Any, *, is_error: bool) -> None:
        """A result came. One that nobody waits for is passed over."""
        call = self._open.pop(provider_id, None)
        if call is not None:
            self._sink.tool_settled(call, output, is_error=is_error)

    def settle(self) -> None:
        """The answer is over, for once: nothing that the provider began is left for us to run."""
        for call in self._open.values():
            self._sink.tool_settled(call, NO_RESULT, is_error=True)
