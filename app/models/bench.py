"""The model that benchmarks use: deltas that say when they were made. Not for people.

The person's text holds the parameters: `m=20000 rate=0 burst=1 size=40 at=0 tail=0` makes `m`
deltas of `size` bytes at `rate` a second (0: as fast as it can, one checkpoint per delta), `burst`
of them back to back and then a pause that keeps the rate, the first not before wall-clock
millisecond `at`, and ends `tail` milliseconds after the last. Each delta starts with
`~SEQ:MICROS~`: six digits counted from 0, sixteen digits of wall-clock microseconds.
"""

import re
import time

import trio

from app.events import Usage
from app.models.errors import ModelError
from app.models.interface import Completion, ModelRequest, Sink, UserEntry

MARKER_BYTES = 25
DEFAULTS = {"m": 100, "rate": 0.0, "burst": 1, "size": 40, "at": 0, "tail": 0}
# Six digits of sequence; 4 MB is more than any reader's frame limit that is worth measuring.
LIMITS = {
    "m": 1_000_000,
    "rate": 1e6,
    "burst": 1000,
    "size": 4_000_000,
    "at": 1e14,
    "tail": 86_400_000,
}
# A quiet stretch that was asked for is no stall: the sink hears of us this often.
SIGN_OF_LIFE_SECONDS = 10.0

_PARAMETER = re.compile(r"\b(m|rate|burst|size|at|tail)=(\d+(?:\.\d+)?)(?!\S)")
# ASCII, no "~", with spaces so that pages can wrap it.
_FILLER = "all work and no play makes a benchmark dull. "


class Bench:
    """Implements Model."""

    provider = "bench"
    model = "bench"

    def __init__(self) -> None:
        self.name = "bench"

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """Make the deltas asked for. Raises ModelError for parameters out of range."""
        p = parameters(request)
        m, rate, burst = int(p["m"]), p["rate"], max(1, int(p["burst"]))
        filler = _filler(int(p["size"]) - MARKER_BYTES)
        await _wait(trio.current_time() + p["at"] / 1000 - time.time(), sink)
        began = trio.current_time()
        for seq in range(m):
            if not rate:
                await trio.lowlevel.checkpoint()
            elif seq % burst == 0:
                # An absolute schedule: a late delta does not delay those after it.
                await trio.sleep_until(began + seq / rate)
            sink.text(f"~{seq:06d}:{time.time_ns() // 1000:016d}~{filler}")
            await sink.room()
        await _wait(trio.current_time() + p["tail"] / 1000, sink)
        return Completion("stop", Usage(input_tokens=0, output_tokens=m))


async def _wait(until: float, sink: Sink) -> None:
    """Sleep to the moment `until` of the Trio clock."""
    while (left := until - trio.current_time()) > 0:
        await trio.sleep(min(left, SIGN_OF_LIFE_SECONDS))
        sink.progress()


def parameters(request: ModelRequest) -> dict[str, float]:
    """The parameters in the last message of the person; what is not there has its default.

    Raises ModelError where one is out of range.
    """
    texts = [entry.text for entry in request.entries if isinstance(entry, UserEntry)]
    found: dict[str, float] = dict(DEFAULTS)
    for name, value in _PARAMETER.findall(texts[-1] if texts else ""):
        found[name] = float(value)
        if found[name] > LIMITS[name]:
            text = f"The benchmark parameter {name} may be {LIMITS[name]:.0f} at most."
            raise ModelError(text, code="MODEL_REQUEST_REFUSED", retryable=False)
    return found


def _filler(length: int) -> str:
    return (_FILLER * (length // len(_FILLER) + 1))[: max(0, length)]
