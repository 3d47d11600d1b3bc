"""Text that comes in pieces of JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models import ModelError
from app.models.json_text import Joiner, decode


def units(text: str) -> list[str]:
    """The text as UTF-16 code units, surrogates alone."""
    data = text.encode("utf-16-le")
    return [chr(int.from_bytes(data[n : n + 2], "little")) for n in range(0, len(data), 2)]


def join(pieces: list[str]) -> str:
    joiner = Joiner()
    return "".join(joiner.feed(piece) for piece in pieces) + joiner.end()


@pytest.mark.requirement("M3")
@given(st.text(), st.data())
def test_any_cut_between_utf16_units_gives_the_same_text(text: str, data: st.DataObject) -> None:
    pieces = [""]
    for unit in units(text):
        if data.draw(st.booleans()):
            pieces.append("")
        pieces[-1] += unit
    assert join(pieces) == text


def test_halves_without_their_other_half_are_replaced() -> None:
    assert join(["a\ud83d", "b"]) == "a\ufffdb"
    assert join(["\ude00", "c\ud83d"]) == "\ufffdc\ufffd"
    assert join(["\ud83d\n", "\ude00"]) == "\ufffd\n\ufffd"


def test_lone_halves_and_nan_decode() -> None:
    assert decode(b'{"a": "\\ud83d", "b": 1}', who="x") == {"a": "\ud83d", "b": 1}
    assert decode(b'{"logprob": NaN}', who="x")["logprob"] != 0


@pytest.mark.parametrize("data", [b"", b"{", b"{}}", b'{"a": "\xff"}', b"[" * 100_000])
def test_what_is_no_json_is_a_retryable_error(data: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        decode(data, who="x")
    assert (caught.value.code, caught.value.retryable) == ("MODEL_PROTOCOL", True)


@given(st.recursive(st.none() | st.integers(-9, 9) | st.text(), st.lists))
def test_json_of_either_style_decodes_alike(value: object) -> None:
    for ascii_only in (True, False):
        assert decode(json.dumps(value, ensure_ascii=ascii_only).encode(), who="x") == value
