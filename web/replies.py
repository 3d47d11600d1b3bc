"""JSON in and out: one way to answer, one way to read a body, one way to say no."""

import math
import re
from typing import Any, TypeVar

import msgspec
import structlog
from quart import Response, request
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
from web.guard import ForbiddenError
from web.transport import App

T = TypeVar("T")

log = structlog.get_logger()

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


def json_reply(value: Any, status: int = 200, **headers: str) -> Response:
    body = msgspec.json.encode(value)
    return Response(body, status, headers, content_type="application/json")


def refusal(status: int, code: str, message: str, **headers: str) -> Response:
    return json_reply({"code": code, "message": message}, status, **headers)


async def read_body(kind: type[T]) -> T:
    """The request's JSON body as `kind`.

    Raises InvalidError (BODY_INVALID) with what is wrong and where; AppError for one that is too
    large or does not arrive in time, as werkzeug raises them.
    """
    data = await request.get_data(cache=False)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"The body is not valid: {error}", code="BODY_INVALID") from None


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


def answer_errors(app: App) -> None:
    """Every error becomes `{code, message}`; what we did not expect says nothing of our inside."""

    @app.errorhandler(AppError)
    async def app_error(error: AppError) -> Response:
        status = next((s for kind, s in STATUS.items() if isinstance(error, kind)), 500)
        headers = {}
        if isinstance(error, UnavailableError):
            headers["Retry-After"] = str(max(1, round(error.retry_after)))
        return refusal(status, error.code, error.text, **headers)

    @app.errorhandler(StoreError)
    async def store_error(_error: StoreError) -> Response:
        text = "The store does not work at the moment. Nothing that was acknowledged is lost."
        return refusal(503, "STORE_FAILED", text, **{"Retry-After": "2"})

    @app.errorhandler(Exception)
    async def fault(error: Exception) -> Response:
        # Quart's own handler would log the path, which holds ids (A3).
        log.error("a request failed inside", route=str(request.url_rule), exc_info=error)
        return refusal(500, "INTERNAL", "Something went wrong inside the server")

    @app.errorhandler(HTTPException)
    async def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        message = error.description or error.name
        if isinstance(error, RequestEntityTooLarge):
            limit = app.config["MAX_CONTENT_LENGTH"]
            message = f"The message is too large: at most {limit} bytes are taken."
        elif isinstance(error, RequestTimeout):
            message = "The body did not arrive in time."
        code = CODES.get(status, "INTERNAL" if status >= 500 else "BODY_INVALID")
        allow = {"Allow": ", ".join(sorted(getattr(error, "valid_methods", None) or []))}
        return refusal(status, code, message, **(allow if status == 405 else {}))
