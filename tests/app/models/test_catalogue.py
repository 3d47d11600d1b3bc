"""Which models there are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from app.errors import InvalidError, NotFoundError
from app.models import Catalogue, Http, Limits, ModelConfig, ModelError, catalogue, discover
from app.models.chat_completions import ChatCompletions
from app.models.langgraph import LangGraph
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import END, HANG, STOP, FakeProvider, head, part, reply
from tests.app.models.recorder import Recorder
from tests.app.models.wire_langgraph import AgentServer, ai, human, state
from tests.app.models.wire_responses import Script, frames

pytestmark = pytest.mark.requirement("E3")

DEMO = ModelConfig(name="demo", kind="demo")


@pytest.fixture(autouse=True)
def nobody_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server of this machine takes part; port 9 is closed."""
    monkeypatch.setattr(catalogue, "OLLAMA_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(catalogue, "LLAMA_CPP_URL", "http://127.0.0.1:9")


@pytest.fixture
def ollama(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> FakeProvider:
    monkeypatch.setattr(catalogue, "OLLAMA_URL", provider.url)
    return provider


@pytest.fixture
def llama_cpp(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> FakeProvider:
    monkeypatch.setattr(catalogue, "LLAMA_CPP_URL", provider.url)
    return provider


def names(found: Catalogue) -> list[str]:
    return [info.name for info in found.list()]


def model_of(found: Catalogue, name: str | None = None) -> ChatCompletions:
    model = found.get(name)
    assert isinstance(model, ChatCompletions)
    return model


# with nothing configured


async def test_with_nothing_at_all_there_is_the_demonstration(http: Http) -> None:
    found = await discover([], {}, http)
    assert msgspec.to_builtins(found.list()) == [
        {"name": "demo", "provider": "demo", "model": "demo", "demo": True}
    ]
    assert found.default == found.get().name == "demo"


async def test_an_openai_key(http: Http) -> None:
    found = await discover([], {"OPENAI_API_KEY": "key-1"}, http)
    assert (found.default, names(found)) == ("openai", ["openai", "demo"])
    model = model_of(found)
    assert model.base_url == "https://api.openai.com/v1"
    assert model.model


async def test_another_openai_model_by_name(http: Http) -> None:
    env = {"OPENAI_API_KEY": "key-1", "UNBROKEN_MODEL": "openai/o9"}
    found = await discover([], env, http)
    assert (found.default, model_of(found).model) == ("openai/o9", "o9")


async def test_an_openai_base_url_without_key(provider: FakeProvider, http: Http) -> None:
    found = await discover([], {"OPENAI_BASE_URL": f"{provider.base_url}/"}, http)
    assert found.default == "openai"
    provider.play(*reply(200, {"data": [{"id": "theirs"}]}))
    provider.stream(STOP)
    await found.get().respond(ask("x"), Recorder())
    assert "authorization" not in provider.requests[1].headers
    assert provider.requests[1].json["model"] == "theirs"


async def test_a_local_ollama_newest_model_first(ollama: FakeProvider, http: Http) -> None:
    models = [
        {"name": "old:7b", "modified_at": "2025-01-01T00:00:00Z"},
        {"name": "new:7b", "modified_at": "2026-01-01T00:00:00Z"},
        {"name": "nomic-embed-text:latest", "modified_at": "2026-02-01T00:00:00Z"},
    ]
    ollama.play(*reply(200, {"models": models}))
    ollama.stream(STOP)
    found = await discover([], {}, http)
    assert names(found) == ["ollama/new:7b", "ollama/old:7b", "demo"]
    assert found.default == found.get("ollama").name == "ollama/new:7b"
    await found.get().respond(ask("x"), Recorder())
    assert [r.path for r in ollama.requests] == ["/api/tags", "/v1/chat/completions"]
    assert ollama.requests[1].json["model"] == "new:7b"


async def test_ollama_where_its_own_variable_says(provider: FakeProvider, http: Http) -> None:
    provider.play(*reply(200, {"models": [{"name": "x"}]}))
    found = await discover([], {"OLLAMA_HOST": provider.url.removeprefix("http://")}, http)
    assert found.default == "ollama/x"


async def test_an_ollama_elsewhere_is_not_probed(http: Http) -> None:
    found = await discover([], {"OLLAMA_HOST": "192.0.2.1:11434"}, http)
    assert found.default == "demo"


async def test_a_local_llama_cpp(llama_cpp: FakeProvider, http: Http) -> None:
    llama_cpp.play(*reply(200, {"object": "list", "data": [{"id": "gemma.gguf"}]}))
    found = await discover([], {}, http)
    assert (found.default, model_of(found).model) == ("llama.cpp", "gemma.gguf")


async def test_ollama_comes_before_llama_cpp_and_without_models_does_not_count(
    ollama: FakeProvider, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "LLAMA_CPP_URL", ollama.url)
    ollama.play(*reply(200, {"models": []}))
    ollama.play(*reply(200, {"data": [{"id": "g"}]}))
    assert (await discover([], {}, http)).default == "llama.cpp"


@pytest.mark.parametrize(
    "script",
    [
        reply(200, "<html>another program</html>", kind="text/html"),
        reply(404, "no"),
        reply(200, {"data": "nothing like it"}),
        reply(200, {"data": [{"name": "x"}]}),
        reply(200, ["x"]),
        [head(), part(b"{"), END],
    ],
)
async def test_another_program_on_the_usual_port_is_no_model(
    llama_cpp: FakeProvider, http: Http, script: list[Any]
) -> None:
    llama_cpp.play(*script)
    assert (await discover([], {}, http)).default == "demo"


async def test_a_silent_program_on_the_usual_port_does_not_hold_the_start(
    ollama: FakeProvider, http: Http, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    ollama.play(HANG)
    began = trio.current_time()
    assert (await discover([], {}, http)).default == "demo"
    assert trio.current_time() - began == pytest.approx(catalogue.PROBE_SECONDS, abs=0.1)


@pytest.mark.parametrize("env", [{"UNBROKEN_MODEL": "demo"}, {"OPENAI_API_KEY": "key-1"}])
async def test_nothing_is_probed_where_it_is_not_needed(
    ollama: FakeProvider, http: Http, env: Mapping[str, str]
) -> None:
    await discover([], env, http)
    assert ollama.connections == 0


# chosen


async def test_the_bench_model_only_on_request(http: Http) -> None:
    assert "bench" not in names(await discover([], {}, http))
    found = await discover([], {"UNBROKEN_BENCH_MODEL": "1", "UNBROKEN_MODEL": "bench"}, http)
    assert (found.default, names(found)) == ("bench", ["demo", "bench"])


async def test_a_name_that_does_not_exist(http: Http) -> None:
    with pytest.raises(NotFoundError, match="there are: demo") as caught:
        await discover([], {"UNBROKEN_MODEL": "nope"}, http)
    assert caught.value.code == "MODEL_NOT_FOUND"
    found = await discover([], {}, http)
    with pytest.raises(NotFoundError):
        found.get("dem")


# configured


async def test_configured_models_come_in_their_order_with_the_demonstration_last(
    http: Http, ollama: FakeProvider
) -> None:
    table = {
        "base_url": "http://127.0.0.1:1/v1/chat/completions",
        "model": "m",
        "header_timeout": 60,
        "chunk_timeout": "off",
        "alive_timeout": 0,
        "max_retries": 2,
        "options": {"temperature": 0},
    }
    one = msgspec.convert({"name": "one", **table}, ModelConfig)
    found = await discover([one, ModelConfig(name="two", model="x")], {}, http)
    assert (found.default, names(found)) == ("one", ["one", "two", "demo"])
    assert found.limits() == Limits(header=60, chunk=None, alive=None, max_retries=2)
    assert found.limits("two") == Limits(header=300, chunk=120, alive=600, max_retries=5)
    assert model_of(found).base_url == "http://127.0.0.1:1/v1"
    assert ollama.connections == 0


async def test_the_choice_of_a_configured_model(http: Http) -> None:
    configs = [ModelConfig(name="one", model="x"), ModelConfig(name="two", model="x")]
    assert (await discover(configs, {"UNBROKEN_MODEL": "two"}, http)).default == "two"


async def test_a_demonstration_of_another_configuration_keeps_its_place(http: Http) -> None:
    found = await discover([DEMO, ModelConfig(name="one", model="x")], {}, http)
    assert names(found) == ["demo", "one"]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"name": "a b"}, "a name is made of"),
        ({"name": ""}, "a name is made of"),
        ({"base_url": "api.openai.com/v1"}, "base_url"),
        ({"base_url": "http://me:secret@host/v1"}, "base_url"),
        ({"base_url": "http://host:99999/v1"}, "base_url"),
        ({"base_url": "http://host:port/v1"}, "base_url"),
        ({"max_retries": -1}, "max_retries"),
        ({"api_key_file": "/no/such/file"}, "cannot be read"),
    ],
)
async def test_a_configuration_that_cannot_be_meant(
    http: Http, members: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidError, match=text) as caught:
        await discover([ModelConfig(**{"name": "one", "model": "x", **members})], {}, http)
    assert caught.value.code == "CONFIG_INVALID"
    assert "secret" not in caught.value.text


