"""Telling a provider that nobody listens any more, without waiting for it."""

import pytest
import trio
import trio.testing

from app.models.http import FAREWELL_SECONDS, Call, open_http
from tests.app.models.fake_provider import HANG, RST, FakeProvider, Until, reply

pytestmark = pytest.mark.requirement("C2")


async def test_nobody_waits_for_a_farewell(provider: FakeProvider) -> None:
    said = trio.Event()
    provider.play(Until(said), *reply(200, {}))
    async with open_http() as http:
        with trio.CancelScope() as scope:
            scope.cancel(reason="the person stopped it")
            try:
                await trio.sleep_forever()
            finally:
                http.farewell(Call(f"{provider.url}/cancel"))
        assert scope.cancelled_caught
        assert provider.requests == []
        exchange = await provider.arrived()
        assert (exchange.method, exchange.path) == ("POST", "/cancel")
        said.set()


async def test_the_end_of_the_program_waits_for_it(provider: FakeProvider) -> None:
    provider.play(*reply(202, "{}"))
    with trio.CancelScope() as everything:
        async with open_http() as http:
            http.farewell(Call(f"{provider.url}/cancel"))
            everything.cancel(reason="the program ends at once")
            await trio.sleep_forever()
    assert [exchange.path for exchange in provider.requests] == ["/cancel"]


async def test_but_not_for_ever(
    provider: FakeProvider, autojump_clock: trio.testing.MockClock
) -> None:
    provider.play(HANG)
    async with open_http() as http:
        http.farewell(Call(f"{provider.url}/cancel"))
        exchange = await provider.arrived()
        began = trio.current_time()
    assert trio.current_time() - began <= FAREWELL_SECONDS
    await exchange.closed.wait()


async def test_what_a_provider_says_to_it_does_not_matter(provider: FakeProvider) -> None:
    provider.play(*reply(500, "out of order"))
    provider.play(RST)
    provider.play(*reply(200, "<html>"))
    async with open_http() as http:
        for count in (1, 2, 3):
            http.farewell(Call(f"{provider.url}/{count}"))
            await provider.arrived(count)
        http.farewell(Call("http://127.0.0.1:1/"))
        http.farewell(Call("no address"))


async def test_a_fault_of_ours_in_it_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    async with open_http() as http:
        monkeypatch.setattr(http, "_send", broken)
        http.farewell(Call("http://127.0.0.1:9/"))
        await trio.testing.wait_all_tasks_blocked()


async def test_after_the_end_nothing_is_said_any_more(provider: FakeProvider) -> None:
    async with open_http() as http:
        pass
    http.farewell(Call(f"{provider.url}/cancel"))
    await trio.testing.wait_all_tasks_blocked()
    assert provider.requests == []


async def test_an_error_inside_stays_what_it_is() -> None:
    """Not wrapped into a group, though there is a nursery: callers catch it by its class."""
    with pytest.raises(ValueError, match="mine"):
        async with open_http():
            raise ValueError("mine")
