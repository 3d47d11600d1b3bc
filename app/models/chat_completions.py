"""The adapter for everything that speaks OpenAI's Chat Completions."""

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from app.models import chat_request
from app.models.addresses import host_of
from app.models.chat_reader import ChatReader
from app.models.errors import ModelError, NotConfiguredError
from app.models.http import Call, Http
from app.models.interface import Completion, ModelRequest, ProviderState, Sink


class ChatCompletions:
    """Implements Model.

    Args:
        base_url: up to and without `/chat/completions`.
        model: the server's name for the model; "" means the first one it lists, asked for at the
            first request.
        api_key: None where the server wants none.
        missing: a sentence that says why there is no key though there should be; each request
            fails with it.
        options: members of the request body, over those made here.
    """

    provider = "chat_completions"

    def __init__(
        self,
        *,
        name: str,
        http: Http,
        base_url: str,
        model: str,
        api_key: str | None = None,
        missing: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.base_url = base_url
        self._http = http
        self._api_key = api_key
        self._missing = missing
        self._options = dict(options or {})

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """See Model."""
        self._check()
        if not self.model:
            self.model = await self._first_model()
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

    @property
    def place(self) -> Hashable:
        """See reachability.Probed."""
        return self.base_url, self._api_key, self._missing

    async def probe(self) -> None:
        """See reachability.Probed."""
        self._check()
        await list_models(self._http, self.base_url, self._authorization())

    def _check(self) -> None:
        if self._missing:
            raise NotConfiguredError(self._missing)

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
            secrets=(self._api_key,) if self._api_key else (),
        )

    def _authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}

    async def _first_model(self) -> str:
        names = await list_models(self._http, self.base_url, self._authorization())
        if not names:
            text = f"{host_of(self.base_url)} lists no models: set `model`."
            raise ModelError(text, code="MODEL_NOT_FOUND", retryable=False)
        return names[0]


async def list_models(
    http: Http, base_url: str, headers: Mapping[str, str] | None = None
) -> list[str]:
    """The ids under `/models`, in the server's order. The caller has a deadline.

    Raises ModelError, also where the answer is not such a list.
    """
    found = await http.get_json(f"{base_url}/models", headers)
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        text = f"{host_of(base_url)} does not list its models in the OpenAI way."
        raise ModelError(text, code="MODEL_PROTOCOL", retryable=False)
    ids = [item.get("id") for item in listed if isinstance(item, dict)]
    return [id_ for id_ in ids if isinstance(id_, str) and id_]
