"""What has ended is freed by its last reference: a log is megabytes, and the collector is rare."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.app.world import Paused, ScriptedModel, fails, says, world


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("how", ["finished", "failed", "cancelled"])
async def test_an_ended_turn_is_freed_with_its_log(
    tmp_path: Path, autojump_clock: MockClock, no_collector: None, how: str
) -> None:
    script = {
        "finished": says("some", "text"),
        "failed": fails("some", retryable=False),
        "cancelled": Paused("some"),
    }[how]
    async with world(tmp_path / "unbroken.db", ScriptedModel(script)) as w:
        accepted = await w.send()
        turns, stream = w.services.turns, accepted.turn.stream_id
        live = turns.live(accepted.turn.id)
        assert live is not None
        turn, log = weakref.ref(live), weakref.ref(live.tail)
        del live
        if how == "cancelled":
            await script.reached.wait()
            await turns.cancel(stream)
        seen = await w.read(stream)
        assert seen.outcome.outcome == how
        await wait_all_tasks_blocked()
        assert (turn(), log()) == (None, None)
