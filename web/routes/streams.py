"""Streams: follow, poll, stop. A request reads the log; it never owns a turn."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import trio
from quart import Blueprint, Response, request

from app.journal import Idle, Reader
from app.lifetime import Services
from web import sse
from web.replies import json_reply, query_number
from web.transport import stream_response

POLL_SECONDS = 25.0
POLL_LIMIT_SECONDS = 30.0
POLL_EVENTS = 1000
POLL_BYTES = 1_000_000

Frame = tuple[str | None, bytes]  # id and event


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("streams", __name__)

    @routes.get("/api/streams/<stream>")
    async def follow(stream: str) -> Response:
        return await resume(services, stream)

    @routes.delete("/api/streams/<stream>")
    async def stop(stream: str) -> Response:
        await services.turns.cancel(stream)
        return Response(b"", 204)

    return routes


def wants_events() -> bool:
    return "text/event-stream" in request.headers.get("Accept", "")


def wants_json() -> bool:
    return not wants_events() and "application/json" in request.headers.get("Accept", "")


async def resume(services: Services, stream: str) -> Response:
    """The stream after the request's cursor: then live, as server-sent events; or one poll of it.

    Raises NotFoundError, InvalidError.
    """
    reader = await services.journal.locate(stream, cursor())
    if wants_json():
        wait = query_number("wait", POLL_SECONDS, 0, POLL_LIMIT_SECONDS)
        return json_reply(await poll(reader, wait))
    first = await reader.next(wait=False)
    if first == "end":
        return Response(b"", 204)  # EventSource would ask again every second for nothing
    return stream_response(frames(reader, first))


def cursor() -> tuple[str, int] | None:
    """Where the request goes on from; None: from the beginning. Raises InvalidError."""
    text = last_event_id()
    return None if text in ("", "0") else sse.parse_cursor(text)


def last_event_id() -> str:
    """As it was sent; "" if it was not. EventSource sends the header, others can choose."""
    header, query = request.headers.get("Last-Event-ID"), request.args
    return header or query.get("lastEventId") or query.get("after") or ""


async def frames(reader: Reader, item: bytes | Idle) -> AsyncGenerator[bytes, None]:
    """The body: stored frames as they are, comments between them. Ends with the log, or early when
    the server shuts down. `item`: what the reader gave first."""
    yield sse.OPEN
    while item != "end":
        if isinstance(item, bytes):
            yield item
        elif item == "beat":
            yield sse.beat(reader.seq)
        elif item == "draining":
            yield sse.DRAINING
            return
        else:
            yield sse.gap(await reader.thread())
            return
        item = await reader.next()


async def poll(reader: Reader, wait: float) -> dict[str, Any]:
    """What comes after the reader's position, as soon as there is something, at the latest after
    `wait` seconds; `ended` when the outcome is among it or was before it."""
    item = await reader.next(wait=False)  # what there is is not subject to the deadline
    with trio.move_on_after(wait):
        while item == "beat":
            item = await reader.next()
    found: list[Frame] = []
    size = 0
    while isinstance(item, bytes) and len(found) < POLL_EVENTS and size < POLL_BYTES:
        found += sse.split_frames(item)
        size += len(item)
        item = await reader.next(wait=False)
    if item == "gap" and not found:
        found = sse.split_frames(sse.gap(await reader.thread()))
    kept = _fitting(found)
    ids = [id_ for id_, _ in kept if id_ is not None]
    everything = len(kept) == len(found) and item == "end"
    return {
        "events": [{"id": id_, "event": msgspec.Raw(event)} for id_, event in kept],
        "cursor": ids[-1] if ids else f"{reader.name}:{reader.seq}",
        "ended": everything or bool(kept and _is_outcome(kept[-1][1])),
    }


def _fitting(found: list[Frame]) -> list[Frame]:
    """Those that one answer may have: the first, and what is not too much together."""
    size = 0
    for index, (_, event) in enumerate(found):
        size += len(event)
        if index == POLL_EVENTS or (index and size > POLL_BYTES):
            return found[:index]
    return found


def _is_outcome(event: bytes) -> bool:
    return msgspec.json.decode(event, type=_Type).type == "outcome"


class _Type(msgspec.Struct, frozen=True):
    type: str
