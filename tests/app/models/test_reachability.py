"""Which models answer now: at no cost, soon, and to nobody but the model's own address."""

import trio
from trio.testing import MockClock

from app.models import Catalogue, Http, Limits, Model, ModelConfig, discover
from app.models.anthropic import Anthropic
from app.models.bedrock import Bedrock
from app.models.bedrock_keys import Bearer, Fixed
from app.models.chat_completions import ChatCompletions
from app.models.demo import Demo
from app.models.reachability import KEPT_SECONDS, PROBE_SECONDS, Reach
from tests.app.models.conftest import closed_port
from tests.app.models.fake_provider import HANG, FakeProvider, reply

KEY = "key-verysecret-12345"
LIST = reply(200, {"data": [{"id": "one"}]})


def catalogue(*models: Model) -> Catalogue:
    return Catalogue([(model, Limits()) for model in models])


def chat(http: Http, url: str, name: str = "chat", key: str | None = KEY) -> ChatCompletions:
    return ChatCompletions(name=name, http=http, base_url=f"{url}/v1", model="m", api_key=key)


async def test_a_server_that_lists_its_models(provider: FakeProvider, http: Http) -> None:
    provider.play(*LIST)
    provider.play(*LIST)
    claude = Anthropic(name="claude", http=http, base_url=provider.url, model="m", api_key=KEY)
    found = await catalogue(chat(http, provider.url), claude, Demo()).reachability()
    assert found == {"chat": Reach(True), "claude": Reach(True), "demo": Reach(True)}
    assert {(asked.method, asked.path) for asked in provider.requests} == {("GET", "/v1/models")}
    keys = [asked.headers.get("x-api-key") or asked.headers["authorization"]
            for asked in provider.requests]  # fmt: skip
    assert sorted(keys) == [f"Bearer {KEY}", KEY]


async def test_what_is_wrong_is_said(provider: FakeProvider, http: Http) -> None:
    provider.play(*reply(401, {"error": {"message": "Bad key"}}))
    away = f"http://127.0.0.1:{await closed_port()}"
    models = catalogue(chat(http, provider.url), chat(http, away, "away"))
    found = await models.reachability()
    assert found == {
        "chat": Reach(True, "127.0.0.1 did not accept the key (HTTP 401): Bad key."),
        "away": Reach(False, "127.0.0.1 could not be reached: Connection refused."),
    }


async def test_a_key_that_is_missing_is_said_and_nobody_asked(
    provider: FakeProvider, http: Http
) -> None:
    configs = [
        ModelConfig(name=kind, kind=kind, base_url=provider.url, model="m", api_key_env="NO_KEY")
        for kind in ("chat_completions", "anthropic", "bedrock")
    ]
    found = await (await discover(configs, {}, http)).reachability()
    for kind in ("chat_completions", "anthropic", "bedrock"):
        assert found[kind] == Reach(
            None, f"The model {kind} has no key: the variable NO_KEY is not set."
        )
    assert provider.connections == 0


async def test_a_server_without_a_list_is_there_all_the_same(
    provider: FakeProvider, http: Http
) -> None:
    provider.play(*reply(404, "no such page"))
    assert await catalogue(chat(http, provider.url)).reachability() == {"chat": Reach(True)}


async def test_a_server_that_fails_is_there_and_says_so(provider: FakeProvider, http: Http) -> None:
    provider.play(*reply(503, "<title>Maintenance</title>"))
    found = await catalogue(chat(http, provider.url)).reachability()
    assert found["chat"].reachable
    assert "Maintenance" in found["chat"].problem


async def test_bedrock_is_asked_without_a_key(provider: FakeProvider, http: Http) -> None:
    nova = Bedrock(
        name="nova", http=http, base_url=provider.url, model="m", region="eu-west-1",
        source=Fixed(Bearer(KEY)),
    )  # fmt: skip
    provider.play(*reply(403, {"message": "Missing Authentication Token"}))
    assert await catalogue(nova).reachability() == {"nova": Reach(True)}
    assert "authorization" not in provider.requests[0].headers
    nova.base_url = f"http://127.0.0.1:{await closed_port()}"
    assert not (await catalogue(nova).reachability())["nova"].reachable


async def test_a_key_goes_nowhere_else(
    provider: FakeProvider, http: Http, nursery: trio.Nursery
) -> None:
    """Not where a redirect leads, and not to another model's server."""
    other = FakeProvider()
    await nursery.start(other.serve)
    provider.play(*reply(307, {}, location=f"{other.url}/v1/models"))
    other.play(*LIST)
    found = await catalogue(
        chat(http, provider.url), chat(http, other.url, "other", key="another-key")
    ).reachability()
    assert "redirect" in found["chat"].problem or found["chat"] == Reach(True)
    assert [asked.headers["authorization"] for asked in other.requests] == ["Bearer another-key"]


async def test_models_of_one_server_are_asked_for_once(provider: FakeProvider, http: Http) -> None:
    provider.play(*LIST)
    provider.play(*LIST)
    models = [chat(http, provider.url, f"m{n}") for n in range(5)]
    found = await catalogue(*models, chat(http, provider.url, "k", key="other-key")).reachability()
    assert found == {name: Reach(True) for name in ("m0", "m1", "m2", "m3", "m4", "k")}
    assert len(provider.requests) == 2


async def test_it_takes_two_seconds_at_most_for_all_together(
    provider: FakeProvider, http: Http, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.02
    provider.play(HANG)
    provider.play(HANG)
    provider.play(*LIST)
    models = [chat(http, provider.url, name, key=name) for name in ("one", "two", "three")]
    began = trio.current_time()
    found = await catalogue(*models).reachability()
    assert trio.current_time() - began <= PROBE_SECONDS + 0.1
    late = Reach(False, "No answer within 2 seconds.")
    assert sorted(found.values(), key=str) == [late, late, Reach(True)]


async def test_it_is_kept_for_a_moment_and_shared(
    provider: FakeProvider, http: Http, mock_clock: MockClock
) -> None:
    provider.play(*LIST)
    models = catalogue(chat(http, provider.url))
    found = []

    async def ask() -> None:
        found.append(await models.reachability())

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
    mock_clock.jump(KEPT_SECONDS - 1)
    await ask()
    assert found == [{"chat": Reach(True)}] * 11
    assert len(provider.requests) == 1
    mock_clock.jump(2)
    provider.play(*reply(500, {}))
    await ask()
    assert found[-1]["chat"].problem
    assert len(provider.requests) == 2


async def test_who_asked_and_left_holds_up_nobody(
    provider: FakeProvider, http: Http, nursery: trio.Nursery
) -> None:
    provider.play(HANG)
    models, scope = catalogue(chat(http, provider.url)), trio.CancelScope()

    async def ask() -> None:
        with scope:
            await models.reachability()

    nursery.start_soon(ask)
    exchange = await provider.arrived()
    scope.cancel(reason="the page was closed")
    with trio.fail_after(1):
        await exchange.closed.wait()
    provider.play(*LIST)
    assert await models.reachability() == {"chat": Reach(True)}
