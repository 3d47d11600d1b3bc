"""What providers do to a request, and what has to become of it, whatever wire they speak."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.app.models.fake_provider import (
    END,
    FIN,
    HANG,
    RST,
    Repeat,
    Step,
    head,
    part,
    reply,
)
from tests.app.models.wire import Call, Wire

# Of the limits as configured by default.
HEADER_SECONDS = 300.0
CHUNK_SECONDS = 120.0

STALLED = "The model stopped responding."
HALF_CALL = Call("look", ('{"where": ', '"under the be'))


@dataclass(frozen=True)
class Case:
    """A fault of one response.

    Args:
        play: the script of the provider.
        said: in the sentence for the person.
        shown: the text that arrived before.
        seconds: from the request to the verdict, by Trio's clock.
    """

    name: str
    play: Callable[[Wire], list[Step]]
    code: str
    retryable: bool
    said: str
    shown: str = ""
    seconds: float = 0.0


def _stall(name: str, play: Callable[[Wire], list[Step]], seconds: float, shown: str = "") -> Case:
    return Case(name, play, "MODEL_STALLED", True, STALLED, shown, seconds)


def _status(status: int, code: str, *, retryable: bool) -> Case:
    def play(wire: Wire) -> list[Step]:
        return reply(status, wire.refusal("Said by the provider"))

    said = f"(HTTP {status}): Said by the provider."
    return Case(str(status), play, code, retryable, said)


def _cut_frame(wire: Wire) -> list[Step]:
    """A clean end of the body in the middle of a frame."""
    *whole, last = wire.frames("half ", "and more", complete=False)
    return [wire.opening(), *map(part, whole), part(last[: len(last) // 2]), END]


def _pings(wire: Wire) -> Step:
    return Repeat(part(wire.ping()), 20.0)


CASES = [
    # silence
    _stall("no headers", lambda wire: [HANG], HEADER_SECONDS),
    _stall("headers, then silence", lambda wire: [wire.opening(), HANG], HEADER_SECONDS),
    _stall("silence in the text", lambda w: [*w.begun("half "), HANG], CHUNK_SECONDS, "half "),
    _stall("silence in a tool's input", lambda w: [*w.begun(HALF_CALL), HANG], CHUNK_SECONDS),
    _stall("pings for ever", lambda w: [w.opening(), _pings(w)], HEADER_SECONDS),
    _stall(
        "pings for ever in the text",
        lambda wire: [*wire.begun("half "), _pings(wire)],
        CHUNK_SECONDS,
        "half ",
    ),
    # a connection that ends
    Case("FIN before headers", lambda w: [FIN], "MODEL_UNREACHABLE", True, "could not be reached"),
    Case("RST before headers", lambda w: [RST], "MODEL_UNREACHABLE", True, "could not be reached"),
    Case(
        "FIN in the text", lambda w: [*w.begun("half "), FIN],
        "MODEL_EOF", True, "broke off the answer", "half ",
    ),
    Case(
        "RST in the text", lambda w: [*w.begun("half "), RST],
        "MODEL_EOF", True, "broke off the answer", "half ",
    ),
    Case(
        "FIN in a tool's input", lambda w: [*w.begun(HALF_CALL), FIN],
        "MODEL_EOF", True, "broke off the answer",
    ),
    Case(
        "a clean end in the text", lambda w: [*w.begun("half "), END],
        "MODEL_EOF", True, "ended the answer before it was complete.", "half ",
    ),
    Case(
        "a clean end in a tool's input", lambda w: [*w.begun(HALF_CALL), END],
        "MODEL_EOF", True, "ended the answer before it was complete.",
    ),
    Case(
        "a clean end in a frame", _cut_frame,
        "MODEL_EOF", True, "ended the answer before it was complete.", "half ",
    ),
    # what is said instead of an answer
    _status(400, "MODEL_REQUEST_REFUSED", retryable=False),
    _status(401, "MODEL_UNAUTHORIZED", retryable=False),
    _status(408, "MODEL_ERROR", retryable=True),
    _status(409, "MODEL_ERROR", retryable=True),
    _status(413, "CONTEXT_TOO_LONG", retryable=False),
    _status(429, "MODEL_RATE_LIMITED", retryable=True),
    _status(500, "MODEL_ERROR", retryable=True),
    _status(503, "MODEL_OVERLOADED", retryable=True),
    _status(529, "MODEL_OVERLOADED", retryable=True),
    Case(
        "an error in a 200", lambda w: [*w.begun("half "), part(w.overloaded()), END],
        "MODEL_OVERLOADED", True, "is overloaded: Overloaded, sorry.", "half ",
    ),
    Case(
        "HTML in a 200", lambda w: [head(200, "text/html"), part(b"<html>Sign in</html>"), END],
        "MODEL_PROTOCOL", False, "answered with a web page: check base_url.",
    ),
    Case(
        "invalid JSON", lambda w: [*w.begun("half "), part(w.garbled()), END],
        "MODEL_PROTOCOL", True, "sent a frame that is not valid JSON.", "half ",
    ),
]  # fmt: skip
