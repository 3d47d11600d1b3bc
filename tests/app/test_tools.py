"""Tools by name, the built-in one, and what of their results can be kept."""

import json
import math
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from app.tools import Toolbox, ToolError, Wait
from app.turns.plain import DEPTH_LIMIT, plain, whole
from tests.app.world import Probe

# The box


def test_tools_are_found_by_name() -> None:
    first, second = Probe("first"), Probe("second")
    box = Toolbox([first, second])
    assert box.get("second") is second
    assert box.get("third") is None
    assert Toolbox().get("first") is None


def test_a_model_is_offered_what_is_for_its_provider() -> None:
    """In a stable order, so that requests stay the same byte for byte."""
    tools = [Probe(name) for name in ("c", "a", "b")]
    tools[1].providers = frozenset({"demo", "other"})
    box = Toolbox(tools)
    assert [spec.name for spec in box.specs("demo")] == ["c", "a", "b"]
    assert [spec.name for spec in box.specs("chat_completions")] == ["c", "b"]


# Wait


async def test_wait_waits(autojump_clock: MockClock) -> None:
    assert await Wait().run({"seconds": 2.5}) == {"waited": 2.5}
    assert trio.current_time() == 2.5


@pytest.mark.parametrize(
    "arguments",
    [None, [], "3", {}, {"seconds": "3"}, {"seconds": -1}, {"seconds": 1e9}, {"seconds": True}],
)
async def test_wait_says_what_it_needs(arguments: Any) -> None:
    with pytest.raises(ToolError, match="seconds"):
        await Wait().run(arguments)


async def test_wait_can_be_cancelled(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1) as scope:
        await Wait().run({"seconds": 1000})
    assert scope.cancelled_caught


# What can be kept

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
HALVES = st.lists(st.text(st.sampled_from("a\ud83d\ude00\udfff\u00e9"), max_size=4))


@given(JSON)
def test_json_stays_what_it_is(value: Any) -> None:
    value = json.loads(json.dumps(value))  # infinities are none
    if "Infinity" not in json.dumps(value):
        assert plain(value) == value


@given(JSON)
def test_a_plain_value_is_a_copy(value: Any) -> None:
    result = plain([value])
    result.append("mine")
    assert plain([value]) == result[:1]


@given(HALVES)
def test_half_surrogates_do_not_break_a_value(texts: list[str]) -> None:
    value = {"key": texts, "deep": [{text: text} for text in texts]}
    result = plain(value)
    msgspec.json.encode(result)
    assert result["key"] == [whole(text) for text in texts]


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ((1, 2), [1, 2]),
        ({1: "x"}, {"1": "x"}),
        (math.nan, None),
        (2**80, 2**80),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83d", "\ufffd"),
    ],
)
def test_near_misses_become_json(value: Any, result: Any) -> None:
    assert plain(value) == result


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


class Circle(list[Any]):
    """Contains itself."""

    def __init__(self) -> None:
        super().__init__()
        self.append(self)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        [object()],
        {(1, 2): 3},
        ValueError("x"),
        nested(DEPTH_LIMIT + 1),
        nested(2000),
        nested(100_000),
        Circle(),
        ["\ud83d", object()],
        ["\ud83d", nested(100_000)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_refused_in_words(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^is (not JSON|nested deeper than 100 levels)"):
        plain(value)


def test_as_deep_as_is_allowed() -> None:
    value = nested(DEPTH_LIMIT)
    assert plain(value) == value


@given(st.text())
def test_whole_text_is_left_alone(text: str) -> None:
    assert whole(text) == text


@given(st.text(st.sampled_from("ab\ud83d\ude00\ud800\udfff\U0001f600")))
def test_any_text_becomes_one_that_can_be_encoded(text: str) -> None:
    result = whole(text)
    assert whole(result) == result
    assert result.encode().decode() == result
    assert [c for c in result if c in "ab"] == [c for c in text if c in "ab"]
