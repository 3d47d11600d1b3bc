"""How one provider's wire says things: all that the tests of every adapter need to know of it.

A new adapter gets its fault matrix and its tests of exact text by one subclass, added to `WIRES` in
`wires.py`.
"""

import json
from dataclasses import dataclass
from typing import Any

from app.models import Http, Model
from tests.app.models.fake_provider import END, Exchange, Step, head, part


@dataclass(frozen=True)
class Call:
    """A tool call in the answer, its input in fragments."""

    name: str
    fragments: tuple[str, ...]


# A piece of an answer: one delta of text, or a call. Deltas in a row are of one text.
Piece = str | Call


class Wire:
    """One provider. Bytes are of the body, without HTTP's chunking."""

    name: str
    # Content type of a stream.
    kind = "text/event-stream"
    # Whether the provider runs the tools, so that ours have no part in it.
    runs_tools = False

    def model(self, http: Http, url: str) -> Model:
        """The adapter, for a server at `url`, which has no path."""
        raise NotImplementedError

    def frames(self, *pieces: Piece, complete: bool = True) -> list[bytes]:
        """The body of an answer, one frame each.

        Not `complete`: it stops behind the last delta, with the text or the call still open.
        """
        raise NotImplementedError

    def ping(self) -> bytes:
        """A sign of life that is no event of the model."""
        return b": ping\n\n"

    def overloaded(self) -> bytes:
        """The frame that says within a 200 that the provider is overloaded: "Overloaded, sorry"."""
        raise NotImplementedError

    def garbled(self) -> bytes:
        """A frame whose JSON is cut."""
        return b'data: {"type": "mess\n\n'

    def refusal(self, message: str) -> Any:
        """The JSON body of an HTTP error."""
        return {"error": {"message": message}}

    def aside(self, exchange: Exchange) -> list[Step] | None:
        """The answer to a request that is not for a response (a cancel, say); None for others."""
        return None

    # made of these

    def opening(self) -> bytes:
        """The head of a stream."""
        return head(200, self.kind)

    def answer(self, *pieces: Piece) -> list[Step]:
        """The script of a whole answer."""
        return [self.opening(), *map(part, self.frames(*pieces)), END]

    def begun(self, *pieces: Piece) -> list[Step]:
        """The script of an answer that goes no further, and what happens then is to follow."""
        return [self.opening(), *map(part, self.frames(*pieces, complete=False))]


def sse(value: Any, name: str | None = None) -> bytes:
    """One frame of an event stream."""
    event = f"event: {name}\n" if name else ""
    return f"{event}data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