async def test_the_same_name_twice(http: Http) -> None:
    with pytest.raises(InvalidError, match="twice"):
        await discover([DEMO, DEMO], {}, http)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "x", "apikey": "y"}, ModelConfig)


# keys


async def test_a_key_from_the_environment(provider: FakeProvider, http: Http) -> None:
    provider.stream(STOP)
    one = ModelConfig(name="one", base_url=provider.base_url, model="m", api_key_env="MY_KEY")
    found = await discover([one], {"MY_KEY": " key-env\n"}, http)
    await found.get().respond(ask("x"), Recorder())
    assert provider.requests[0].headers["authorization"] == "Bearer key-env"


async def test_a_key_from_a_file_of_its_owner(
    provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_text("key-file\n")
    path.chmod(0o600)
    provider.stream(STOP)
    one = ModelConfig(name="one", base_url=provider.base_url, model="m", api_key_file=str(path))
    await (await discover([one], {}, http)).get().respond(ask("x"), Recorder())
    assert provider.requests[0].headers["authorization"] == "Bearer key-file"


async def test_a_key_file_that_others_can_read_is_refused(http: Http, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("key-file\n")
    path.chmod(0o640)
    one = ModelConfig(name="one", model="m", api_key_file=str(path))
    with pytest.raises(InvalidError, match="mode 600"):
        await discover([one], {}, http)


@pytest.mark.parametrize("value", [None, "", "sécret", "two\nlines"])
async def test_a_key_that_is_missing_fails_the_request_not_the_start(
    http: Http, value: str | None
) -> None:
    env = {} if value is None else {"MY_KEY": value}
    found = await discover([ModelConfig(name="one", model="m", api_key_env="MY_KEY")], env, http)
    assert names(found) == ["one", "demo"]
    with pytest.raises(ModelError) as caught:
        await found.get().respond(ask("x"), Recorder())
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNAUTHORIZED", False)
    assert "secret" not in caught.value.text


# kinds of their own


async def test_responses_in_the_background(provider: FakeProvider, http: Http) -> None:
    config = ModelConfig(
        name="gpt",
        kind="responses",
        base_url=f"{provider.base_url}/responses",
        model="gpt-5",
        background=True,
        options={"temperature": 1},
    )
    model = (await discover([config], {}, http)).get("gpt")
    script = Script().text("Hello").end()
    provider.play(head(), *map(part, frames(script.events)), END)
    await model.respond(ask("Hi"), sink := Recorder())
    assert sink.texts == ["Hello"]
    assert provider.requests[0].path == "/v1/responses"
    body = provider.requests[0].json
    assert (body["model"], body["background"], body["temperature"]) == ("gpt-5", True, 1)


async def test_only_responses_have_a_background(http: Http) -> None:
    with pytest.raises(InvalidError, match="chat_completions has no background"):
        await discover([ModelConfig(name="a", background=True)], {}, http)


async def test_a_langgraph_server(provider: FakeProvider, http: Http) -> None:
    server = AgentServer(provider)
    whole = state(human(), ai("a", "Hello"))
    server.run(("messages", [ai("a", "Hello"), {}]), ("values", whole))
    config = ModelConfig(
        name="research",
        kind="langgraph",
        base_url=f"{provider.url}/",
        model="agent",
        api_key_env="KEY",
        options={"config": {"recursion_limit": 9}},
    )
    model = (await discover([config], {"KEY": "secret"}, http)).get("research")
    await model.respond(ask("Hi"), sink := Recorder())
    assert sink.texts == ["Hello"]
    assert provider.requests[1].json["config"] == {"recursion_limit": 9}
    assert provider.requests[1].headers["x-api-key"] == "secret"


async def test_where_a_langgraph_server_is_if_nobody_says(http: Http) -> None:
    model = (await discover([ModelConfig(name="a", kind="langgraph")], {}, http)).get("a")
    assert isinstance(model, LangGraph)
    assert model.base_url == "http://127.0.0.1:2024"
