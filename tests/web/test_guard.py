"""Which requests a browser may have been led to make (A2)."""

from pathlib import Path

import pytest

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, says
from tests.web.wire import THREAD, Wire, wired
from web.guard import ForbiddenError, Guard

pytestmark = pytest.mark.requirement("A2")

OURS = (
    "127.0.0.1:8137",
    "127.0.0.1",
    "127.0.0.1:",
    "127.1.2.3:80",
    "localhost",
    "localhost:8137",
    "LocalHost:8137",
    "localhost.:8137",
    "[::1]",
    "[::1]:8137",
    "[0:0:0:0:0:0:0:1]:8137",
    "our.name:8137",
    "OUR.name",
    "our.name.",
)
FOREIGN = (
    "",
    " ",
    ":",
    ":8137",
    "attacker.example",
    "attacker.example:8137",
    "localhost.attacker.example",
    "attacker.example.localhost",
    "127.0.0.1.attacker.example",
    "127.0.0.1.nip.io",
    "our.name.attacker.example",
    "x.our.name",
    "localhost..",
    ".localhost",
    "0.0.0.0:8137",
    "10.0.0.1",
    "192.168.0.10:8137",
    "[::]:8137",
    "[::2]",
    "[fe80::1]",
    "[::ffff:10.0.0.1]",
    "::1",
    "[::1",
    "::1]",
    "[::1]x",
    "[::1%lo]",
    "[127.0.0.1]:x",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "127.0.0.1@attacker.example",
    "attacker.example@127.0.0.1",
    "user:pass@localhost",
    "localhost/attacker.example",
    "localhost#x",
    "localhost?x",
    "localhost\\x",
    "localhost:8137:1",
    "localhost:port",
    "localhost, attacker.example",
    "http://localhost",
    "löcalhost",
    "localhost\x00",
)
SAME = (
    ("127.0.0.1:8137", "http://127.0.0.1:8137"),
    ("localhost:8137", "http://LOCALHOST:8137"),
    ("localhost:8137", "HTTP://localhost:8137"),
    ("localhost", "https://localhost"),  # TLS that ends in front of us
    ("[::1]:8137", "http://[::1]:8137"),
    ("localhost.:8137", "http://localhost.:8137"),
)
OTHER = (
    "null",
    "",
    "http://attacker.example",
    "http://localhost.attacker.example:8137",
    "http://localhost",  # another port is another site
    "http://localhost:9000",
    "http://127.0.0.1:8137",  # another name, too
    "http://localhost:8137@attacker.example",
    "http://attacker.example#localhost:8137",
    "http://[::1",
    "http://",
    "localhost:8137",
    "//localhost:8137",
    "file://",
    "file://localhost:8137",
    "chrome-extension://localhost:8137",
    "http://localhost:8137 http://attacker.example",
    "http://localhost:8137/",
)


def verdict(host: str, origin: str | None, site: str | None, *, page: bool) -> str:
    try:
        Guard(["Our.Name"]).check(host, origin, site, page=page)
    except ForbiddenError as error:
        return error.code
    return "let in"


@pytest.mark.parametrize("page", [True, False])
@pytest.mark.parametrize("host", OURS)
def test_our_own_names_are_answered(host: str, page: bool) -> None:
    assert verdict(host, None, None, page=page) == "let in"
    assert verdict(host, f"http://{host}", "same-origin", page=page) == "let in"


@pytest.mark.parametrize("page", [True, False])
@pytest.mark.parametrize("host", FOREIGN)
def test_no_other_name_is_answered(host: str, page: bool) -> None:
    """DNS rebinding: the attacker's name resolves to us, and its page is same-origin with it."""
    assert verdict(host, f"http://{host}", "same-origin", page=page) == "HOST_FORBIDDEN"
    assert verdict(host, None, None, page=page) == "HOST_FORBIDDEN"


