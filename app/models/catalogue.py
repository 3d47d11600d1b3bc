"""Which models there are: from the configuration, else from the environment, else what runs here.

Nothing is read from the process itself: the environment is an argument.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
import trio

from app.errors import InvalidError, NotFoundError
from app.models import bedrock
from app.models.addresses import host_of, is_loopback, is_url
from app.models.anthropic import Anthropic
from app.models.bench import Bench
from app.models.chat_completions import ChatCompletions
from app.models.config import (
    ANTHROPIC_URL,
    OPENAI_URL,
    Limits,
    ModelConfig,
    check,
    key_of,
    url_of,
)
from app.models.demo import Demo
from app.models.errors import ModelError
from app.models.http import Http
from app.models.interface import Model
from app.models.langgraph import LangGraph
from app.models.openai_endpoint import list_models
from app.models.reachability import Reach, Reachability
from app.models.responses import Responses

__all__ = ["Catalogue", "Limits", "ModelConfig", "ModelInfo", "discover"]

# A server on this machine answers in a few milliseconds; a closed port refuses at once.
PROBE_SECONDS = 0.3
# Where OPENAI_API_KEY alone is set: known to every account, cheap, with tools.
OPENAI_MODEL = "gpt-5-mini"
# The same for ANTHROPIC_API_KEY: the one that the documentation takes for its examples.
ANTHROPIC_MODEL = "claude-sonnet-4-5"
OLLAMA_URL = "http://127.0.0.1:11434"
LLAMA_CPP_URL = "http://127.0.0.1:8080"


class ModelInfo(msgspec.Struct, frozen=True):
    """A model as `GET /api/models` lists it."""

    name: str
    provider: str
    model: str
    demo: bool


class Catalogue:
    """The models by name. Made by `discover`.

    `problems`: of those that cannot answer as they are configured, a sentence for the person.
    """

    def __init__(
        self,
        entries: Iterable[tuple[Model, Limits]],
        default: str | None = None,
        problems: Iterable[str] = (),
    ) -> None:
        self.problems = tuple(problems)
        self._entries = {model.name: (model, limits) for model, limits in entries}
        self.default = self.get(default or next(iter(self._entries))).name
        self._reachability = Reachability(model for model, _ in self._entries.values())

    def get(self, name: str | None = None) -> Model:
        """The model of that name, or the first whose name goes on with "/"; None: the default.

        Raises NotFoundError (MODEL_NOT_FOUND).
        """
        return self._find(name)[0]

    def limits(self, name: str | None = None) -> Limits:
        """The deadlines and retries of that model. Raises NotFoundError."""
        return self._find(name)[1]

    def list(self) -> list[ModelInfo]:
        """All of them, the order of the configuration kept, the demonstration last."""
        return [
            ModelInfo(model.name, model.provider, model.model, model.provider == Demo.provider)
            for model, _ in self._entries.values()
        ]

    async def reachability(self) -> dict[str, Reach]:
        """Which of them answer now, by name; at most two seconds, and kept for ten."""
        return await self._reachability.known()

    def _find(self, name: str | None) -> tuple[Model, Limits]:
        name = self.default if name is None else name
        if name in self._entries:
            return self._entries[name]
        for known, entry in self._entries.items():
            if known.startswith(f"{name}/"):
                return entry
        names = ", ".join(self._entries)
        raise NotFoundError(
            f"There is no model named {name}; there are: {names}.", code="MODEL_NOT_FOUND"
        )


async def discover(
    configs: Iterable[ModelConfig],
    env: Mapping[str, str],
    http: Http,
    limits: Limits | None = None,
) -> Catalogue:
    """The models of this start.

    With nothing configured: what OPENAI_API_KEY or OPENAI_BASE_URL, and ANTHROPIC_API_KEY, name,
    else a local Ollama or llama.cpp server that answers within PROBE_SECONDS, else the
    demonstration alone, which is always there. `UNBROKEN_MODEL` names the default; `openai/NAME`
    and `anthropic/NAME` another model of these. `limits` are those of a model that is not
    configured but found; None: the usual ones.

    Raises InvalidError (CONFIG_INVALID) for a configuration that cannot be meant, NotFoundError
    (MODEL_NOT_FOUND) where UNBROKEN_MODEL names none.
    """
    chosen = env.get("UNBROKEN_MODEL") or None
    configs = list(configs)
    check(configs)
    own = {config.name: config.limits for config in configs}
    common = limits or Limits()
    hosted = [] if configs else _from_environment(env, chosen)
    configs += hosted
    if not configs and chosen not in ("demo", "bench"):
        configs = await _local_servers(env, http)
    if not any(config.name == "demo" for config in configs):
        configs.append(ModelConfig(name="demo", kind="demo"))
    keys = {config.name: _key(config, env) for config in configs}
    made = [
        (_make(config, env, http, *keys[config.name]), own.get(config.name, common))
        for config in configs
    ]
    if env.get("UNBROKEN_BENCH_MODEL") == "1":
        made.append((Bench(), common))
    problems = [missing for _, missing in keys.values() if missing]
    try:
        return Catalogue(made, chosen, problems)
    except NotFoundError as error:
        # What the environment has is not looked at where models are configured.
        hint = "" if own else _elsewhere([config.name for config in hosted], chosen)
        text = f"model: {error.text}{hint}"
        raise NotFoundError(text, code=error.code) from None


def _key(config: ModelConfig, env: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The key, and why each request would fail: a sentence for the person."""
    if config.kind == "bedrock" and not bedrock.available():
        return None, f"The model {config.name} cannot answer: {bedrock.WITHOUT_BOTOCORE}"
    return key_of(config, env)


