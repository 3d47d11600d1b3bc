"""What signs requests to AWS: checked against the algorithm, and AWS's own programs."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import botocore.config
import botocore.session
import pytest
import trio

from app.errors import InvalidError
from app.models import Http, Limits, ModelConfig, ModelError, discover
from app.models.bedrock import WITHOUT_BOTOCORE, Bedrock
from app.models.bedrock_keys import Bearer, Chain, Fixed, Keys, source
from tests.app.models import aws_signature
from tests.app.models.conftest import ask, closed_port
from tests.app.models.fake_provider import END, FakeProvider, part
from tests.app.models.recorder import Recorder
from tests.app.models.wire import Call
from tests.app.models.wire_bedrock import BedrockWire
from tests.app.world import world

pytestmark = pytest.mark.requirement("E3")

WIRE = BedrockWire()
ACCESS, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "session-token-of-the-test"
STATIC = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}


def model(provider: FakeProvider, http: Http, source: Any, **members: Any) -> Bedrock:
    members = {"model": "fake.model-v1:0", "region": "eu-west-1", **members}
    return Bedrock(name="fake", http=http, base_url=provider.url, source=source, **members)


# signatures


@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize(
    "name", ["fake.model-v1:0", "arn:aws:bedrock:eu-west-1:1:inference-profile/x.y", "plain"]
)
async def test_a_request_is_signed_as_it_is_sent(
    provider: FakeProvider, http: Http, token: str | None, name: str
) -> None:
    env = {**STATIC, "AWS_SESSION_TOKEN": token or ""}
    provider.play(*WIRE.answer("Hi"))
    await model(provider, http, source(env, None, None), model=name).respond(ask("é"), Recorder())
    [asked] = provider.requests
    assert aws_signature.is_valid(asked, SECRET)
    assert not aws_signature.is_valid(asked, "another")
    assert f"Credential={ACCESS}/" in asked.headers["authorization"]
    assert "/eu-west-1/bedrock/" in asked.headers["authorization"]
    assert asked.headers.get("x-amz-security-token") == token


def asked_by_the_official_client(url: str, model: str) -> list[dict[str, Any]]:
    """What AWS's client understands of an answer. Blocks."""
    session = botocore.session.Session()
    session.set_credentials(ACCESS, SECRET)
    client = session.create_client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=url,
        config=botocore.config.Config(retries={"max_attempts": 0}),
    )
    messages = [{"role": "user", "content": [{"text": "Hi"}]}]
    try:
        with closing(client.converse_stream(modelId=model, messages=messages)["stream"]) as stream:
            return [*stream]
    finally:
        client.close()


async def test_the_official_client_understands_the_fake_and_asks_as_we_do(
    provider: FakeProvider, http: Http
) -> None:
    provider.play(*WIRE.answer("Let me ", "see.", Call("look", ('{"q":', " 1}"))))
    provider.play(*WIRE.answer("Hi"))
    name = "fake.model-v1:0"
    events = await trio.to_thread.run_sync(asked_by_the_official_client, provider.url, name)
    await model(provider, http, source(STATIC, None, None)).respond(ask("Hi"), Recorder())
    theirs, ours = provider.requests
    assert (ours.method, ours.path, ours.json) == (theirs.method, theirs.path, theirs.json)
    # Their signature proves the check, the check proves ours.
    assert aws_signature.is_valid(theirs, SECRET)
    assert aws_signature.is_valid(ours, SECRET)
    deltas = [
        event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event
    ]
    assert [delta["text"] for delta in deltas if "text" in delta] == ["Let me ", "see."]
    inputs = [delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta]
    assert json.loads("".join(inputs)) == {"q": 1}
    assert [event["messageStop"]["stopReason"] for event in events if "messageStop" in event] == [
        "tool_use"
    ]
    assert events[-1]["metadata"]["usage"]["outputTokens"] == 3


async def test_the_official_client_understands_the_exceptions_of_the_fake(
    provider: FakeProvider,
) -> None:
    provider.play(*WIRE.begun("half"), part(WIRE.overloaded()), END)
    with pytest.raises(botocore.exceptions.EventStreamError, match="Overloaded, sorry"):
        await trio.to_thread.run_sync(asked_by_the_official_client, provider.url, "fake")


# where the keys come from


