"""The access token: who has it may use this server, from any machine.

A person opens a link that holds it; the browser exchanges it for a cookie, which proves that the
token was known without holding it. Programs send the token itself as a bearer token.
"""

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from app.errors import AppError, InvalidError

TOKEN_BYTES = 32
MIN_TOKEN_CHARS = 20
COOKIE_SECONDS = 30 * 24 * 3600


class UnauthorizedError(AppError):
    """SIGN_IN_REQUIRED: neither the token nor a cookie made from it was sent."""


class AccessToken:
    """The one token of this server, and the cookies made from it."""

    def __init__(self, token: str) -> None:
        self.token = token

    def knows(self, token: str) -> bool:
        """Whether that is the token; takes the same time whatever is wrong with it."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def cookie(self, now_ms: int) -> str:
        """A value that `admits` for COOKIE_SECONDS. It survives a restart with the same token."""
        expires = str(now_ms // 1000 + COOKIE_SECONDS)
        return f"{expires}.{self._sign(expires)}"

    def admits(self, cookie: str, now_ms: int) -> bool:
        """Whether the value was made by `cookie` and has not expired."""
        expires, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(expires).encode()):
            return False
        return int(expires) * 1000 > now_ms

    def _sign(self, expires: str) -> str:
        key = hashlib.sha256(b"unbroken cookie\0" + self.token.encode()).digest()
        return hmac.new(key, expires.encode(), hashlib.sha256).hexdigest()


def load_token(path: Path) -> AccessToken:
    """The token in that file; made there, for its owner's eyes only, if there is no such file.

    Raises InvalidError (CONFIG_INVALID) for a file that others can read or that holds no token.
    """
    try:
        return AccessToken(_read(path))
    except FileNotFoundError:
        token = secrets.token_urlsafe(TOKEN_BYTES)
    except OSError as error:
        raise _invalid(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _invalid(f"{path} holds something else than a token") from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{token}\n")
    except OSError as error:
        raise _invalid(f"{path} cannot be written: {error.strerror}") from None
    return AccessToken(token)


def _read(path: Path) -> str:
    token = path.read_text("ascii").strip()
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _invalid(f"{path} has to be readable by its owner alone (chmod 600)")
    if len(token) < MIN_TOKEN_CHARS or any(c.isspace() for c in token):
        raise _invalid(f"{path} has to hold one token of {MIN_TOKEN_CHARS} characters or more")
    return token


def _invalid(text: str) -> InvalidError:
    return InvalidError(f"The token file {text}", code="CONFIG_INVALID")
