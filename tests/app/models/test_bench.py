"""The benchmark model keeps the load generator's payload contract."""

import time

import pytest
import trio

from app.models import ModelError
from app.models.bench import Bench
from tests.app.models.conftest import ask
from tests.app.models.recorder import Recorder


async def test_markers_sizes_and_count(sink: Recorder) -> None:
    before = time.time_ns() // 1000
    completion = await Bench().respond(ask("m=50 rate=0 size=40 at=0 tail=0"), sink)
    after = time.time_ns() // 1000
    deltas = sink.text_deltas
    assert [len(delta.encode()) for delta in deltas] == [40] * 50
    assert [delta[:8] for delta in deltas] == [f"~{seq:06d}~"[:7] + ":" for seq in range(50)]
    times = [int(delta[8:24]) for delta in deltas]
    assert all(delta[24] == "~" for delta in deltas)
    assert before <= times[0]
    assert times == sorted(times)
    assert times[-1] <= after
    assert all(delta.isascii() and "~" not in delta[25:] for delta in deltas)
    assert (sink.rooms, completion.finish_reason) == (50, "stop")


async def test_a_size_below_the_marker_is_the_marker_alone(sink: Recorder) -> None:
    await Bench().respond(ask("m=1 size=3"), sink)
    assert len(sink.all_text) == 25


async def test_rate_tail_and_no_stall_meanwhile(
    sink: Recorder, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    await Bench().respond(ask("m=10 rate=2 tail=30000"), sink)
    assert trio.current_time() - began == pytest.approx(9 / 2 + 30)
    assert sink.kinds == ["text", "progress"]
    assert sink.count("progress") == 3


async def test_bursts_come_back_to_back_at_the_same_mean_rate(
    autojump_clock: trio.testing.MockClock,
) -> None:
    moments: list[float] = []

    class Clocked(Recorder):
        def text(self, delta: str) -> None:
            moments.append(trio.current_time())
            super().text(delta)

    began = trio.current_time()
    await Bench().respond(ask("m=12 rate=2 burst=5"), sink := Clocked())
    seconds = [moment - began for moment in moments]
    assert seconds == pytest.approx([0.0] * 5 + [2.5] * 5 + [5.0] * 2)
    assert [delta[1:7] for delta in sink.text_deltas] == [f"{seq:06d}" for seq in range(12)]


@pytest.mark.parametrize("burst", ["burst=0", "burst=5 rate=0"])
async def test_a_burst_of_none_is_one_and_full_speed_has_no_pauses(
    sink: Recorder, burst: str
) -> None:
    await Bench().respond(ask(f"m=10 {burst}"), sink)
    assert len(sink.text_deltas) == 10


async def test_nothing_before_the_given_moment(
    sink: Recorder, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    await Bench().respond(ask(f"m=1 at={time.time() * 1000 + 25_000:.0f}"), sink)
    assert trio.current_time() - began == pytest.approx(25, abs=2)


async def test_at_full_speed_others_get_a_turn_after_every_delta(sink: Recorder) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.lowlevel.checkpoint()
            ticks += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        await Bench().respond(ask("m=200 rate=0"), sink)
        nursery.cancel_scope.cancel()
    assert ticks >= 200


@pytest.mark.parametrize("text", ["m=2000000", "size=5000000", "burst=1001"])
async def test_parameters_out_of_range(sink: Recorder, text: str) -> None:
    with pytest.raises(ModelError) as caught:
        await Bench().respond(ask(text), sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_REQUEST_REFUSED", False)


async def test_other_words_are_passed_over(sink: Recorder) -> None:
    await Bench().respond(ask("please m=3 zoom=7 size=30x rate=0"), sink)
    assert [len(delta) for delta in sink.text_deltas] == [40] * 3
