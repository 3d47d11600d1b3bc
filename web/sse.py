"""The text of the wire: cursors, comments, frames. Pure (web/PROTOCOL.md, "Frames")."""

import re

import msgspec

from app.errors import InvalidError

# The browser's EventSource waits so long before it reconnects by itself.
RETRY_MS = 1000
OPEN = b": open\nretry: %d\n\n" % RETRY_MS
DRAINING = b": draining\n\n"

# [0-9]: \d would take the digits of every script.
CURSOR = re.compile(r"([A-Za-z0-9_-]{22,64}):([0-9]{1,15})")


def parse_cursor(text: str) -> tuple[str, int]:
    """`<stream>:<seq>` as (stream id, seq). Raises InvalidError (CURSOR_INVALID)."""
    match = CURSOR.fullmatch(text)
    if match is None:
        raise InvalidError("A cursor is written <stream>:<seq>", code="CURSOR_INVALID")
    return match[1], int(match[2])


def beat(seq: int) -> bytes:
    """The heartbeat: a comment without id, with the seq the reader has reached."""
    return b": %d\n\n" % seq


def gap(thread: str) -> bytes:
    """A frame without id: what follows the cursor is not kept any more (L6)."""
    event = {"type": "error", "code": "STREAM_RESUME_GAP", "thread": thread}
    return b"data: %b\n\n" % msgspec.json.encode(event)


def split_frames(frames: bytes) -> list[tuple[str | None, bytes]]:
    """Stored frames as (id, JSON text); the id is None for a frame that has none."""
    found: list[tuple[str | None, bytes]] = []
    for frame in frames.split(b"\n\n")[:-1]:
        # The first one: a text may well contain "data: ", an id cannot.
        head, _, data = frame.partition(b"data: ")
        id_ = head.removeprefix(b"id: ").rstrip(b"\n").decode() if head else None
        found.append((id_, data))
    return found
