"""Which models there are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from app.errors import InvalidError, NotFoundError
from app.models import Catalogue, Http, Limits, ModelConfig, ModelError, catalogue, discover
from app.models.anthropic import Anthropic
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


async def test_an_anthropic_key(http: Http) -> None:
    found = await discover([], {"ANTHROPIC_API_KEY": "key-2"}, http)
    assert (found.default, names(found)) == ("anthropic", ["anthropic", "demo"])
    model = found.get()
    assert isinstance(model, Anthropic)
    assert model.base_url == "https://api.anthropic.com"
    assert model.model == "claude-sonnet-4-5"
    assert found.problems == ()


async def test_openai_comes_before_anthropic_and_both_can_be_chosen(http: Http) -> None:
    env = {"ANTHROPIC_API_KEY": "key-2", "OPENAI_API_KEY": "key-1"}
    found = await discover([], env, http)
    assert (found.default, names(found)) == ("openai", ["openai", "anthropic", "demo"])
    found = await discover([], {**env, "UNBROKEN_MODEL": "anthropic"}, http)
    assert found.default == "anthropic"
    found = await discover([], {**env, "UNBROKEN_MODEL": "anthropic/claude-x"}, http)
    assert (found.default, found.get().model) == ("anthropic/claude-x", "claude-x")
    assert names(found) == ["openai", "anthropic/claude-x", "anthropic", "demo"]


async def test_an_anthropic_key_for_a_server_elsewhere(provider: FakeProvider, http: Http) -> None:
    """The key is sent where ANTHROPIC_BASE_URL says, and nowhere else."""
    provider.play(*reply(401, "no"))
    env = {"ANTHROPIC_API_KEY": "key-2", "ANTHROPIC_BASE_URL": provider.url}
    found = await discover([], env, http)
    with pytest.raises(ModelError):
        await found.get().respond(ask("x"), Recorder())
    assert provider.requests[0].headers["x-api-key"] == "key-2"
    assert provider.requests[0].path == "/v1/messages"


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"])
async def test_an_address_that_is_none_is_named_by_its_variable(http: Http, variable: str) -> None:
    env = {"ANTHROPIC_API_KEY": "x", variable: "secret@host"}
    with pytest.raises(InvalidError, match=f"^{variable} has to be http") as caught:
        await discover([], env, http)
    assert "secret" not in caught.value.text


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


@pytest.mark.parametrize(
    "env",
    [{"UNBROKEN_MODEL": "demo"}, {"OPENAI_API_KEY": "key-1"}, {"ANTHROPIC_API_KEY": "key-2"}],
)
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


async def test_a_model_of_a_provider_by_its_own_name_alone(http: Http) -> None:
    env = {"UNBROKEN_MODEL": "gpt-5", "OPENAI_API_KEY": "key-1", "ANTHROPIC_API_KEY": "key-2"}
    with pytest.raises(NotFoundError) as caught:
        await discover([], env, http)
    assert caught.value.text.endswith(": --model openai/gpt-5 or --model anthropic/gpt-5.")


async def test_a_model_of_a_provider_whose_key_is_not_there(http: Http) -> None:
    env = {"UNBROKEN_MODEL": "openai/gpt-5", "ANTHROPIC_API_KEY": "key-2"}
    with pytest.raises(NotFoundError) as caught:
        await discover([], env, http)
    assert caught.value.text.endswith("there are: anthropic, demo. OPENAI_API_KEY is not set.")
    mine = [ModelConfig(name="mine", base_url="http://127.0.0.1:1", model="m")]
    with pytest.raises(NotFoundError) as caught:
        await discover(mine, {**env, "OPENAI_API_KEY": "key-1"}, http)
    assert caught.value.text.endswith("there are: mine, demo.")


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
        ({"api_key_env": "sk-secret"}, "api_key_env is the name of a variable"),
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


@pytest.mark.parametrize(
    ("members", "env", "reason"),
    [
        ({"api_key_env": "MY_KEY"}, {}, "the variable MY_KEY is not set"),
        ({"api_key_env": "MY_KEY"}, {"MY_KEY": " "}, "the variable MY_KEY is empty"),
        ({"api_key_file": "none"}, {}, "the file none cannot be read (No such file or directory)"),
        ({"api_key_file": "empty"}, {}, "the file empty is empty"),
        ({"api_key_file": "binary"}, {}, "the file binary holds something else than a key"),
        ({"api_key_file": "open"}, {}, "others can read the file open; chmod 600 makes it its "),
        ({}, {"OPENAI_API_KEY": "x"}, 'a line like api_key_env = "OPENAI_API_KEY"'),
        ({"kind": "responses"}, {}, 'a line like api_key_env = "OPENAI_API_KEY"'),
        ({"kind": "anthropic"}, {}, 'a line like api_key_env = "ANTHROPIC_API_KEY"'),
    ],
)
async def test_a_key_that_is_missing_is_told_at_the_start_and_fails_the_request_alone(
    http: Http,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: dict[str, str],
    env: dict[str, str],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content, mode in (("empty", b"", 0o600), ("binary", b"\xff", 0o600),
                                ("open", b"key-secret", 0o640)):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    good = ModelConfig(name="good", base_url="http://127.0.0.1:9", model="m")
    one = msgspec.convert({"name": "one", "model": "m", **members}, ModelConfig)
    found = await discover([one, good], env, http)
    (told,) = found.problems
    assert told.startswith("The model one has no key: ")
    assert reason in told
    with pytest.raises(ModelError) as caught:
        await found.get("one").respond(ask("x"), Recorder())
    assert (caught.value.code, caught.value.text) == ("MODEL_UNAUTHORIZED", told)
    assert "secret" not in told


async def test_a_key_in_a_file_of_the_home_folder(
    http: Http, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("key-file")
    (tmp_path / "key").chmod(0o600)
    found = await discover([ModelConfig(name="one", model="m", api_key_file="~/key")], {}, http)
    assert found.problems == ()


@pytest.mark.parametrize("value", ["sécret", "two\nlines"])
async def test_a_key_that_can_be_none_fails_the_request_not_the_start(
    http: Http, value: str
) -> None:
    one = ModelConfig(name="one", model="m", api_key_env="MY_KEY")
    found = await discover([one], {"MY_KEY": value}, http)
    assert names(found) == ["one", "demo"]
    with pytest.raises(ModelError) as caught:
        await found.get().respond(ask("x"), Recorder())
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNAUTHORIZED", False)
    assert found.problems == (caught.value.text,)
    assert "cret" not in caught.value.text


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
