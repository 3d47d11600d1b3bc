"""Threads: send, snapshot, list, rename, delete."""

import base64
import binascii
import re
from typing import Annotated, Any, Literal

import msgspec
from quart import Blueprint, Response, request

from app.errors import InvalidError
from app.lifetime import Services
from app.turns.intake import During, Submission
from web import sse
from web.replies import json_reply, query_number, read_body
from web.routes.streams import last_event_id, resume, wants_events

ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


class TextPart(msgspec.Struct, frozen=True, tag="text", forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(min_length=1)]


class Send(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a message. `parent` left out: it follows the selected leaf."""

    id: str
    parts: Annotated[list[TextPart], msgspec.Meta(min_length=1, max_length=100)]
    during: During = "queue"
    parent: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | None = None


class Rename(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("threads", __name__)

    @routes.post("/api/threads/<thread>/messages")
    async def send(thread: str) -> Response:
        if last_event_id():
            return await resume(services, await _stream_of_cursor(services, thread))
        body = await read_body(Send)
        submission = Submission(
            checked(thread, "thread"),
            checked(body.id, "message"),
            [{"type": "text", "text": part.text} for part in body.parts],
            services.catalogue.get(body.model).name,
            body.during,
            body.parent,
        )
        accepted = await services.turns.submit(submission)
        stream = accepted.turn.stream_id
        if wants_events():
            return await resume(services, stream)
        view = {
            "thread": thread,
            "message": body.id,
            "turn": accepted.turn.id,
            "stream": stream,
            "cursor": f"{stream}:0",
            "state": accepted.turn.state,
            "repeated": accepted.repeated,
        }
        return json_reply(view, 202)

    @routes.get("/api/threads")
    async def threads() -> Response:
        limit = int(query_number("limit", 50, 1, 200))
        rows, more = await services.threads.list(limit, _position(request.args.get("after")))
        following = None if more is None else _opaque(more)
        return json_reply({"threads": rows, "next": following})

    @routes.get("/api/threads/<thread>")
    async def snapshot(thread: str) -> Response:
        return json_reply(await services.threads.snapshot(checked(thread, "thread")))

    @routes.patch("/api/threads/<thread>")
    async def rename(thread: str) -> Response:
        body = await read_body(Rename)
        now = services.clock.now_ms()
        return json_reply(await services.threads.rename(checked(thread, "thread"), body.title, now))

    @routes.delete("/api/threads/<thread>")
    async def delete(thread: str) -> Response:
        await services.threads.remove(checked(thread, "thread"))
        return Response(b"", 204)

    @routes.delete("/api/threads/<thread>/turns/<message>")
    async def stop(thread: str, message: str) -> Response:
        await services.turns.cancel_message(checked(thread, "thread"), checked(message, "message"))
        return Response(b"", 204)

    @routes.get("/api/threads/<thread>/stream")
    async def active(thread: str) -> Response:
        if last_event_id():
            return await resume(services, await _stream_of_cursor(services, thread))
        stream = await services.threads.active_stream(checked(thread, "thread"))
        return Response(b"", 204) if stream is None else await resume(services, stream)

    return routes


async def _stream_of_cursor(services: Services, thread: str) -> str:
    """The stream the request's cursor names: a resume by thread needs no other address."""
    stream, _ = sse.parse_cursor(last_event_id() or "")
    return await services.threads.owning(thread, stream)


def checked(id_: str, what: Literal["thread", "message"]) -> str:
    """Raises InvalidError (ID_INVALID)."""
    if not ID.fullmatch(id_):
        raise InvalidError(f"A {what}'s id has 8 to 64 letters, digits, - or _", code="ID_INVALID")
    return id_


def _opaque(position: tuple[int, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def _position(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    try:
        data: Any = base64.urlsafe_b64decode(text)
        return msgspec.json.decode(data, type=tuple[int, str])
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise InvalidError("`after` is not a `next` of ours", code="QUERY_INVALID") from None
