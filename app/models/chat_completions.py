"""The adapter for everything that speaks OpenAI's Chat Completions."""

import msgspec

from app.models import chat_request
from app.models.chat_reader import ChatReader
from app.models.http import Call
from app.models.interface import Completion, ModelRequest, ProviderState, Sink
from app.models.openai_endpoint import OpenAIEndpoint


class ChatCompletions(OpenAIEndpoint):
    """Implements Model.

    Args:
        base_url: up to and without `/chat/completions`.
    """

    provider = "chat_completions"

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """See Model."""
        await self._choose()
        call = self._call(request)
        reader = ChatReader(sink, who=call.who, secrets=call.secrets)
        await self._http.exchange(call, sink, reader)
        reader.end()
        state = reader.state
        return Completion(
            finish_reason=reader.finish_reason,
            usage=reader.usage,
            state=ProviderState(self.provider, self.model, state) if state else None,
        )

    def _call(self, request: ModelRequest) -> Call:
        body = chat_request.body(
            request, provider=self.provider, model=self.model, options=self._options
        )
        return Call(
            url=f"{self.base_url}/chat/completions",
            headers={
                "accept": "text/event-stream",
                "content-type": "application/json",
                **self._authorization(),
            },
            body=msgspec.json.encode(body),
            secrets=self._secrets,
        )
