"""JSON in and out: one way to answer, one way to read a body, one way to say no.

Whoever opens an address in a browser is told no by a page.
"""

import math
import re
from typing import Any, TypeVar

import msgspec
import structlog
import trio
from quart import Response, current_app, render_template, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge, RequestTimeout

from app.access import UnauthorizedError
from app.errors import (
    AppError,
    ConflictError,
    InvalidError,
    NotFoundError,
    StoreError,
    UnavailableError,
)
from web.assets import Assets
from web.guard import ForbiddenError
from web.transport import App

T = TypeVar("T")

log = structlog.get_logger()

# A body that trickles in is given up: it has so long, and as much more as it takes at this rate.
BODY_SECONDS = 30.0
BODY_RATE = 10_000  # bytes a second

# What a query may hold: no signs, exponents, or digits of other scripts.
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")

STATUS: dict[type[AppError], int] = {
    InvalidError: 400,
    UnauthorizedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    UnavailableError: 503,
}
# What werkzeug says, in our codes.
CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 408: "BODY_TIMEOUT", 413: "BODY_TOO_LARGE"}
TEXTS = {404: "There is nothing at this address"}


def json_reply(value: Any, status: int = 200, **headers: str) -> Response:
    body = msgspec.json.encode(value)
    return Response(body, status, headers, content_type="application/json")


async def refusal(assets: Assets, status: int, code: str, message: str, **headers: str) -> Response:
    """`{code, message}`; for a person who opened an address of the page's, the same in words."""
    if request.path.startswith("/api/"):
        return json_reply({"code": code, "message": message}, status, **headers)
    headers["Vary"] = "Accept"
    if "text/html" not in request.headers.get("Accept", ""):
        return json_reply({"code": code, "message": message}, status, **headers)
    html = await render_template(
        "refused.html",
        base="../" * (request.path.count("/") - 1) or "./",
        styles=assets.styles,
        message=message,
        home=status == 404,
    )
    return Response(html, status, headers, content_type="text/html; charset=utf-8")


async def read_body(kind: type[T]) -> T:
    """The request's JSON body as `kind`.

    Raises InvalidError (BODY_INVALID) with what is wrong and where, and as `read_bytes`.
    """
    data = await read_bytes(current_app.config["MAX_BODY"])
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"The body is not valid: {error}", code="BODY_INVALID") from None
    except RecursionError:
        raise InvalidError("The body is nested too deeply", code="BODY_INVALID") from None


async def read_bytes(limit: int) -> bytes:
    """The request's body, of `limit` bytes at most.

    Raises RequestEntityTooLarge, RequestTimeout.
    """
    too_large = RequestEntityTooLarge(f"Too large: at most {limit} bytes are taken.")
    if (request.content_length or 0) > limit:
        raise too_large
    data = bytearray()
    with trio.move_on_after(BODY_SECONDS) as arriving:
        async for piece in request.body:
            data += piece
            if len(data) > limit:
                raise too_large
            arriving.deadline += len(piece) / BODY_RATE
    if arriving.cancelled_caught:
        raise RequestTimeout("The body did not arrive in time.")
    return bytes(data)


def query_number(name: str, default: float, low: float, high: float) -> float:
    """A number of the query string. Raises InvalidError (QUERY_INVALID) outside of its range."""
    text = request.args.get(name)
    if text is None:
        return default
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not low <= value <= high:
        raise InvalidError(
            f"`{name}` has to be a number from {low:g} to {high:g}", code="QUERY_INVALID"
        )
    return value


def answer_errors(app: App, assets: Assets) -> None:
    """Every error becomes a `refusal`; what we did not expect says nothing of our inside."""

    @app.errorhandler(AppError)
    async def app_error(error: AppError) -> Response:
        status = next((s for kind, s in STATUS.items() if isinstance(error, kind)), 500)
        headers = {}
        if isinstance(error, UnavailableError):
            headers["Retry-After"] = str(max(1, round(error.retry_after)))
        return await refusal(assets, status, error.code, error.text, **headers)

    @app.errorhandler(StoreError)
    async def store_error(_error: StoreError) -> Response:
        text = "The store does not work at the moment. Nothing that was acknowledged is lost."
        return await refusal(assets, 503, "STORE_FAILED", text, **{"Retry-After": "2"})

    @app.errorhandler(Exception)
    async def fault(error: Exception) -> Response:
        # Quart's own handler would log the path, which holds ids (A3).
        log.error("a request failed inside", route=str(request.url_rule), exc_info=error)
        return await refusal(assets, 500, "INTERNAL", "Something went wrong inside the server")

    @app.errorhandler(HTTPException)
    async def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        message = TEXTS.get(status) or error.description or error.name
        code = CODES.get(status, "INTERNAL" if status >= 500 else "BODY_INVALID")
        allow = {"Allow": ", ".join(sorted(getattr(error, "valid_methods", None) or []))}
        return await refusal(assets, status, code, message, **(allow if status == 405 else {}))
