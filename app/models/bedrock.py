"""The adapter for Amazon Bedrock's ConverseStream.

What speaks AWS's formats comes from botocore, which is imported where a model needs it: it is as
large as everything else together, and most people have no use for it.
"""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from app.models import bedrock_request
from app.models.errors import ModelError, NotConfiguredError
from app.models.http import Call, Http
from app.models.interface import Completion, ModelRequest, ProviderState, Sink

if TYPE_CHECKING:
    from app.models.bedrock_keys import KeySource, Signer

WITHOUT_BOTOCORE = (
    "models of the kind bedrock need the package botocore, which is not here."
    " Install Unbroken with its extra, unbroken[bedrock] (docs/install.md)."
)


class Bedrock:
    """Implements Model.

    Args:
        source: where the keys come from; None: as `missing` says.
        base_url: "" means AWS's own, of the region.
        region: None: the one that comes with the keys.
        missing: a sentence that says why there are no keys though there should be; each request
            fails with it.
        options: members of the request body, over those made here.
    """

    provider = "bedrock"

    def __init__(
        self,
        *,
        name: str,
        http: Http,
        model: str,
        source: "KeySource | None",
        base_url: str = "",
        region: str | None = None,
        missing: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.base_url = base_url
        self._http = http
        self._source = source
        self._region = region
        self._missing = missing
        self._options = dict(options or {})

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """See Model."""
        from app.models.bedrock_reader import ConverseReader

        body = bedrock_request.body(
            request, provider=self.provider, model=self.model, options=self._options
        )
        call = await self._call(msgspec.json.encode(body))
        reader = ConverseReader(sink, who=call.who, secrets=call.secrets)
        await self._http.exchange(call, sink, reader)
        reader.end()
        state = reader.content
        return Completion(
            finish_reason=reader.finish_reason,
            usage=reader.usage,
            state=ProviderState(self.provider, self.model, state) if state else None,
        )

    @property
    def place(self) -> Hashable:
        """See reachability.Probed."""
        return self.provider, self.base_url, self._region, self._source, self._missing

    async def probe(self) -> None:
        """See reachability.Probed. The request is not signed: whoever refuses it is there."""
        _, _, url = await self._found()
        try:
            await self._http.get_json(url)
        except ModelError as error:
            if error.code == "MODEL_UNREACHABLE":
                raise

    async def _call(self, body: bytes) -> Call:
        keys, region, base = await self._found()
        url = f"{base}/model/{quote(self.model, safe='')}/converse-stream"
        headers = {
            "accept": "application/vnd.amazon.eventstream",
            "content-type": "application/json",
        }
        signed = keys.sign(url, headers, body, region)
        return Call(url=url, headers=signed, body=body, secrets=keys.secrets)

    async def _found(self) -> tuple["Signer", str, str]:
        """Keys, region and address."""
        if self._source is None:
            raise NotConfiguredError(self._missing or "There are no keys.")
        keys = await self._source.keys()
        region = self._region or keys.region
        if region is None:
            text = f"The model {self.name} has no region: set `region` or AWS_REGION."
            raise NotConfiguredError(text)
        return keys, region, self.base_url or _url(region)


def available() -> bool:
    """Whether botocore is there, and all of it that is needed."""
    try:
        from app.models import bedrock_keys, bedrock_reader  # noqa: F401 - tried out
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("botocore"):
            raise
        return False
    return True


def make(
    *,
    name: str,
    http: Http,
    env: Mapping[str, str],
    model: str,
    base_url: str,
    api_key: str | None,
    missing: str | None,
    region: str | None,
    profile: str | None,
    options: Mapping[str, Any],
) -> Bedrock:
    """The adapter as configured; where something is missing, one that says so."""
    source: KeySource | None = None
    if not missing:
        from app.models import bedrock_keys

        source = bedrock_keys.source(env, api_key, profile)
    return Bedrock(
        name=name,
        http=http,
        model=model,
        source=source,
        base_url=base_url,
        region=region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None,
        missing=missing,
        options=options,
    )


def _url(region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock-runtime.{region}.{domain}"