def _elsewhere(hosted: list[str], chosen: str | None) -> str:
    """How a provider's model is named that was asked for by its own name alone."""
    if chosen and chosen.startswith(("openai/", "anthropic/")):
        provider, _, _ = chosen.partition("/")
        return f" {provider.upper()}_API_KEY is not set."
    ways = " or ".join(f"--model {name}/{chosen}" for name in hosted if "/" not in name)
    return f" Another model of the same provider is named like this: {ways}." if ways else ""


def _make(
    config: ModelConfig, env: Mapping[str, str], http: Http, key: str | None, missing: str | None
) -> Model:
    if config.kind == "demo":
        return Demo(name=config.name)
    if config.kind == "bedrock":
        return bedrock.make(
            name=config.name,
            http=http,
            env=env,
            model=config.model,
            base_url=url_of(config),
            api_key=key,
            missing=missing,
            region=config.region,
            profile=config.profile,
            options=config.options,
        )
    if config.kind == "responses":
        return Responses(
            name=config.name,
            http=http,
            base_url=url_of(config),
            model=config.model,
            api_key=key,
            missing=missing,
            background=config.background,
            options=config.options,
        )
    return _ADAPTERS[config.kind](
        name=config.name,
        http=http,
        base_url=url_of(config),
        model=config.model,
        api_key=key,
        missing=missing,
        options=config.options,
    )


# Those that differ in nothing but the wire.
_ADAPTERS: dict[str, type[ChatCompletions] | type[Anthropic] | type[LangGraph]] = {
    "chat_completions": ChatCompletions,
    "anthropic": Anthropic,
    "langgraph": LangGraph,
}


# with nothing configured


def _from_environment(env: Mapping[str, str], chosen: str | None) -> list[ModelConfig]:
    """OpenAI's model, then Anthropic's; before them the one of theirs that was chosen."""
    configs = []
    for name, made in (("openai", _openai(env)), ("anthropic", _anthropic(env))):
        if made is None:
            continue
        if chosen and chosen.startswith(f"{name}/"):
            another = chosen.removeprefix(f"{name}/")
            configs.append(msgspec.structs.replace(made, name=chosen, model=another))
        configs.append(made)
    return configs


def _openai(env: Mapping[str, str]) -> ModelConfig | None:
    if not env.get("OPENAI_BASE_URL") and not env.get("OPENAI_API_KEY"):
        return None
    base_url, model = _address(env, "OPENAI_BASE_URL"), env.get("OPENAI_MODEL", "")
    if not base_url:
        base_url, model = OPENAI_URL, model or OPENAI_MODEL
    # A local server needs no key: then OPENAI_BASE_URL stands alone.
    wanted = env.get("OPENAI_API_KEY") or base_url == OPENAI_URL
    key = "OPENAI_API_KEY" if wanted else None
    return ModelConfig(name="openai", base_url=base_url, model=model, api_key_env=key)


def _anthropic(env: Mapping[str, str]) -> ModelConfig | None:
    if not env.get("ANTHROPIC_API_KEY"):
        return None
    return ModelConfig(
        name="anthropic",
        kind="anthropic",
        base_url=_address(env, "ANTHROPIC_BASE_URL") or ANTHROPIC_URL,
        model=ANTHROPIC_MODEL,
        api_key_env="ANTHROPIC_API_KEY",
    )


def _address(env: Mapping[str, str], variable: str) -> str:
    """ "" where it is not set. Raises InvalidError."""
    url = env.get(variable, "")
    if url and not is_url(url):
        # Not shown: there may be a password in it.
        text = f"{variable} has to be http(s)://host:port/path without a password"
        raise InvalidError(text, code="CONFIG_INVALID")
    return url.rstrip("/")


async def _local_servers(env: Mapping[str, str], http: Http) -> list[ModelConfig]:
    """The models of an Ollama, or else of a llama.cpp server, on this machine."""
    url = _ollama_url(env)
    if names := await _probe(_ollama_models, http, url):
        return [_local(f"ollama/{name}", url, name) for name in names]
    names = await _probe(_llama_cpp_models, http, LLAMA_CPP_URL)
    return [_local("llama.cpp", LLAMA_CPP_URL, name) for name in names[:1]]


def _local(name: str, url: str, model: str) -> ModelConfig:
    return ModelConfig(name=name, base_url=f"{url}/v1", model=model)


def _ollama_url(env: Mapping[str, str]) -> str:
    """Where OLLAMA_HOST says, if that is this machine: nothing else is probed unasked."""
    host = env.get("OLLAMA_HOST", "")
    url = host if "://" in host else f"http://{host}"
    if not host or not is_loopback(host_of(url)):
        return OLLAMA_URL
    return url.rstrip("/") if re.search(r":\d+/?$", url) else f"{url.rstrip('/')}:11434"


async def _probe(
    ask: Callable[[Http, str], Awaitable[list[str]]], http: Http, url: str
) -> list[str]:
    """The names a server at `url` lists; none where there is no such server."""
    names: list[str] = []
    with trio.move_on_after(PROBE_SECONDS):
        try:
            names = await ask(http, url)
        except ModelError:
            pass  # nobody there, or somebody else: both mean that there is no model
    return names


async def _ollama_models(http: Http, url: str) -> list[str]:
    """Newest first, without those that only embed."""
    found = await http.get_json(f"{url}/api/tags")
    listed = found.get("models") if isinstance(found, dict) else None
    models = [m for m in listed or [] if isinstance(m, dict) and isinstance(m.get("name"), str)]
    models.sort(key=lambda m: str(m.get("modified_at", "")), reverse=True)
    return [m["name"] for m in models if "embed" not in m["name"]]


async def _llama_cpp_models(http: Http, url: str) -> list[str]:
    return await list_models(http, f"{url}/v1")
