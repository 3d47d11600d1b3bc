"""Turns whose provider goes on without us, through the whole server: `kill -9` at any commit.

What the next start shows is what would have been shown, and nothing was asked for twice.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from app.models import Http, Model
from app.models.langgraph import LangGraph
from app.models.responses import Responses
from tests.app.crashes import images
from tests.app.models.fake_provider import FakeProvider
from tests.app.models.wire_langgraph import (
    AgentServer,
    ai,
    call_piece,
    human,
    last,
    piece,
    result,
    state,
)
from tests.app.models.wire_responses import KeepingServer, Script
from tests.app.world import Seen, world

pytestmark = pytest.mark.requirement("R1", "R4", "S5")


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    # Long enough for the loopback to deliver what was sent.
    autojump_clock.autojump_threshold = 0.02
    return autojump_clock


def shown(seen: Seen) -> list[tuple[Any, ...]]:
    members = ("type", "text", "toolName", "input", "state", "output")
    parts = [part for part in seen.fold.parts() if part["type"] != "step-start"]
    return [tuple(part.get(member) for member in members) for part in parts]


async def crash_everywhere(
    make: Callable[[], Model], prepare: Callable[[], None], path: Path
) -> list[Seen]:
    """What the first life showed, then what each life after a crash does.

    `prepare` is called before each of them.
    """
    async with world(path / "one" / "u.db", make(), heartbeat=1e6) as life:
        with images(life.services.database, path / "images") as taken:
            stream = (await life.send()).turn.stream_id
            seen = [await life.read(stream)]
    for image in taken:
        prepare()
        async with world(image, make(), heartbeat=1e6) as life:
            seen.append(await life.read(stream))
    return seen


def check(seen: list[Seen]) -> None:
    first, *others = seen
    assert len(others) > 4
    for one in others:
        assert shown(one) == shown(first)
        assert one.outcome.usage == first.outcome.usage
        assert "ResetStep" not in one.types


@pytest.mark.parametrize("too_old", [False, True])
async def test_a_response_in_the_background(
    too_old: bool, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    server = KeepingServer(provider)
    script = Script().thought(("I wo", "nder"), ("Ah",)).text("|", "|", " one ", "two").end()
    server.keep(script)

    def make() -> Model:
        return Responses(
            name="m", http=http, base_url=provider.base_url, model="fake", background=True
        )

    def prepare() -> None:
        server.refuses = too_old
        server.keep(script)

    seen = await crash_everywhere(make, prepare, tmp_path)
    check(seen)
    assert [part[1] for part in shown(seen[0])] == ["I wonder", "Ah", "|| one two"]
    made = [one for one in provider.requests if one.method == "POST"]
    fetched = [one for one in provider.requests if "starting_after" in one.path]
    # Before the first commit of an answer there is nothing to go on with, after its end neither.
    assert len(fetched) > 3
    assert len(made) + len(fetched) <= len(seen)


@pytest.mark.parametrize("meanwhile", ["running", "success"])
async def test_a_run_of_an_agent(
    meanwhile: str, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    server = AgentServer(provider)
    called, found = ai("a", "I look.", ("call_1", "look", {"q": 1})), result("call_1", "3")
    run = server.run(
        ("values", state(human())),
        ("messages", [piece("a", "I "), {}]),
        ("messages", [piece("a", "look."), {}]),
        ("messages", [call_piece("a", 0, '{"q":1}', "call_1", "look"), {}]),
        ("messages", [last("a"), {}]),
        ("values", state(human(), called)),
        ("messages", [found, {}]),
        ("values", state(human(), called, found)),
        ("messages", [piece("b", "|"), {}]),
        ("messages", [piece("b", "| 3"), {}]),
        ("messages", [last("b"), {}]),
        ("values", state(human(), called, found, ai("b", "|| 3"))),
    )

    def make() -> Model:
        return LangGraph(name="m", http=http, base_url=provider.url, model="agent")

    def prepare() -> None:
        run.status = [meanwhile, "success"]

    seen = await crash_everywhere(make, prepare, tmp_path)
    check(seen)
    assert [part[0] for part in shown(seen[0])] == ["text", "tool", "text"]
    # The server has it, whatever we know of it: it is never made again, and so is no tool run.
    made = [one for one in provider.requests if one.path.endswith("/runs/stream")]
    assert len(made) == 1
