"""What the doctor says of models in every state of health."""

import pytest
import trio
from trio.testing import MockClock

from app.models import Catalogue, Http, Limits, Model
from app.models.chat_completions import ChatCompletions
from app.models.demo import Demo
from app.models.doctor import ANSWER_SECONDS, Finding, examine, report
from tests.app.models.conftest import closed_port
from tests.app.models.fake_provider import (
    END,
    HANG,
    Exchange,
    FakeProvider,
    Pause,
    Step,
    part,
    reply,
)
from tests.app.models.wire import Wire
from tests.app.models.wires import WIRES

LIST = reply(200, {"data": []})


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    autojump_clock.autojump_threshold = 0.02
    return autojump_clock


def chat(http: Http, url: str, **members: str | None) -> ChatCompletions:
    return ChatCompletions(name="fake", http=http, base_url=f"{url}/v1", model="m", **members)


async def found(model: Model) -> Finding:
    [finding] = await examine(Catalogue([(model, Limits())]))
    return finding


def paced(wire: Wire, *pieces: str) -> list[Step]:
    """The answer, each frame a second after the one before."""
    script: list[Step] = [wire.opening()]
    for frame in wire.frames(*pieces):
        script += [Pause(1.0), part(frame)]
    return [*script, END]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_a_model_in_good_health(
    wire: Wire, provider: FakeProvider, http: Http, clock: MockClock
) -> None:
    def aside(asked: Exchange) -> list[Step] | None:
        if asked.path.endswith("/assistants/search"):
            return reply(200, [])
        return wire.aside(asked) or (LIST if asked.method == "GET" else None)

    provider.aside = aside
    provider.play(*paced(wire, "one ", "two ", "three ", "four ", "five ", "six "))
    finding = await found(wire.model(http, provider.url))
    assert (finding.reachable, finding.accepted, finding.streams) == (True, True, True)
    assert finding.first_token is not None
    assert 1 < finding.first_token < 7
    assert finding.good
    assert len(provider.asked) == 1


async def test_it_hears_no_more_than_it_needs(
    provider: FakeProvider, http: Http, clock: MockClock
) -> None:
    wire = WIRES[0]
    provider.play(*LIST)
    provider.play(*paced(wire, *["word "] * 1000))
    began = trio.current_time()
    assert (await found(chat(http, provider.url))).good
    assert trio.current_time() - began < 20
    with trio.fail_after(1):
        await provider.requests[1].closed.wait()


async def test_an_answer_all_at_once(provider: FakeProvider, http: Http, clock: MockClock) -> None:
    provider.play(*LIST)
    wire = WIRES[0]
    provider.play(wire.opening(), part(b"".join(wire.frames("one ", "two ", "three"))), END)
    finding = await found(chat(http, provider.url))
    assert (finding.accepted, finding.streams) == (True, False)
    assert "all at once" in finding.problem


async def test_an_empty_answer(provider: FakeProvider, http: Http, clock: MockClock) -> None:
    provider.play(*LIST)
    provider.play(*WIRES[0].answer())
    assert (await found(chat(http, provider.url))).problem == "The answer was empty."


async def test_nobody_there(http: Http, clock: MockClock) -> None:
    finding = await found(chat(http, f"http://127.0.0.1:{await closed_port()}"))
    assert (finding.reachable, finding.accepted, finding.good) == (False, None, False)
    assert "Connection refused" in finding.problem


async def test_somebody_who_says_nothing(
    provider: FakeProvider, http: Http, clock: MockClock
) -> None:
    provider.play(HANG)
    finding = await found(chat(http, provider.url))
    assert (finding.reachable, finding.problem) == (False, "No answer within 2 seconds.")


async def test_a_key_that_is_refused(provider: FakeProvider, http: Http, clock: MockClock) -> None:
    for _ in range(2):
        provider.play(*reply(401, {"error": {"message": "Bad key"}}))
    finding = await found(chat(http, provider.url, api_key="key-123456789"))
    assert (finding.reachable, finding.accepted, finding.good) == (True, False, False)
    assert "Bad key." in finding.problem


async def test_a_key_that_is_missing(provider: FakeProvider, http: Http, clock: MockClock) -> None:
    finding = await found(chat(http, provider.url, missing="No key there."))
    assert (finding.reachable, finding.accepted) == (None, None)
    assert finding.problem == "No key there."
    assert provider.connections == 0


async def test_a_model_that_the_server_does_not_know(
    provider: FakeProvider, http: Http, clock: MockClock
) -> None:
    provider.play(*LIST)
    provider.play(*reply(404, {"error": {"message": "no model m"}}))
    finding = await found(chat(http, provider.url))
    assert (finding.reachable, finding.accepted, finding.streams) == (True, True, None)
    assert "no model m." in finding.problem


async def test_a_model_that_never_answers(
    provider: FakeProvider, http: Http, clock: MockClock
) -> None:
    provider.play(*LIST)
    provider.play(HANG)
    began = trio.current_time()
    finding = await found(chat(http, provider.url))
    assert trio.current_time() - began < ANSWER_SECONDS + 5
    assert finding.problem == "No whole answer within 60 seconds."
    assert (finding.reachable, finding.accepted, finding.first_token) == (True, None, None)


def test_the_report() -> None:
    findings = [
        Finding(name="claude", provider="anthropic", model="claude-sonnet-4-5", reachable=True,
                accepted=True, streams=True, first_token=0.84),
        Finding(name="x", provider="chat_completions", model="gpt", reachable=True,
                accepted=False, problem="It did not accept the key."),
        Finding(name="y", provider="bedrock", model="m", problem="There is no key."),
        Finding(name="z", provider="chat_completions", model="", reachable=False,
                problem="Connection refused."),
        Finding(name="demo", provider="demo", model="demo"),
    ]  # fmt: skip
    assert report(findings).splitlines() == [
        "ok  claude  anthropic claude-sonnet-4-5: reachable, key accepted, streams, first word after 0.8 s",  # noqa: E501
        "BAD x       chat_completions gpt: reachable, key not accepted",
        "            It did not accept the key.",
        "BAD y       bedrock m: not asked",
        "            There is no key.",
        "BAD z       chat_completions: not reachable",
        "            Connection refused.",
        "ok  demo    demo: built in",
    ]
    assert report([]) == ""


async def test_the_demonstration_is_asked_for_nothing() -> None:
    assert await found(Demo()) == Finding(name="demo", provider="demo", model="demo")


async def test_each_finding_is_told_as_it_is_there(
    provider: FakeProvider, http: Http, clock: MockClock
) -> None:
    provider.play(*LIST)
    provider.play(HANG)
    told: list[tuple[str, float]] = []
    began = trio.current_time()
    models = [Demo(name="first"), chat(http, provider.url), Demo(name="last")]
    findings = await examine(
        Catalogue([(model, Limits()) for model in models]),
        lambda finding: told.append((finding.name, trio.current_time() - began)),
    )
    assert [name for name, _ in told] == [finding.name for finding in findings]
    assert [at < 1 for _, at in told] == [True, False, False]
