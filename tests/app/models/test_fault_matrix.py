"""Every fault on every wire: outcome, requests, log and message, through the whole turn.

Bytes go over a real socket; time is Trio's mock clock, which jumps when nothing moves any more.
"""

import itertools
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from trio.testing import MockClock

from app import events as ev
from app.models import Http, Limits, Model, ModelError
from app.tools import Toolbox
from tests.app.models.conftest import closed_port
from tests.app.models.fake_provider import FIN, HANG, Exchange, FakeProvider, Pause, part, reply
from tests.app.models.fault_matrix import CASES, HALF_CALL, Case
from tests.app.models.wire import Call, Wire
from tests.app.models.wires import WIRES
from tests.app.world import Probe, Seen, World, world

TRIES = 3
# How late a verdict may be, and how early: deadlines are moved in steps (app/turns/sink.py).
LATE_SECONDS, EARLY_SECONDS = 1.0, 2.0

pytestmark = pytest.mark.requirement("S1", "S2", "S3", "S4")

each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
each_wire_with_tools = pytest.mark.parametrize(
    "wire", [wire for wire in WIRES if not wire.runs_tools], ids=lambda wire: wire.name
)


def each_case(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@pytest.fixture
def clock(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    # Long enough for the loopback to deliver what was sent.
    autojump_clock.autojump_threshold = 0.02
    # Each tick of a timer is a jump: those that have no part in this are rare.
    monkeypatch.setattr("app.clock.COMPARE_SECONDS", 1e6)
    return autojump_clock


@asynccontextmanager
async def server(
    path: Path, model: Model, tools: Toolbox | None = None, **limits: Any
) -> AsyncIterator[World]:
    kept = Limits(**{"max_retries": TRIES - 1, **limits})
    async with world(path / "u.db", model, limits=kept, tools=tools, heartbeat=1e6) as life:
        yield life


def retries(seen: Seen) -> list[tuple[str, int | None]]:
    """What the log says of retries: the reason of each withdrawal, the number of the next try."""
    told = []
    for event, following in zip(seen.events, seen.events[1:], strict=False):
        if isinstance(event, ev.ResetStep):
            assert isinstance(following, ev.Status)
            assert (following.state, following.limit) == ("retrying", TRIES)
            told.append((event.reason, following.attempt))
    return told


def check_pace(tries: list[Exchange], seconds: float) -> None:
    """Each try came after the verdict on the one before, and its pause."""
    times = [exchange.at for exchange in tries]
    for number, (before, after) in enumerate(itertools.pairwise(times)):
        pause = 2.0**number
        took = after - before
        assert seconds + 0.75 * pause - EARLY_SECONDS < took < seconds + pause + LATE_SECONDS


@each_wire
@each_case(CASES)
@pytest.mark.requirement("O1")
async def test_a_fault_that_stays(
    wire: Wire, case: Case, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    provider.aside = wire.aside
    for _ in range(TRIES):
        provider.play(*case.play(wire))
    async with server(tmp_path, wire.model(http, provider.url)) as life:
        accepted = await life.send()
        seen = await life.read(accepted.turn.stream_id)
        late = await life.read(accepted.turn.stream_id)
    tries = TRIES if case.retryable else 1
    outcome = seen.outcome
    assert (outcome.outcome, outcome.code) == ("failed", case.code)
    assert case.said in outcome.text
    assert ("(asked 3 times)" in outcome.text) == case.retryable
    assert len(provider.asked) == tries
    assert retries(seen) == [(case.code, number) for number in range(2, tries + 1)]
    assert seen.text == case.shown
    assert late.events == seen.events
    check_pace(provider.asked[:TRIES], case.seconds)


@each_wire
@each_case([case for case in CASES if case.retryable])
async def test_a_fault_that_passes(
    wire: Wire, case: Case, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    """The answer has no trace of the failed try, and neither has what the model sees next."""
    provider.aside = wire.aside
    provider.play(*case.play(wire))
    provider.play(*wire.answer("All of ", "it."))
    provider.play(*wire.answer("Yes."))
    async with server(tmp_path, wire.model(http, provider.url)) as life:
        seen = await life.answer()
        following = await life.answer("Really?")
    assert (seen.outcome.outcome, seen.outcome.code) == ("finished", "FINISHED")
    assert seen.text == "All of it."
    assert [part["type"] for part in seen.fold.parts()] == ["step-start", "text"]
    assert retries(seen) == [(case.code, 2)]
    [told] = [e for e in seen.events if isinstance(e, ev.Status) and e.state == "retrying"]
    assert case.said in told.text
    assert following.text == "Yes."
    assert len(provider.asked) == 3
    assert provider.asked[1].body == provider.asked[0].body
    assert b"All of it." in provider.asked[2].body
    assert b"half" not in provider.asked[2].body
    check_pace(provider.asked[:2], case.seconds)


# waiting as long as the provider asks


@each_wire
async def test_a_pause_that_the_provider_asks_for(
    wire: Wire, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    provider.aside = wire.aside
    provider.play(*reply(429, wire.refusal("Slow down"), retry_after="17"))
    provider.play(*wire.answer("There."))
    async with server(tmp_path, wire.model(http, provider.url)) as life:
        seen = await life.answer()
    assert seen.text == "There."
    first, second = provider.asked
    assert 17 <= second.at - first.at < 17 + LATE_SECONDS


@each_wire
async def test_a_pause_that_is_too_long(
    wire: Wire, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    provider.aside = wire.aside
    provider.play(*reply(429, wire.refusal("Come back tomorrow"), retry_after="86400"))
    async with server(tmp_path, wire.model(http, provider.url)) as life:
        seen = await life.answer()
    assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "MODEL_RATE_LIMITED")
    assert "Come back tomorrow." in seen.outcome.text
    assert len(provider.asked) == 1


# before there is a connection


class NoNames(trio.abc.HostnameResolver):
    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        raise trio.socket.gaierror(-2, "Name or service not known")

    async def getnameinfo(self, *_: Any) -> Any:
        raise AssertionError("nobody asks")


@each_wire
async def test_a_refused_connection(
    wire: Wire, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    model = wire.model(http, f"http://127.0.0.1:{await closed_port()}")
    async with server(tmp_path, model) as life:
        seen = await life.answer()
    assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "MODEL_UNREACHABLE")
    assert seen.outcome.text == (
        "127.0.0.1 could not be reached: Connection refused. (asked 3 times)"
    )
    assert len(retries(seen)) == TRIES - 1


@each_wire
async def test_an_unknown_name(wire: Wire, http: Http, clock: MockClock, tmp_path: Path) -> None:
    before = trio.socket.set_custom_hostname_resolver(NoNames())
    try:
        async with server(tmp_path, wire.model(http, "http://no.such.localhost:1")) as life:
            seen = await life.answer()
    finally:
        trio.socket.set_custom_hostname_resolver(before)
    assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "MODEL_UNREACHABLE")
    assert "the name is not known" in seen.outcome.text
    assert len(retries(seen)) == TRIES - 1


@each_wire
async def test_an_untrusted_certificate(
    wire: Wire, http: Http, nursery: trio.Nursery, clock: MockClock, tmp_path: Path
) -> None:
    with pytest.raises(ModelError):
        # Loads the certificates, in a thread that the clock does not see, before time counts.
        await http.get_json(f"https://127.0.0.1:{await closed_port()}")
    fake = FakeProvider()
    fake.ssl_context = unknown_authority()
    await nursery.start(fake.serve)
    async with server(tmp_path, wire.model(http, fake.url)) as life:
        seen = await life.answer()
    assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "MODEL_UNREACHABLE")
    assert "not secure" in seen.outcome.text
    assert retries(seen) == []
    assert (fake.connections, fake.asked) == (1, [])


def unknown_authority() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


# deadlines that are off, tools, bytes


@each_wire
async def test_pings_keep_a_response_alive_where_silence_is_allowed(
    wire: Wire, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    """With `chunk_timeout` off, only a line that is dead for `alive_timeout` is given up."""
    provider.aside = wire.aside
    pinged = [Pause(400.0), part(wire.ping())] * 3
    provider.play(*wire.begun("half "), *pinged, HANG)
    async with server(tmp_path, wire.model(http, provider.url), chunk=None, max_retries=0) as life:
        began = trio.current_time()
        seen = await life.answer()
    assert seen.outcome.code == "MODEL_STALLED"
    assert 1800 - 10 <= trio.current_time() - began <= 1800 + 10


@each_wire_with_tools
@pytest.mark.requirement("S5", "S7")
async def test_a_call_that_was_cut_is_not_run_and_the_next_one_is_run_once(
    wire: Wire, provider: FakeProvider, http: Http, clock: MockClock, tmp_path: Path
) -> None:
    provider.aside = wire.aside
    look = Probe("look")
    provider.play(*wire.begun("Let me see. ", HALF_CALL), FIN)
    provider.play(*wire.answer("I look. ", Call("look", ('{"where":', ' "here"}'))))
    provider.play(*wire.answer("Found."))
    async with server(tmp_path, wire.model(http, provider.url), tools=Toolbox([look])) as life:
        seen = await life.answer()
    assert (seen.outcome.code, seen.text) == ("FINISHED", "I look. Found.")
    assert look.runs == [{"where": "here"}]
    assert b"under the be" not in provider.asked[2].body
    assert b"ok" in provider.asked[2].body
    assert retries(seen) == [("MODEL_EOF", 2)]
