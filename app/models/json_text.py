"""JSON as providers write it, and text that comes in pieces of it."""

import json
import re
from typing import Any

import msgspec

from app.models.errors import ModelError

_HIGH = re.compile("[\ud800-\udbff]\\Z")
_ANY = re.compile("[\ud800-\udfff]")


def decode(data: bytes, *, who: str) -> Any:
    """The JSON value in `data`. Raises ModelError (retryable: a frame was garbled on its way)."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # Accepts what msgspec does not: halves of surrogate pairs, NaN.
        return json.loads(data)
    except (ValueError, RecursionError):
        text = f"{who} sent a frame that is not valid JSON."
        raise ModelError(text, code="MODEL_PROTOCOL", retryable=True) from None


class Joiner:
    """Joins surrogate pairs that a provider cut between two pieces of one text (M3).

    JSON may write a character as two escapes; a server that counts in UTF-16 can send them in two
    deltas. What has no other half becomes U+FFFD, since UTF-8 cannot hold it.
    """

    def __init__(self) -> None:
        # The first half of a pair that ended the last piece.
        self._half = ""

    def feed(self, piece: str) -> str:
        """The text that is whole now; may be empty."""
        piece = self._half + piece
        self._half = ""
        if _HIGH.search(piece):
            self._half = piece[-1]
            piece = piece[:-1]
        if _ANY.search(piece):
            piece = piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return piece

    def end(self) -> str:
        """What is left when no more comes."""
        half, self._half = self._half, ""
        return "\ufffd" if half else ""
