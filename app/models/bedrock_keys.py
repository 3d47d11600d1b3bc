"""What signs a request to AWS: a bearer key, or keys found the way AWS's own programs find them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as AwayError

from app.models.errors import ModelError
from app.models.faults import scrub
from app.models.shared_call import SharedCall


@dataclass(frozen=True)
class Keys:
    """What signs one request. `secrets` are kept out of every error text."""

    secrets: tuple[str, ...] = field(repr=False)
    region: str | None = None
    access: str = ""

    def sign(
        self, url: str, headers: Mapping[str, str], body: bytes, region: str
    ) -> dict[str, str]:
        """The headers with what proves them, for exactly this address and body."""
        secret, token = self.secrets[0], self.secrets[1] if len(self.secrets) > 1 else None
        request = AWSRequest("POST", url, headers=dict(headers), data=body)
        SigV4Auth(Credentials(self.access, secret, token), "bedrock", region).add_auth(request)
        return dict(request.headers.items())


class Bearer(Keys):
    """A key of Bedrock's own."""

    def sign(
        self, url: str, headers: Mapping[str, str], body: bytes, region: str
    ) -> dict[str, str]:
        return {**headers, "authorization": f"Bearer {self.secrets[0]}"}


class KeySource(Protocol):
    async def keys(self) -> Keys:
        """Those of this moment. Raises ModelError."""


@dataclass(frozen=True)
class Fixed:
    """Implements KeySource."""

    found: Keys

    async def keys(self) -> Keys:
        return self.found


class Chain:
    """Implements KeySource: AWS's own search, from the profile to the machine's role.

    It reads files, runs programs and asks the network, and the keys it finds expire: all of that
    happens in a thread, which a waiter leaves alone when it is cancelled (E3).
    """

    def __init__(self, profile: str | None) -> None:
        self._profile = profile
        self._shared = SharedCall(self._look_up, name="AWS credentials")
        # What was found last, with its own way to refresh. Away while a call uses it: one that
        # hangs keeps it, with its locks, and the next call begins anew.
        self._found: tuple[Any, str | None] | None = None

    async def keys(self) -> Keys:
        return await self._shared()

    def _look_up(self) -> Keys:  # in a thread
        found, self._found = self._found, None
        try:
            if found is None:
                session = botocore.session.Session(profile=self._profile)
                found = session.get_credentials(), session.get_config_variable("region")
            credentials, region = found
            frozen = credentials.get_frozen_credentials() if credentials else None
        except (HTTPClientError, AwayError) as error:
            raise _unusable(error, code="MODEL_UNREACHABLE", retryable=True) from None
        except (BotoCoreError, ClientError) as error:
            raise _unusable(error, code="MODEL_UNAUTHORIZED", retryable=False) from None
        if frozen is None:
            text = "No AWS credentials were found. Set AWS_BEARER_TOKEN_BEDROCK, or log in to AWS."
            raise ModelError(text, code="MODEL_UNAUTHORIZED", retryable=False)
        self._found = found
        secrets = (frozen.secret_key, *([frozen.token] if frozen.token else []))
        return Keys(secrets, region, frozen.access_key)


def source(env: Mapping[str, str], key: str | None, profile: str | None) -> KeySource:
    """Where the keys come from. `key`: a bearer key that was configured."""
    bearer = key or env.get("AWS_BEARER_TOKEN_BEDROCK", "").strip()
    if bearer and (key or not profile):
        return Fixed(Bearer((bearer,)))
    access, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if access and secret and not profile:
        token = env.get("AWS_SESSION_TOKEN")
        return Fixed(Keys((secret, *([token] if token else [])), None, access))
    return Chain(profile)


def _unusable(error: Exception, *, code: str, retryable: bool) -> ModelError:
    text = f"The AWS credentials cannot be used: {scrub(str(error)).rstrip('.')}."
    return ModelError(text, code=code, retryable=retryable)
