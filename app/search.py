"""Search over all threads: what a hit shows."""

import json

import msgspec

from app.message import text_of
from store import search
from store.database import Database

WORDS = 10  # of a query; more are ignored
BEFORE_CHARS = 40
SNIPPET_CHARS = 200


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
    hits = await database.read(lambda c: search.find(c, words, limit))
    return [
        HitView(h.thread, h.title, h.message, h.role, h.created_at, snippet(h.parts, words))
        for h in hits
    ]


def snippet(parts: bytes, words: list[str]) -> list[Piece]:
    """Text around the first word that is found, cut into pieces that are hits and that are not."""
    text = text_of(json.loads(parts))
    found = _spans(text, words)
    start = max(0, (found[0][0] if found else 0) - BEFORE_CHARS)
    end = min(len(text), start + SNIPPET_CHARS)
    pieces = [Piece("…")] if start else []
    at = start
    for left, right in found:
        if left < at or right > end:
            continue
        pieces += [Piece(text[at:left]), Piece(text[left:right], hit=True)]
        at = right
    pieces.append(Piece(text[at:end] + ("…" if end < len(text) else "")))
    return [piece for piece in pieces if piece.text]


def _spans(text: str, words: list[str]) -> list[tuple[int, int]]:
    """Where the words are in the text, in its own characters, in order."""
    plain, origin = [], []
    for index, char in enumerate(text):
        folded = search.plain(char)
        plain.append(folded)
        origin += [index] * len(folded)
    haystack = "".join(plain)
    found = set()
    for word in map(search.plain, words):
        at = haystack.find(word) if word else -1
        while at >= 0:
            found.add((origin[at], origin[at + len(word) - 1] + 1))
            at = haystack.find(word, at + len(word))
    return sorted(found)
