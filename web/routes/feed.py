"""The feed: which threads changed, for lists, badges and other tabs."""

import re
from collections.abc import AsyncGenerator

import msgspec
import trio
from quart import Blueprint, Response

from app.feed import Change, Feed
from app.lifetime import Services
from web import sse
from web.routes.streams import last_event_id
from web.transport import stream_response

# `<epoch>:<n>`
ID = re.compile(r"([A-Za-z0-9_-]+):([0-9]{1,15})")


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("feed", __name__)

    @routes.get("/api/feed")
    async def feed() -> Response:
        return stream_response(changes(services, _known(services.feed)))

    return routes


def _known(feed: Feed) -> int | None:
    """The change the request has seen last; None: nothing of this process' life."""
    match = ID.fullmatch(last_event_id())
    return int(match[2]) if match and match[1] == feed.epoch else None


async def changes(services: Services, known: int | None) -> AsyncGenerator[bytes, None]:
    """The body: a reset for whoever knows nothing of this process, then changes as they come."""
    feed = services.feed
    yield sse.OPEN
    while not services.drain.is_set():
        bell = feed.bell
        news = None if known is None else feed.after(known)
        if news is None:
            known = feed.newest
            yield b'id: %b:%d\ndata: {"reset":true}\n\n' % (feed.epoch.encode(), known)
        elif news:
            known = news[-1][0]
            yield b"".join(_frame(feed, number, change) for number, change in news)
        else:
            with trio.move_on_after(services.settings.heartbeat) as silence:
                await bell.wait()
            if silence.cancelled_caught:
                yield sse.beat(known or 0)
    yield sse.DRAINING


def _frame(feed: Feed, number: int, change: Change) -> bytes:
    return b"id: %b:%d\ndata: %b\n\n" % (
        feed.epoch.encode(),
        number,
        msgspec.json.encode(change),
    )
