"""The routes are those of web/PROTOCOL.md, and what HTTP says of all of them holds."""

import re
from pathlib import Path

import pytest

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, world
from tests.web.serving import Serve
from tests.web.wire import JSON, THREAD, Wire, connected, wired
from web import server
from web.server import HEADERS, create_app

PROTOCOL = (Path(server.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
ROUTES = sorted(set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`?\s]*)", PROTOCOL)))
PATHS = sorted({path for _, path in ROUTES})
EXAMPLES = {
    "thread": THREAD,
    "message": "message-01",
    "stream": "x" * 32,
    "attachment": "attachment-01",
    "path": "icon.svg",
}


async def test_the_routes_are_the_documented_ones(tmp_path: Path) -> None:
    async with world(tmp_path / "u.db", Scripted(hangs)) as inside:
        rules = create_app(inside.services).url_map.iter_rules()
        found = {
            (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
            for rule in rules
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        }
    assert sorted(found) == ROUTES


def example(path: str) -> str:
    return path.format(**EXAMPLES)


async def each(wire: Wire, method: str, path: str) -> None:
    """Whatever it answers, it answers well."""
    answer = await wire.ask(method, path)
    assert answer.status < 500 or path in ("/", f"/t/{THREAD}"), answer  # the page may not be built
    for name, value in HEADERS.items():
        own = path.startswith("/api/attachments/") and name == "Content-Security-Policy"
        assert own or answer.headers[name.lower()] == value
    if path.startswith("/api/") and "cache-control" in answer.headers:
        assert answer.headers["cache-control"].startswith(("no-store", "no-cache"))
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    if answer.body and path.startswith("/api/") and answer.status >= 400:
        assert answer.code


@pytest.mark.parametrize("path", PATHS)
async def test_every_route_answers_every_method(tmp_path: Path, path: str) -> None:
    """With the security headers, as JSON, and with the methods it has where it has not this one."""
    documented = {method for method, other in ROUTES if other == path}
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        await wire.send(id_="message-00")
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            if (method, path) == ("GET", "/api/feed"):
                continue  # it does not end
            if (method, path) == ("GET", "/api/threads/{thread}/stream"):
                continue
            await each(wire, method, example(path))
            if method not in documented | {"HEAD", "OPTIONS"}:
                refused = await wire.ask(method, example(path))
                assert (refused.status, refused.code) == (405, "METHOD_NOT_ALLOWED")
                assert set(refused.headers["allow"].split(", ")) >= documented
        options = await wire.ask("OPTIONS", example(path))
        assert (options.status, options.body) == (200, b"")
        assert set(options.headers["allow"].split(", ")) >= documented | {"OPTIONS"}


@pytest.mark.parametrize("path", [path for path in PATHS if not path.endswith("/")])
async def test_no_route_has_a_slash_at_its_end(tmp_path: Path, path: str) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        answer = await wire.get(f"{example(path)}/")
        assert (answer.status, answer.code) == (404, "NOT_FOUND")
        assert "location" not in answer.headers


async def test_streams_have_the_security_headers_too(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        stream = await wire.send()
        for path in ("/api/feed", f"/api/streams/{stream}", f"/api/threads/{THREAD}/stream"):
            follower = await wire.open(path)
            for name, value in HEADERS.items():
                assert follower.exchange.headers[name.lower()] == value


@pytest.mark.requirement("A4")
def test_the_policy_lets_in_our_own_files_and_nothing_else() -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data: blob:",
        "connect-src": "'self'",
        "font-src": "'self'",
        "manifest-src": "'self'",
        "worker-src": "'self'",
        "base-uri": "'self'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "unbroken-worker",
    }


async def test_models_and_health_have_the_documented_shape(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs), max_body=1000) as wire:
        assert (await wire.get("/api/models")).json == {
            "default": "scripted",
            "models": [
                {
                    "name": "scripted",
                    "provider": "scripted",
                    "model": "scripted",
                    "demo": False,
                    "reachable": True,
                    "problem": "",
                }
            ],
            "limits": {"body": 1000, "attachment": wire.services.settings.max_attachment},
        }
        for path in ("/healthz", "/readyz"):
            answer = await wire.get(path)
            assert (answer.status, answer.json) == (200, {"status": "ok"})
            assert answer.headers["content-type"] == JSON


async def test_readiness_ends_with_the_shutdown_and_health_does_not(
    tmp_path: Path, serve: Serve
) -> None:
    """Behind an edge that still serves, as another server we are mounted in."""
    async with world(tmp_path / "u.db", Scripted(hangs)) as inside:
        server = await serve(create_app(inside.services))
        inside.services.shut_down()
        async with connected(inside, server.port) as wire:
            refused = await wire.get("/readyz")
            assert (refused.status, refused.code) == (503, "SHUTTING_DOWN")
            assert refused.headers["retry-after"] == "1"
            assert (await wire.get("/healthz")).status == 200
