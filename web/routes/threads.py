"""Threads: send, snapshot, list, rename, delete."""

import base64
import binascii
import re
import unicodedata
from typing import Annotated, Literal
from urllib.parse import quote

import msgspec
from quart import Blueprint, Response, request

from app.errors import InvalidError
from app.export import as_markdown, file_name
from app.lifetime import Services
from app.threads import Position, ThreadChange
from app.turns.intake import During, Submission
from web.replies import json_reply, query_number, read_body
from web.routes.streams import cursor, last_event_id, resume, wants_events

ID = re.compile(r"[A-Za-z0-9_-]{8,64}")

# What an opaque position holds: numbers that the store can take.
Flag = Annotated[int, msgspec.Meta(ge=0, le=1)]
Time = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class TextPart(
    msgspec.Struct, frozen=True, tag="text", tag_field="type", forbid_unknown_fields=True
):
    text: Annotated[str, msgspec.Meta(min_length=1)]


class FilePart(
    msgspec.Struct, frozen=True, tag="file", tag_field="type", forbid_unknown_fields=True
):
    attachment: str


class Send(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a message. `parent` left out: it follows the selected leaf."""

    id: str
    parts: Annotated[list[TextPart | FilePart], msgspec.Meta(min_length=1, max_length=100)]
    during: During = "queue"
    parent: str | msgspec.UnsetType | None = msgspec.UNSET
    replaces: str | None = None
    model: str | None = None
    instructions: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None


class AnswerAgain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that asks for another answer. `id` makes it idempotent."""

    id: str
    model: str | None = None
    during: During = "queue"


def blueprint(services: Services) -> Blueprint:
    routes = Blueprint("threads", __name__)

    @routes.post("/api/threads/<thread>/messages")
    async def send(thread: str) -> Response:
        if last_event_id():
            return await _attach(services, thread)
        body = await read_body(Send)
        submission = Submission(
            thread=checked(thread, "thread"),
            key=checked(body.id, "message"),
            message=body.id,
            parts=[msgspec.to_builtins(part) for part in body.parts],
            default_model=services.catalogue.default,
            model=body.model,
            instructions=body.instructions,
            during=body.during,
            parent=body.parent,
            replaces=body.replaces,
        )
        return await _submit(services, submission)

    @routes.post("/api/threads/<thread>/messages/<message>/answers")
    async def answer_again(thread: str, message: str) -> Response:
        if last_event_id():
            return await _attach(services, thread)
        body = await read_body(AnswerAgain)
        submission = Submission(
            thread=checked(thread, "thread"),
            key=checked(body.id, "message"),
            message=checked(message, "message"),
            parts=None,
            default_model=services.catalogue.default,
            model=body.model,
            during=body.during,
        )
        return await _submit(services, submission)

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
    async def change(thread: str) -> Response:
        body = await read_body(ThreadChange)
        if isinstance(body.model, str):
            services.catalogue.get(body.model)
        return json_reply(await services.threads.change(checked(thread, "thread"), body))

    @routes.get("/api/threads/<thread>/export")
    async def export(thread: str) -> Response:
        snapshot = await services.threads.snapshot(checked(thread, "thread"))
        kind = request.args.get("format", "markdown")
        name = file_name(snapshot.thread.title)
        if kind == "json":
            return _download(json_reply(snapshot), name, "json")
        if kind != "markdown":
            raise InvalidError("`format` is markdown or json", code="QUERY_INVALID")
        text = as_markdown(snapshot)
        reply = Response(text, content_type="text/markdown; charset=utf-8")
        return _download(reply, name, "md")

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
        return await _attach(services, thread)

    return routes


async def _submit(services: Services, submission: Submission) -> Response:
    accepted = await services.turns.submit(submission)
    stream = accepted.turn.stream_id
    if wants_events():
        return await resume(services, stream)
    view = {
        "thread": submission.thread,
        "message": submission.message,
        "turn": accepted.turn.id,
        "stream": stream,
        "cursor": f"{stream}:0",
        "state": accepted.turn.state,
        "repeated": accepted.repeated,
    }
    return json_reply(view, 202)


def _download(reply: Response, name: str, ending: str) -> Response:
    """As a file of that name. Old programs read the first form, which has ASCII alone and no "%",
    all others the second (RFC 6266, appendix D)."""
    latin = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = file_name(latin.replace("%", " "))  # again: what a letter stands for may be forbidden
    exact = quote(f"{name}.{ending}", safe="!#$&+^`|")
    disposition = f"attachment; filename=\"{plain}.{ending}\"; filename*=UTF-8''{exact}"
    reply.headers["Content-Disposition"] = disposition
    return reply


async def _attach(services: Services, thread: str) -> Response:
    """The stream the request's cursor names, else the active one, else 204: starts nothing."""
    stream: str | None
    position = cursor()
    if position is None:
        stream = await services.threads.active_stream(checked(thread, "thread"))
    else:
        stream = await services.threads.owning(thread, position[0])
    return Response(b"", 204) if stream is None else await resume(services, stream)


def checked(id_: str, what: Literal["thread", "message", "attachment"]) -> str:
    """Raises InvalidError (ID_INVALID)."""
    if not ID.fullmatch(id_):
        raise InvalidError(f"A {what}'s id has 8 to 64 letters, digits, - or _", code="ID_INVALID")
    return id_


def _opaque(position: Position) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def _position(text: str | None) -> Position | None:
    if text is None:
        return None
    try:
        data = base64.urlsafe_b64decode(text)
        return Position(*msgspec.json.decode(data, type=tuple[Flag, Time, str]))
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise InvalidError("`after` is not a `next` of ours", code="QUERY_INVALID") from None