@pytest.mark.parametrize(
    ("env", "key", "profile", "found"),
    [
        ({}, "configured", None, Fixed(Bearer("configured"))),
        ({"AWS_BEARER_TOKEN_BEDROCK": " named\n"}, None, None, Fixed(Bearer("named"))),
        ({"AWS_BEARER_TOKEN_BEDROCK": "named", **STATIC}, "configured", "work",
         Fixed(Bearer("configured"))),
        (STATIC, None, None, Fixed(Keys(ACCESS, SECRET))),
        ({**STATIC, "AWS_SESSION_TOKEN": TOKEN}, None, None,
         Fixed(Keys(ACCESS, SECRET, TOKEN))),
    ],
)  # fmt: skip
def test_keys_that_are_at_hand(
    env: dict[str, str], key: str | None, profile: str | None, found: Fixed
) -> None:
    assert source(env, key, profile) == found


@pytest.mark.parametrize(
    ("env", "profile"),
    [({}, None), (STATIC, "work"), ({"AWS_BEARER_TOKEN_BEDROCK": "x"}, "work"),
     ({"AWS_ACCESS_KEY_ID": ACCESS}, None)],
)  # fmt: skip
def test_a_profile_that_was_named_comes_before_the_environment(
    env: dict[str, str], profile: str | None
) -> None:
    assert isinstance(source(env, None, profile), Chain)


def test_keys_are_in_no_representation() -> None:
    said = repr([Keys(ACCESS, SECRET, TOKEN), Fixed(Bearer("configured"))])
    assert ACCESS in said
    assert not any(secret in said for secret in (SECRET, TOKEN, "configured"))


# AWS's own search


