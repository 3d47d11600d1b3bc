"""The page and its files."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, world
from tests.web.page import FILES, built, links
from tests.web.serving import Serve
from tests.web.wire import Wire, connected
from web.assets import FOREVER, Assets
from web.server import create_app


@pytest.fixture
async def wire(tmp_path: Path, serve: Serve) -> AsyncIterator[Wire]:
    """A server with a page."""
    async with world(tmp_path / "u.db", Scripted(hangs)) as inside:
        server = await serve(create_app(inside.services, assets=built(tmp_path / "static")))
        async with connected(inside, server.port) as wire:
            yield wire


@pytest.mark.parametrize("path", ["/", "/t/thread-01", "/?x=1", "/t/no%20thread%22%3E"])
async def test_the_page_is_the_same_at_every_address(wire: Wire, path: str) -> None:
    answer = await wire.get(path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    html = answer.body.decode()
    assert html.startswith("<!doctype html>")
    assert "no thread" not in html
    assert "<script>" not in html
    assert "style=" not in html
    found = links(html, f"http://host{path}")
    assert found.pop("") == "http://host/"
    assert sorted(found.values()) == sorted(
        f"http://host/static/{name}" for name in FILES if name != ".vite/manifest.json"
    )
    for url in found.values():
        assert (await wire.get(url.removeprefix("http://host"))).status == 200


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("assets/main-abc123.js", "text/javascript; charset=utf-8"),
        ("assets/main-def456.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ],
)
async def test_files_have_the_type_that_nosniff_asks_for(wire: Wire, name: str, kind: str) -> None:
    answer = await wire.get(f"/static/{name}")
    assert (answer.status, answer.body.decode()) == (200, FILES[name])
    assert answer.headers["content-type"].replace("application/java", "text/java") == kind
    assert answer.headers["content-length"] == str(len(answer.body))


async def test_hashed_files_are_kept_for_ever_and_others_asked_for(wire: Wire) -> None:
    assert (await wire.get("/static/assets/main-abc123.js")).headers["cache-control"] == FOREVER
    assert "immutable" in FOREVER
    assert (await wire.get("/static/icon.svg")).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("weak", ["", "W/"])
async def test_a_file_that_is_known_is_not_sent_again(wire: Wire, weak: str) -> None:
    first = await wire.get("/static/icon.svg")
    etag = first.headers["etag"].removeprefix("W/")
    for known in (f"{weak}{etag}", f'"other", {weak}{etag}', "*"):
        again = await wire.get("/static/icon.svg", if_none_match=known)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert again.headers["cache-control"] == "no-cache"
    for unknown in ('"other"', "", etag.strip('"')[:-1], "nonsense"):
        assert (await wire.get("/static/icon.svg", if_none_match=unknown)).status == 200


async def test_files_are_compressed_for_whoever_can_read_that(tmp_path: Path, serve: Serve) -> None:
    text = "const repeated = 'again and again';\n" * 200
    (tmp_path / "static" / "assets").mkdir(parents=True)
    for name in ("assets/long.js", "assets/font.woff2"):
        (tmp_path / "static" / name).write_text(text, encoding="ascii")
    async with world(tmp_path / "u.db", Scripted(hangs)) as inside:
        server = await serve(create_app(inside.services, assets=built(tmp_path / "static")))
        async with connected(inside, server.port) as wire:
            whole = await wire.get("/static/assets/long.js")
            small = await wire.get("/static/assets/long.js", accept_encoding="br, gzip;q=0.5")
            assert "content-encoding" not in whole.headers
            assert small.headers["content-encoding"] == "gzip"
            assert gzip.decompress(small.body) == whole.body == text.encode()
            assert len(small.body) < len(text) / 10
            for answer in (whole, small):
                assert answer.headers["vary"] == "Accept-Encoding"
                assert answer.headers["content-length"] == str(len(answer.body))
            etag = small.headers["etag"]
            assert (await wire.get("/static/assets/long.js", if_none_match=etag)).status == 304
            for path, accepted in (("assets/font.woff2", "gzip"), ("icon.svg", "gzip"),
                                   ("assets/long.js", "gzip;q=0, br")):  # fmt: skip
                answer = await wire.get(f"/static/{path}", accept_encoding=accepted)
                assert "content-encoding" not in answer.headers


async def test_head_of_page_and_files(wire: Wire) -> None:
    for path in ("/", "/t/thread-01", "/static/icon.svg"):
        whole, head = await wire.get(path), await wire.ask("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers == {**whole.headers, "date": head.headers["date"]}


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static",
        "/static/assets",
        "/static/assets/",
        "/static/nothing.js",
        "/static/../web/server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/assets\\main-abc123.js",
        "/favicon.ico",
        "/t",
        "/index.html",
    ],
)
async def test_there_is_nothing_else(wire: Wire, path: str) -> None:
    answer = await wire.get(path)
    assert (answer.status, answer.code) == (404, "NOT_FOUND")


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/nothing", "/t", "/t/", "/a/b/nothing.html", "/static/none.js"])
async def test_a_person_who_opens_a_wrong_address_is_told_so_by_a_page(
    wire: Wire, path: str
) -> None:
    answer = await wire.get(path, accept=BROWSER)
    assert answer.status == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["vary"] == "Accept"
    assert "<h1>" in answer.body.decode()
    found = links(answer.body.decode(), f"http://host{path}")
    assert found.pop("") == "http://host/"  # the way to the chats, and what styles are relative to
    for url in found.values():
        assert (await wire.get(url.removeprefix("http://host"))).status == 200


async def test_programs_are_told_no_in_json_whatever_they_accept(wire: Wire) -> None:
    for accept in (BROWSER, "*/*", "application/json"):
        answer = await wire.get("/api/nothing", accept=accept)
        assert (answer.status, answer.code) == (404, "NOT_FOUND")
    answer = await wire.get("/nothing", accept="*/*")
    assert (answer.status, answer.code) == (404, "NOT_FOUND")


async def test_a_page_under_a_foreign_name_is_refused_in_words(wire: Wire) -> None:
    answer = await wire.get("/", accept=BROWSER, host="attacker.example")
    assert answer.status == 403
    assert "does not answer under that name" in answer.body.decode()
    assert "attacker" not in answer.body.decode()
    assert "<a " not in answer.body.decode()  # it would lead to the same refusal


async def test_a_checkout_without_a_page_says_so(tmp_path: Path, serve: Serve) -> None:
    async with world(tmp_path / "u.db", Scripted(hangs)) as inside:
        app = create_app(inside.services, assets=Assets(tmp_path / "nothing"))
        async with connected(inside, (await serve(app)).port) as wire:
            for path in ("/", "/t/thread-01"):
                answer = await wire.get(path)
                assert answer.status == 503
                assert answer.headers["content-type"] == "text/plain; charset=utf-8"
                assert b"scripts/run" in answer.body
            assert (await wire.get("/api/threads")).status == 200
