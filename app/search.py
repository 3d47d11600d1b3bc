"""Search over all threads: what a hit shows."""

import json
import time

import msgspec

from app.message import text_of
from store import search
from store.database import Connection, Database
from store.plain import CHARS, plain

WORDS = 10  # of a query; more are ignored
BEFORE_CHARS = 40
SNIPPET_CHARS = 200
# After each window of a text that is not ASCII: time for the event loop to wake up and take the
# interpreter's lock. Without it the loop got the lock back after up to 5 ms, and anew for each of
# the many system calls of one request: a search of 18 MB silenced a stream for 0.3 s, now 0.05.
GIVE_WAY_SECONDS = 1e-6


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    hit: bool = False


class HitView(msgspec.Struct, frozen=True):
    """`at`: ms since 1970. `snippet`: text around the first word found, hits marked."""

    thread: str
    title: str
    message: str
    role: str
    at: int
    snippet: list[Piece]


async def search_messages(database: Database, query: str, limit: int) -> list[HitView]:
    """Messages that contain every word of the query, newest first; none for an empty query."""
    # SQLite's own search ends a word at NUL, in the middle of a quotation.
    words = query.replace("\0", " ").split()[:WORDS]
    if not words:
        return []

    def read(connection: Connection) -> list[HitView]:
        # Snippets too: the texts may be long, and the event loop has answers to deliver.
        return [
            HitView(h.thread, h.title, h.message, h.role, h.created_at, snippet(h.parts, words))
            for h in search.find(connection, words, limit)
        ]

    return await database.read(read)


def snippet(parts: bytes, words: list[str]) -> list[Piece]:
    """Text around the first word that is found, cut into pieces that are hits and that are not."""
    text = text_of(json.loads(parts))
    wanted = [folded for word in words if (folded := plain(word))]
    first = _first(text, wanted)
    start = max(0, (first or 0) - BEFORE_CHARS)
    end = min(len(text), start + SNIPPET_CHARS)
    found = [] if first is None else _spans(text, first, end, wanted)
    pieces = [Piece("…")] if start else []
    at = start
    for left, right in found:
        if left < at:
            continue
        pieces += [Piece(text[at:left]), Piece(text[left:right], hit=True)]
        at = right
    pieces.append(Piece(text[at:end] + ("…" if end < len(text) else "")))
    return [piece for piece in pieces if piece.text]


def _first(text: str, wanted: list[str]) -> int | None:
    """Where in the text, in its own characters, the first of the plain words begins.

    Makes the text plain window by window and no further than needed.
    """
    if not wanted:
        return None
    longest = max(map(len, wanted))
    # Plain text from `offset` on (counted in plain characters), and where each window of it begins.
    haystack, offset = "", 0
    windows: list[tuple[int, int]] = []  # in the plain text and in the text
    for begin in range(0, len(text), CHARS):
        windows.append((offset + len(haystack), begin))
        window = text[begin : begin + CHARS]
        haystack += plain(window)
        if not window.isascii():
            time.sleep(GIVE_WAY_SECONDS)
        places = [at for word in wanted if (at := haystack.find(word)) >= 0]
        # A longer word may begin earlier and end in the next window.
        last = begin + CHARS >= len(text)
        if places and (last or min(places) + longest <= len(haystack)):
            return _origin(text, windows, offset + min(places))
        keep = min([max(0, len(haystack) - longest + 1), *places])
        haystack, offset = haystack[keep:], offset + keep
    return None


def _origin(text: str, windows: list[tuple[int, int]], at: int) -> int:
    """Index of the character of the text that the plain text's character at `at` comes from."""
    base, left = max(window for window in windows if window[0] <= at)
    right = min(len(text), left + CHARS)
    while right - left > 1:  # halves: plain() of all of it in one call, not of each character
        middle = (left + right) // 2
        size = len(plain(text[left:middle]))
        if base + size > at:
            right = middle
        else:
            base, left = base + size, middle
    return left


def _spans(text: str, start: int, end: int, wanted: list[str]) -> list[tuple[int, int]]:
    """Where the plain words are between two places of the text, in its characters, in order."""
    folded = [plain(char) for char in text[start:end]]
    origin = [index for index, chars in enumerate(folded, start) for _ in chars]
    haystack = "".join(folded)
    found = set()
    for word in wanted:
        at = haystack.find(word)
        while at >= 0:
            found.add((origin[at], origin[at + len(word) - 1] + 1))
            at = haystack.find(word, at + len(word))
    return sorted(found)
