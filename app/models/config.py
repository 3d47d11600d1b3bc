"""One model's configuration, and what is wrong with it."""

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.errors import InvalidError
from app.models.addresses import is_url

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
LANGGRAPH_URL = "http://127.0.0.1:2024"  # where `langgraph dev` serves

# Where a kind's provider is if `base_url` does not say, and the path that is not part of it.
_DEFAULT_URLS = {
    "chat_completions": (OPENAI_URL, "/chat/completions"),
    "responses": (OPENAI_URL, "/responses"),
    "anthropic": (ANTHROPIC_URL, "/v1/messages"),
    "langgraph": (LANGGRAPH_URL, ""),
}
# Providers that answer nobody without a key, and where it is by custom.
_WANT_KEYS = {OPENAI_URL: "OPENAI_API_KEY", ANTHROPIC_URL: "ANTHROPIC_API_KEY"}
# Kinds whose servers are not asked for the model they have.
_NAMED = ("anthropic", "bedrock")

Seconds = float | Literal["off"]
Kind = Literal["chat_completions", "responses", "anthropic", "bedrock", "langgraph", "demo"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long an attempt waits, in seconds; None: for ever, the protection is removed.

    Args:
        header: from the start of the request to the first content (S1).
        chunk: between two model events.
        alive: between two signs of any kind, comments and pings included.
        max_retries: of one step.
    """

    header: float | None = 300.0
    chunk: float | None = 120.0
    alive: float | None = 600.0
    max_retries: int = 5


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model as configured: `[models.NAME]` in unbroken.toml.

    Args:
        base_url: "" means the kind's own provider.
        api_key_env: the environment variable that holds the key.
        api_key_file: a file that holds the key, readable by its owner alone.
        header_timeout, chunk_timeout, alive_timeout: see Limits; 0 or "off" means none.
        region, profile: of AWS; None: as its own programs choose them.
        background: of the kind "responses": the provider goes on without us.
        options: members of the request body, as the provider documents them.
    """

    name: str
    kind: Kind = "chat_completions"
    base_url: str = ""
    model: str = ""
    api_key_env: str | None = None
    api_key_file: str | None = None
    header_timeout: Seconds = 300.0
    chunk_timeout: Seconds = 120.0
    alive_timeout: Seconds = 600.0
    max_retries: Annotated[int, Meta(ge=0)] = 5
    region: str | None = None
    profile: str | None = None
    background: bool = False
    options: dict[str, Any] = {}

    @property
    def limits(self) -> Limits:
        return Limits(
            header=_limit(self.header_timeout),
            chunk=_limit(self.chunk_timeout),
            alive=_limit(self.alive_timeout),
            max_retries=self.max_retries,
        )


def check(configs: list[ModelConfig]) -> None:
    names = [config.name for config in configs]
    for config in configs:
        if not re.fullmatch(r"[\w.:/-]{1,100}", config.name):
            raise _invalid(config, "a name is made of letters, digits and . : / - _")
        if names.count(config.name) > 1:
            raise _invalid(config, "the name is there twice")
        if config.max_retries < 0:
            raise _invalid(config, "max_retries is below 0")
        if config.kind in _NAMED and not config.model:
            raise _invalid(config, f"the kind {config.kind} needs `model`")
        if (config.region or config.profile) and config.kind != "bedrock":
            raise _invalid(config, f"the kind {config.kind} has no region and no profile")
        if config.background and config.kind != "responses":
            raise _invalid(config, f"the kind {config.kind} has no background")
        if config.api_key_env and not re.fullmatch(r"[A-Za-z_]\w*", config.api_key_env, re.ASCII):
            # Not shown: it is most likely the key.
            raise _invalid(config, "api_key_env is the name of a variable, not the key itself")
        if config.region is not None and not re.fullmatch(r"[a-z0-9-]+", config.region):
            raise _invalid(config, "region is not the name of one, like us-east-1")
        url_of(config)


def url_of(config: ModelConfig) -> str:
    """Where the provider is; "" where the kind has no address and none is given."""
    default, path = _DEFAULT_URLS.get(config.kind, ("", ""))
    url = (config.base_url or default).rstrip("/").removesuffix(path)
    if config.kind == "anthropic":
        url = url.removesuffix("/v1")  # as everybody else's address is written
    if url and not is_url(url):
        raise _invalid(config, "base_url has to be http(s)://host:port/path without a password")
    return url


def key_of(config: ModelConfig, env: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The key, and why there is none where one was expected: a sentence for the person."""
    key, reason = "", ""
    if config.api_key_file:
        key, reason = _read_key(Path(config.api_key_file).expanduser())
    elif config.api_key_env:
        key = env.get(config.api_key_env, "").strip()
        how = "empty" if config.api_key_env in env else "not set"
        reason = f"the variable {config.api_key_env} is {how}"
    elif url_of(config) in _WANT_KEYS:
        variable = _WANT_KEYS[url_of(config)]
        reason = f'its table needs a line like api_key_env = "{variable}"'
    else:
        return None, None
    if not key:
        return None, f"The model {config.name} has no key: {reason}."
    if not key.isascii() or not key.isprintable():
        return None, f"The key of the model {config.name} has characters that no key has."
    return key, None


def _read_key(path: Path) -> tuple[str, str]:
    """The key, and the reason if there is none. One that others can read is not used."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return "", f"others can read the file {path}; chmod 600 makes it its owner's alone"
        return path.read_text().strip(), f"the file {path} is empty"
    except OSError as error:
        return "", f"the file {path} cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        return "", f"the file {path} holds something else than a key"


def _limit(value: Seconds) -> float | None:
    return None if value == "off" or value == 0 else float(value)


def _invalid(config: ModelConfig, reason: str) -> InvalidError:
    return InvalidError(f"models.{config.name}: {reason}", code="CONFIG_INVALID")
