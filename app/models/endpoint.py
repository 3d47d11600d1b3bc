"""What adapters share whose provider is one address with one key."""

from collections.abc import Hashable, Mapping
from typing import Any, NotRequired, TypedDict

from app.models.addresses import host_of
from app.models.errors import NotConfiguredError
from app.models.http import Http


class Arguments(TypedDict):
    """What an Endpoint is made of, for adapters that are made of more."""

    name: str
    http: Http
    base_url: str
    model: str
    api_key: NotRequired[str | None]
    missing: NotRequired[str | None]
    options: NotRequired[Mapping[str, Any] | None]


class Endpoint:
    """A model behind an address; its adapter derives from this and implements Model.

    Args:
        base_url: of the server; each adapter says up to where.
        model: the server's name for the model.
        api_key: None where the server wants none.
        missing: a sentence that says why there is no key though there should be; each request
            fails with it.
        options: members of the request body, over those the adapter makes.
    """

    provider: str

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

    @property
    def place(self) -> Hashable:
        """See reachability.Probed."""
        return self.base_url, self._api_key, self._missing

    def _check(self) -> None:
        """Raises NotConfiguredError where the key is missing: called before anything is asked."""
        if self._missing:
            raise NotConfiguredError(self._missing)

    @property
    def _who(self) -> str:
        return host_of(self.base_url)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self._api_key,) if self._api_key else ()
