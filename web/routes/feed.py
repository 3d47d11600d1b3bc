"""The feed: which threads changed, for lists, badges and other tabs."""

from collections.abc import AsyncGenerator

import msgspec
import trio
from quart import Blueprint, Response, request

from app.feed import Change, Feed
from app.lifetime import Services
from web import sse
from web.transport import stream_response


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("feed", __name__)

    @routes.get("/api/feed")
    async def feed() -> Response:
        epoch, _, number = (request.headers.get("Last-Event-ID") or "").rpartition(":")
        known = int(number) if epoch == services.feed.epoch and number.isdigit() else None
        return stream_response(changes(services, known))

    return routes


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
