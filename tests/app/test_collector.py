"""The collector rests while the program starts; then it leaves alone what is there for good."""

import gc
from collections.abc import Iterator

import pytest

from app.collector import YOUNGEST, at_rest


@pytest.fixture(autouse=True)
def python_s_own_settings() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


def test_what_is_there_at_the_start_is_never_looked_at_again() -> None:
    loaded = [[] for _ in range(100)]
    with at_rest() as has_started:
        assert not gc.isenabled()
        has_started()
        assert gc.isenabled()
        assert gc.get_threshold()[0] == YOUNGEST
        assert gc.get_freeze_count() > len(loaded)
        assert not any(one is loaded for one in gc.get_objects())


def test_a_start_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(OSError, match="the address is taken"), at_rest():
        raise OSError("the address is taken")
    assert gc.isenabled()


def test_garbage_of_a_running_program_is_collected() -> None:
    class Node:
        pass

    with at_rest() as has_started:
        has_started()
        collected = gc.get_stats()[0]["collected"]
        kept = []
        for _ in range(2 * YOUNGEST):
            node = Node()
            node.itself = node
            kept.append([])
        assert gc.get_stats()[0]["collected"] > collected
