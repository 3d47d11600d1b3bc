"""The name of an exported file: the title, as every file system takes it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.export import NAME_BYTES, UNTITLED, file_name


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("What is a log?", "What is a log"),
        ("日本語のタイトル", "日本語のタイトル"),
        ("e\u0301te\u0301", "été"),
        ("👩‍🚀 in space", "👩‍🚀 in space"),
        ('a/b\\c:d*e?f"g<h>i|j', "a b c d e f g h i j"),
        ("../../etc/passwd", "etc passwd"),
        ("~/.ssh", "~ .ssh"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("- - x", "x"),
        ("the end...", "the end"),
        ("two\n lines\tand\x00more", "two lines and more"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("con", "_con"),
        ("COM1.txt", "_COM1.txt"),
        ("console", "console"),
        ("", UNTITLED),
        (" ... ", UNTITLED),
        ("\u200d", UNTITLED),
        ("???", UNTITLED),
        ("100% sure", "100% sure"),
    ],
)
def test_a_title_becomes_a_name(title: str, name: str) -> None:
    assert file_name(title) == name


@pytest.mark.parametrize("title", ["x" * 999, "é" * 999, "👩‍🚀" * 99, "a " * 500])
def test_a_long_title_is_cut_between_characters(title: str) -> None:
    name = file_name(title)
    assert NAME_BYTES - 8 <= len(name.encode()) <= NAME_BYTES
    assert title.startswith(name)
    assert not name.endswith((" ", "\u200d"))


@given(st.text(max_size=300))
def test_whatever_the_title_the_name_is_one(title: str) -> None:
    name = file_name(title)
    assert name == name.strip()
    assert 0 < len(name.encode()) <= NAME_BYTES + 1
    assert not set(name) & set('<>:"/\\|?*')
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in name)
    assert name[0] not in "-."
    assert name[-1] not in ". "
