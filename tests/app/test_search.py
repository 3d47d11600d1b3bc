"""What a hit shows, and that a search of long texts does not hold up the event loop."""

import json
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app import search as module
from app.search import BEFORE_CHARS, SNIPPET_CHARS, Piece, search_messages, snippet
from store.database import Connection, open_database
from store.plain import plain
from store.search import put
from tests.store.rows import add_message, add_thread

LONG = 1_000_000
ODD = "abAB \u0301\u0327éﬁﬃﷺß漢字한𝔘\U0001e944🎈"


def parts(text: str) -> bytes:
    return json.dumps([{"type": "text", "text": text}]).encode()


def defined(text: str, words: list[str]) -> list[Piece]:
    """The definition: the text is made plain as a whole, character by character."""
    folded = [plain(char) for char in text]
    origin = [index for index, chars in enumerate(folded) for _ in chars]
    haystack = "".join(folded)
    spans = set()
    for word in filter(None, map(plain, words)):
        at = haystack.find(word)
        while at >= 0:
            spans.add((origin[at], origin[at + len(word) - 1] + 1))
            at = haystack.find(word, at + len(word))
    found = sorted(spans)
    at = start = max(0, (found[0][0] if found else 0) - BEFORE_CHARS)
    end = min(len(text), start + SNIPPET_CHARS)
    pieces = [Piece("…")] if start else []
    for left, right in found:
        if left >= at and right <= end:
            pieces += [Piece(text[at:left]), Piece(text[left:right], hit=True)]
            at = right
    pieces.append(Piece(text[at:end] + ("…" if end < len(text) else "")))
    return [piece for piece in pieces if piece.text]


words = st.lists(st.text(alphabet=ODD.replace(" ", ""), min_size=1, max_size=6), max_size=3)


@given(
    st.text(alphabet=ODD, max_size=60),
    st.integers(0, 300),
    st.text(alphabet=ODD, max_size=300),
    words,
    st.integers(1, 20),
)
@example("", 0, "xab" * 9, ["abxabxabx", "bx"], 2)  # a long word begins first, a short one ends
@example("\u0301" * 9, 0, "\u0301ﬃ\u0301", ["i"], 3)  # windows of which nothing is left
def test_a_snippet_is_as_defined_wherever_the_windows_end(
    before: str, gap: int, after: str, words: list[str], window: int
) -> None:
    text = before + "-" * gap + after
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHARS", window)
        assert snippet(parts(text), words) == defined(text, words)


@pytest.mark.parametrize(
    ("text", "query", "hit"),
    [
        ("The quick Fox", "fOX", "Fox"),
        ("Crème brûlée", "BRULEE", "brûlée"),
        ("bru\u0302le\u0301e", "brulee", "bru\u0302le\u0301e"),
        ("an eﬃcient one", "ffic", "ﬃc"),
        ("これは漢字です", "漢字", "漢字"),
        ("한국어", "한국", "한국"),
        ("Straße", "STRASSE", "Straße"),
    ],
)
@pytest.mark.parametrize("far", ["", "é" * 50_000, "\u0301" * 50_000, "-" * 50_000, "ﷺ" * 20_000])
def test_a_hit_is_marked_in_its_own_characters(far: str, text: str, query: str, hit: str) -> None:
    pieces = snippet(parts(f"{far} {text}"), [query])
    assert [piece.text for piece in pieces if piece.hit] == [hit]
    assert sum(len(piece.text) for piece in pieces) <= SNIPPET_CHARS + 2


@pytest.mark.parametrize("filling", ["lorem ipsum ", "brûlée ", "漢字 "])
@pytest.mark.parametrize("found", ["first", "last", "never"])
def test_a_long_text_is_made_plain_in_few_calls(
    monkeypatch: pytest.MonkeyPatch, filling: str, found: str
) -> None:
    sizes: list[int] = []

    def counted(text: str) -> str:
        sizes.append(len(text))
        return plain(text)

    monkeypatch.setattr(module, "plain", counted)
    text = filling * (LONG // len(filling))
    text = {"first": f"Needle {text}", "last": f"{text} needle", "never": text}[found]
    assert any(piece.hit for piece in snippet(parts(text), ["needle"])) == (found != "never")
    assert len(sizes) < 500
    assert sum(sizes) < (LONG / 10 if found == "first" else 1.1 * LONG)


async def test_snippets_are_made_on_the_thread_that_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def seen(parts: bytes, words: list[str]) -> list[Piece]:
        threads.append(threading.get_ident())
        return snippet(parts, words)

    def write(connection: Connection) -> None:
        add_thread(connection)
        put(connection, add_message(connection, "message-1"), "some words")

    monkeypatch.setattr(module, "snippet", seen)
    async with open_database(tmp_path / "u.db") as database:
        await database.write(write)
        assert len(await search_messages(database, "word", 20)) == 1
    assert threads
    assert threading.get_ident() not in threads
