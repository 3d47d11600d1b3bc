"""Signing in: the link's token becomes a cookie, and what comes without either is refused."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from quart import Response
from werkzeug.datastructures import Headers

from app.access import COOKIE_SECONDS, AccessToken, UnauthorizedError


class Admission:
    """Checks requests against the access token of a server that others can reach."""

    def __init__(self, token: AccessToken, *, port: int, secure: bool, base: str) -> None:
        """`port` tells servers of one host apart, whose cookies a browser would mix up."""
        self._token = token
        self._cookie = f"unbroken-{port}"
        self._secure = secure
        self._base = base

    def admits(self, headers: Headers, cookies: Mapping[str, str], now_ms: int) -> bool:
        """Whether the request carries the token, or a cookie made from it."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._token.knows(token.strip())
        return self._token.admits(cookies.get(self._cookie, ""), now_ms)

    def check(self, headers: Headers, cookies: Mapping[str, str], now_ms: int) -> None:
        """Raises UnauthorizedError (SIGN_IN_REQUIRED)."""
        if not self.admits(headers, cookies, now_ms):
            raise UnauthorizedError(
                "Open the link that the server printed when it started.", code="SIGN_IN_REQUIRED"
            )

    def exchange(self, given: str, response: Response, now_ms: int) -> Response:
        """Put the cookie on the response. `given`: the token, or the whole link a person pasted.

        Raises UnauthorizedError (SIGN_IN_REQUIRED) if it is not the token.
        """
        if not self._token.knows(token_of(given)):
            raise UnauthorizedError(
                "That is not the token of this server.", code="SIGN_IN_REQUIRED"
            )
        response.set_cookie(
            self._cookie,
            self._token.cookie(now_ms),
            max_age=COOKIE_SECONDS,
            path=self._base,
            secure=self._secure,
            httponly=True,
            samesite="Lax",
        )
        return response


def token_of(given: str) -> str:
    """The token in a pasted link, or what was pasted if it is no link."""
    given = given.strip()
    try:
        query = urlsplit(given).query
    except ValueError:  # what looks like a link and is none; its text is in the error
        return given
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name == "token":
            return value
    return given
