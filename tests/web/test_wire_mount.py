"""Under a path prefix: behind proxies of both kinds, and inside another application (E7)."""

from pathlib import Path

import pytest
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import says, world
from tests.web.page import built, links
from tests.web.serving import Serve
from tests.web.wire import Wire, assert_gapless, connected
from web.server import create_app
from web.transport import App

pytestmark = pytest.mark.requirement("E7")


async def use(wire: Wire, prefix: str, seen_as: str) -> None:
    """Everything the page does, below `prefix` here and below `seen_as` in the browser."""
    for page in ("", "t/thread-01"):
        answer = await wire.get(f"{prefix}{page}")
        assert answer.status == 200
        found = links(answer.body.decode(), f"http://host{seen_as}{page}")
        assert found.pop("") == f"http://host{seen_as}"
        assert len(found) == 3
        for url in found.values():
            path = url.removeprefix(f"http://host{seen_as}")
            assert (await wire.get(f"{prefix}{path}")).status == 200
    messages = f"{prefix}api/threads/thread-01/messages"
    sent = await wire.ask("POST", messages, wire.message())
    assert sent.status == 202
    follower = await (await wire.open(f"{prefix}api/streams/{sent.json['stream']}")).rest()
    assert follower.text == "word"
    assert_gapless(follower.ids)
    refused = await wire.get(f"{prefix}api/nothing")
    assert (refused.status, refused.code) == (404, "NOT_FOUND")
    hidden = await wire.get(f"{prefix}api/threads", sec_fetch_site="cross-site")
    assert (hidden.status, hidden.code) == (403, "ORIGIN_FORBIDDEN")
    assert (await wire.get(f"{prefix}", sec_fetch_site="cross-site")).status == 200


@pytest.mark.parametrize("base", ["/chat/", "/chat", "chat", "/deep/down/chat/"])
async def test_behind_a_proxy_that_passes_the_prefix_on(
    tmp_path: Path, serve: Serve, base: str
) -> None:
    async with world(tmp_path / "u.db", Scripted(says("word")), base_path=base) as inside:
        app = create_app(inside.services, assets=built(tmp_path / "static"))
        root = f"/{base.strip('/')}"
        async with connected(inside, (await serve(app)).port) as wire:
            await use(wire, f"{root}/", f"{root}/")
            bare = await wire.get(root)
            assert bare.status == 308
            assert bare.headers["location"] == "chat/"  # relative: /x/chat becomes /x/chat/
            for path in (f"{root}ter/", f"{root}ter", f"{root}{root}/"):
                assert (await wire.get(path)).status == 404


@pytest.mark.parametrize("base", ["/", "/chat/"])
async def test_behind_a_proxy_that_strips_the_prefix(
    tmp_path: Path, serve: Serve, base: str
) -> None:
    """It needs no setting, and minds none."""
    async with world(tmp_path / "u.db", Scripted(says("word")), base_path=base) as inside:
        app = create_app(inside.services, assets=built(tmp_path / "static"))
        async with connected(inside, (await serve(app)).port) as wire:
            await use(wire, "/", "/any/prefix/")


async def test_inside_another_application(tmp_path: Path, serve: Serve) -> None:
    """Mounted as ASGI has it: the path is whole, the root path says what is not ours."""

    async with world(tmp_path / "u.db", Scripted(says("word"))) as inside:
        inner: App = create_app(inside.services, assets=built(tmp_path / "static"))
        outer = App("outer")
        outer.add_url_rule("/", view_func=lambda: "outer")

        async def both(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            assert scope["type"] == "http"
            if scope["path"].startswith("/chat/"):
                await inner({**scope, "root_path": "/chat"}, receive, send)
            else:
                await outer(scope, receive, send)

        async with connected(inside, (await serve(both)).port) as wire:
            await use(wire, "/chat/", "/chat/")
            assert (await wire.get("/")).body == b"outer"
            assert (await wire.get("/api/threads")).status == 404
