"""What a text is to the search: as by its definition, and without a loop over its characters."""

import sys
import unicodedata
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import plain as module
from store.plain import plain

# Letters, marks below and above 16 bits, ligatures, ideographs, Hangul, emoji, what grows.
ODD = "aAÉé\u0301\u0327\u0345ßﬁﬃİıΣςẞ漢ガｶﾞ한ﷺ🎈𝔘\U0001d165\U0001e944\U0001e94a\U00010a0f \0"
texts = st.one_of(st.text(), st.text(alphabet=ODD), st.text(alphabet="aB c\u0301"))


def defined(words: str) -> str:
    """The definition."""
    decomposed = unicodedata.normalize("NFKD", words.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def test_every_character_is_as_defined() -> None:
    apart = {
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if plain(chr(code)) != defined(chr(code))
    }
    assert not apart


@given(texts)
def test_every_text_is_as_defined(words: str) -> None:
    assert plain(words) == defined(words)


@given(texts)
def test_a_long_text_is_as_defined_wherever_it_is_cut(words: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHARS", 3)
        assert plain(words) == defined(words)


@pytest.mark.parametrize(
    "words", ["Plain words ", "Crème brûlée ", "漢字かな ", "a\u0301\U0001e944🎈"]
)
def test_no_function_is_called_for_each_character(words: str) -> None:
    calls: Counter[str] = Counter()

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        calls[event] += 1

    long = words * (200_000 // len(words))
    plain(words)  # what is made once
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = plain(long)
    finally:
        sys.setprofile(before)
    assert found == defined(long)
    assert calls.total() < 1_000