class Machine:
    """A machine set up for AWS by files in `folder`, with a helper program that gives keys."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.gate = folder / "gate"
        self.config = folder / "config"
        os.mkfifo(self.gate)
        self.program = folder / "helper"
        keys = {"Version": 1, "AccessKeyId": ACCESS, "SecretAccessKey": SECRET,
                "SessionToken": TOKEN, "Expiration": "2999-01-01T00:00:00Z"}  # fmt: skip
        self.helper(f"echo ran >> {self.log}\ncat <<'EOF'\n{json.dumps(keys)}\nEOF\n")
        self.hanging = f"echo ran >> {self.log}\nread line < {self.gate}\n"
        self.config.write_text(
            f"[profile work]\nregion = ap-south-1\ncredential_process = {self.program}\n"
        )

    def helper(self, script: str) -> None:
        self.program.write_text(f"#!/bin/sh\n{script}")
        self.program.chmod(stat.S_IRWXU)

    @property
    def runs(self) -> int:
        return self.log.read_text().count("ran") if self.log.exists() else 0

    async def ran(self) -> None:
        with trio.fail_after(20):
            while not self.runs:  # noqa: ASYNC110 - a file rings no bell
                await trio.sleep(0.01)

    def open_gate(self) -> None:
        """Let every helper that hangs go on."""
        try:
            gate = os.open(self.gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # none hangs
        os.write(gate, b"go\n" * 10)
        os.close(gate)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    machine = Machine(tmp_path)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(machine.config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yield machine
    machine.open_gate()


async def test_keys_and_region_of_a_profile(
    machine: Machine, provider: FakeProvider, http: Http
) -> None:
    keys = Chain("work")
    for _ in range(2):
        provider.play(*WIRE.answer("Hi"))
        await model(provider, http, keys, region=None).respond(ask("Hi"), Recorder())
    for asked in provider.requests:
        assert aws_signature.is_valid(asked, SECRET)
        assert "/ap-south-1/bedrock/" in asked.headers["authorization"]
        assert asked.headers["x-amz-security-token"] == TOKEN
    assert machine.runs == 1  # they are kept until they expire


async def test_a_machine_without_keys_says_what_to_do(machine: Machine) -> None:
    with pytest.raises(ModelError, match="No AWS credentials were found") as caught:
        await Chain(None).keys()
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNAUTHORIZED", False)


async def test_keys_are_looked_for_again_after_a_failure(machine: Machine) -> None:
    """Somebody logs in meanwhile."""
    keys, works = Chain("work"), machine.program.read_text()
    machine.helper("echo 'please log in' >&2; exit 3\n")
    with pytest.raises(ModelError, match="please log in") as caught:
        await keys.keys()
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNAUTHORIZED", False)
    machine.program.write_text(works)
    assert (await keys.keys()).secrets == (SECRET, TOKEN)


async def test_a_profile_that_does_not_exist(machine: Machine) -> None:
    with pytest.raises(ModelError, match="nowhere") as caught:
        await Chain("nowhere").keys()
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNAUTHORIZED", False)


async def test_a_network_that_is_away_is_tried_again(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("web identity")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/test")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{await closed_port()}")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(ModelError) as caught:
        await Chain(None).keys()
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNREACHABLE", True)


@pytest.mark.requirement("C2", "S2")
async def test_a_helper_that_hangs_holds_nobody_up(
    machine: Machine, provider: FakeProvider, http: Http
) -> None:
    """Ten requests, one helper; each leaves when it is told to; the others get the keys."""
    works = machine.program.read_text().partition("\n")[2]
    machine.helper(machine.hanging + works)
    talk, done = model(provider, http, Chain("work")), 0

    async def respond() -> None:
        nonlocal done
        await talk.respond(ask("Hi"), Recorder())
        done += 1

    async with trio.open_nursery() as nursery:
        for _ in range(9):
            provider.play(*WIRE.answer("Hi"))
            nursery.start_soon(respond)
        await machine.ran()
        with trio.fail_after(1), trio.move_on_after(0.01) as stopped:
            await talk.respond(ask("Hi"), Recorder())
        assert stopped.cancelled_caught
        assert provider.connections == 0
        machine.open_gate()
    assert (done, machine.runs) == (9, 2)  # what hangs says so twice


@pytest.mark.requirement("S1", "S2")
async def test_the_deadline_of_the_headers_counts_the_credentials(
    machine: Machine, provider: FakeProvider, http: Http, tmp_path: Path, autojump_clock: Any
) -> None:
    """To the clock a thread is silence: it jumps to the deadline while the helper hangs."""
    machine.helper(machine.hanging)
    autojump_clock.autojump_threshold = 0.02
    talk = model(provider, http, Chain("work"))
    limits = Limits(header=30.0, max_retries=1)
    async with world(tmp_path / "u.db", talk, limits=limits) as life:
        began = trio.current_time()
        seen = await life.answer()
    assert seen.outcome.code == "MODEL_STALLED"
    assert 60 < trio.current_time() - began < 90
    assert provider.connections == 0


# as configured


async def test_a_model_as_configured(provider: FakeProvider, http: Http) -> None:
    config = ModelConfig(
        name="nova", kind="bedrock", base_url=provider.url, model="m", api_key_env="MY_KEY",
        options={"inferenceConfig": {"maxTokens": 5}},
    )  # fmt: skip
    found = await discover([config], {"MY_KEY": "abc", "AWS_REGION": "eu-west-1"}, http)
    provider.play(*WIRE.answer("Hi"))
    await found.get("nova").respond(ask("Hi"), Recorder())
    assert provider.requests[0].headers["authorization"] == "Bearer abc"
    assert provider.requests[0].json["inferenceConfig"] == {"maxTokens": 5}


async def test_a_configured_key_that_is_missing_is_not_replaced_by_another(http: Http) -> None:
    config = ModelConfig(name="nova", kind="bedrock", model="m", api_key_env="MY_KEY")
    found = await discover([config], {**STATIC, "AWS_REGION": "eu-west-1"}, http)
    with pytest.raises(ModelError, match="MY_KEY is not set") as caught:
        await found.get("nova").respond(ask("Hi"), Recorder())
    assert caught.value.code == "MODEL_UNAUTHORIZED"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"kind": "bedrock", "model": ""}, "needs `model`"),
        ({"kind": "bedrock", "region": "evil.invalid/"}, "not the name of one"),
        ({"kind": "anthropic", "region": "eu-west-1"}, "no region and no profile"),
        ({"kind": "chat_completions", "profile": "work"}, "no region and no profile"),
    ],
)
async def test_what_cannot_be_meant(http: Http, members: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        await discover([ModelConfig(**{"name": "a", "model": "m", **members})], {}, http)


async def test_the_address_follows_the_region(http: Http) -> None:
    for region, host in [
        ("us-east-1", "bedrock-runtime.us-east-1.amazonaws.com"),
        ("cn-north-1", "bedrock-runtime.cn-north-1.amazonaws.com.cn"),
    ]:
        talk = Bedrock(name="n", http=http, model="m", region=region, source=Fixed(Bearer("k")))
        assert (await talk._call(b"{}")).who == host


async def test_without_botocore_each_request_says_so(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("app.models.bedrock_keys", "app.models.bedrock_reader"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(f"{name}", raising=False)
    monkeypatch.setitem(sys.modules, "botocore", None)
    config = ModelConfig(name="nova", kind="bedrock", model="m", region="us-east-1")
    found = await discover([config], STATIC, http)
    with pytest.raises(ModelError) as caught:
        await found.get("nova").respond(ask("Hi"), Recorder())
    said = f"The model nova cannot answer: {WITHOUT_BOTOCORE}"
    assert (caught.value.code, caught.value.text) == ("MODEL_UNAUTHORIZED", said)
    assert found.problems == (said,)  # the start tells it, too
