"""What the adapters for both of OpenAI's ways to answer share: the list of models, and the key."""

from collections.abc import Mapping

from app.models.addresses import host_of
from app.models.endpoint import Endpoint
from app.models.errors import ModelError
from app.models.http import Http


class OpenAIEndpoint(Endpoint):
    """A server that lists its models below `/models` and takes the key as a bearer token.

    Args:
        model: "" means the first one it lists, asked for at the first request.
    """

    async def probe(self) -> None:
        """See reachability.Probed."""
        self._check()
        await self._models()

    async def _choose(self) -> None:
        """Before the first request: which model, if none is named. Raises ModelError."""
        self._check()
        if self.model:
            return
        names = await self._models()
        if not names:
            text = f"{self._who} lists no models: set `model`."
            raise ModelError(text, code="MODEL_NOT_FOUND", retryable=False)
        self.model = names[0]

    async def _models(self) -> list[str]:
        return await list_models(self._http, self.base_url, self._authorization())

    def _authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}


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
