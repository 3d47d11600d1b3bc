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

Headers = Mapping[str, str]


class Signer(Protocol):
    """What proves one request."""

    @property
    def region(self) -> str | None:
        """Where its owner works, if that is known with it."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What has to be kept out of every error text."""

    def sign(self, url: str, headers: Headers, body: bytes, region: str) -> dict[str, str]:
        """The headers with the proof, for exactly this address and body."""


@dataclass(frozen=True)
class Bearer:
    """A key of Bedrock's own."""

    key: str = field(repr=False)
    region: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.key,)

    def sign(self, url: str, headers: Headers, body: bytes, region: str) -> dict[str, str]:
        return {**headers, "authorization": f"Bearer {self.key}"}


@dataclass(frozen=True)
class Keys:
    """Keys of AWS; with a token, those of a session."""

    access: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    region: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.secret, self.token)))

    def sign(self, url: str, headers: Headers, body: bytes, region: str) -> dict[str, str]:
        request = AWSRequest("POST", url, headers=dict(headers), data=body)
        credentials = Credentials(self.access, self.secret, self.token)
        SigV4Auth(credentials, "bedrock", region).add_auth(request)
        return dict(request.headers.items())


class KeySource(Protocol):
    async def keys(self) -> Signer:
        """Those of this moment. Raises ModelError."""


@dataclass(frozen=True)
class Fixed:
    """Implements KeySource."""

    found: Signer

    async def keys(self) -> Signer:
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

    async def keys(self) -> Signer:
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
        return Keys(frozen.access_key, frozen.secret_key, frozen.token, region)


def source(env: Mapping[str, str], key: str | None, profile: str | None) -> KeySource:
    """Where the keys come from. `key`: a bearer key that was configured."""
    bearer = key or env.get("AWS_BEARER_TOKEN_BEDROCK", "").strip()
    if bearer and (key or not profile):
        return Fixed(Bearer(bearer))
    access, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if access and secret and not profile:
        return Fixed(Keys(access, secret, env.get("AWS_SESSION_TOKEN") or None))
    return Chain(profile)


def _unusable(error: Exception, *, code: str, retryable: bool) -> ModelError:
    text = f"The AWS credentials cannot be used: {scrub(str(error)).rstrip('.')}."
    return ModelError(text, code=code, retryable=retryable)
