"""The adapter for Anthropic's Messages API, and for servers that speak it."""

from typing import Any

import msgspec

from app.events import Usage
from app.models import anthropic_request
from app.models.addresses import host_of
from app.models.anthropic_reader import MessageReader
from app.models.endpoint import Endpoint
from app.models.errors import ModelError
from app.models.http import Call
from app.models.interface import Completion, ModelRequest, ProviderState, Sink
from app.models.server_calls import ServerCalls

# What servers that speak this wire know. Anthropic keeps a version as it is; the next one,
# 2026-10-21, refuses parameters that options may hold (temperature).
VERSION = "2023-06-01"
# A provider that runs its own tools pauses long answers; one that pauses more often than this never
# comes to an end.
MOST_PAUSES = 20
# The host that is known to keep what it has read of a growing conversation when it is told to.
CACHING_HOST = "api.anthropic.com"


class Anthropic(Endpoint):
    """Implements Model.

    Args:
        base_url: up to and without `/v1/messages`.
        options: their `tools` are added to ours.
    """

    provider = "anthropic"

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """See Model. A response that the provider pauses is asked to go on."""
        self._check()
        served = ServerCalls(sink)
        content: list[dict[str, Any]] = []
        usage: Usage | None = None
        for _ in range(MOST_PAUSES):
            call = self._call(request, content)
            reader = MessageReader(sink, served, who=call.who, secrets=call.secrets)
            await self._http.exchange(call, sink, reader)
            reader.end()
            content = [*content, *reader.content]
            usage = _total(usage, reader.usage)
            if reader.stop_reason != "pause_turn":
                served.settle()
                state = ProviderState(self.provider, self.model, content) if content else None
                return Completion(reader.finish_reason, usage, state)
        text = f"{call.who} paused the answer more than {MOST_PAUSES} times."
        raise ModelError(text, code="MODEL_ERROR", retryable=False)

    async def probe(self) -> None:
        """See reachability.Probed."""
        self._check()
        await self._http.get_json(f"{self.base_url}/v1/models", self._authorization())

    def _call(self, request: ModelRequest, paused: list[dict[str, Any]]) -> Call:
        caches = host_of(self.base_url) == CACHING_HOST
        caching = {"cache_control": {"type": "ephemeral"}} if caches else {}
        body = anthropic_request.body(
            request,
            provider=self.provider,
            model=self.model,
            options={**caching, **self._options},
            paused=paused,
        )
        return Call(
            url=f"{self.base_url}/v1/messages",
            headers={
                "accept": "text/event-stream",
                "content-type": "application/json",
                **self._authorization(),
            },
            body=msgspec.json.encode(body),
            secrets=self._secrets,
        )

    def _authorization(self) -> dict[str, str]:
        version = {"anthropic-version": VERSION}
        return {**version, "x-api-key": self._api_key} if self._api_key else version


def _total(first: Usage | None, second: Usage | None) -> Usage | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