@pytest.mark.parametrize(("host", "origin"), SAME)
def test_our_own_origin_is_let_in(host: str, origin: str) -> None:
    assert verdict(host, origin, "same-origin", page=False) == "let in"


@pytest.mark.parametrize("page", [True, False])
@pytest.mark.parametrize("origin", OTHER)
def test_no_other_origin_is_let_in(origin: str, page: bool) -> None:
    for site in (None, "same-origin", "none"):
        assert verdict("localhost:8137", origin, site, page=page) == "ORIGIN_FORBIDDEN"


@pytest.mark.parametrize(
    ("site", "data"),
    [
        (None, "let in"),  # a program, or a browser that does not say
        ("none", "let in"),  # typed by the person
        ("same-origin", "let in"),
        ("Same-Origin", "let in"),
        ("same-site", "ORIGIN_FORBIDDEN"),  # another port of this machine
        ("cross-site", "ORIGIN_FORBIDDEN"),
        ("something-new", "ORIGIN_FORBIDDEN"),
    ],
)
def test_other_sites_may_link_to_the_page_but_not_load_data(site: str | None, data: str) -> None:
    assert verdict("localhost", None, site, page=True) == "let in"
    assert verdict("localhost", None, site, page=False) == data


def test_under_a_token_any_name_is_answered_but_no_other_origin() -> None:
    guard = Guard([], any_host=True)
    guard.check("chat.example:8137", "http://chat.example:8137", "same-origin", page=False)
    for origin, site in (("http://attacker.example", None), (None, "cross-site"), ("null", None)):
        with pytest.raises(ForbiddenError):
            guard.check("chat.example:8137", origin, site, page=False)
    for host in ("", "a@b", "a/b", "[::1"):
        with pytest.raises(ForbiddenError):
            guard.check(host, None, None, page=False)


# On the wire


async def attack(wire: Wire, **headers: str) -> None:
    """None of it does anything."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    messages = f"/api/threads/{THREAD}/messages"
    for method, path, body in (
        ("POST", messages, wire.message()),
        ("DELETE", f"/api/threads/{THREAD}", None),
        ("PATCH", f"/api/threads/{THREAD}", {"title": "taken over"}),
        ("GET", f"/api/threads/{THREAD}", None),
        ("GET", "/api/feed", None),
        ("HEAD", "/api/threads", None),
        ("OPTIONS", messages, None),
        ("POST", "/", None),
    ):
        answer = await wire.ask(method, path, body, sent)
        assert answer.status == 403, (method, path, answer)


async def test_attackers_get_nothing_and_change_nothing(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        await wire.read(await wire.send())
        before = await wire.snapshot()
        await attack(wire, Host="attacker.example")
        await attack(wire, Host="attacker.example", Origin="http://attacker.example")
        await attack(wire, Host="")
        await attack(wire, Origin="http://attacker.example")
        await attack(wire, Origin="null")
        await attack(wire, Origin="http://[::1")
        await attack(wire, Sec_Fetch_Site="cross-site")
        await attack(wire, Sec_Fetch_Site="same-site")
        assert await wire.snapshot() == before


async def test_a_request_without_a_name_is_refused(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        for head, status in (
            (b"GET /api/threads HTTP/1.0\r\n\r\n", b" 403 "),
            (b"GET /api/threads HTTP/1.1\r\n\r\n", b" 400 "),
            (b"GET /api/threads HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\r\n", b" 400 "),
        ):
            exchange = await wire.connect()
            await exchange.stream.send_all(head)
            assert status in await exchange.stream.receive_some(1000)


async def test_links_from_other_sites_lead_to_the_page(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        for path in ("/", f"/t/{THREAD}"):
            answer = await wire.get(path, sec_fetch_site="cross-site", sec_fetch_mode="navigate")
            assert answer.status in (200, 503)  # 503: the page was not built
        # What the page loads is its own origin's request.
        ours = f"http://127.0.0.1:{wire.port}"
        assert (await wire.get("/api/threads", origin=ours, sec_fetch_site="same-origin")).json
