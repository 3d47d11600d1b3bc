"""Wall-clock deadlines: they hold through a suspended machine and a clock that is set (T3)."""

import gc
import weakref

import pytest
import trio
from trio.testing import MockClock

from app.clock import COMPARE_SECONDS, DRIFT_SECONDS, WallClock, wall_ms
from tests.app.world import Wall

HOUR = 3600.0


@pytest.fixture
def wall() -> Wall:
    return Wall()


async def expired_after(scope: trio.CancelScope) -> float:
    """Trio seconds until the scope cancels what is in it."""
    before = trio.current_time()
    with scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught
    return trio.current_time() - before


@pytest.mark.requirement("T3")
async def test_a_scope_expires_at_its_wall_clock_time(
    autojump_clock: MockClock, wall: Wall
) -> None:
    clock = WallClock(wall)
    assert await expired_after(clock.scope(wall() + 90_000)) == pytest.approx(90)


@pytest.mark.requirement("T3")
async def test_a_scope_that_is_past_its_time_cancels_at_once(
    autojump_clock: MockClock, wall: Wall
) -> None:
    clock = WallClock(wall)
    assert await expired_after(clock.scope(wall() - 1)) == 0


@pytest.mark.requirement("T3")
async def test_no_deadline_never_expires(autojump_clock: MockClock, wall: Wall) -> None:
    clock = WallClock(wall)
    with trio.move_on_after(100 * 24 * HOUR), clock.scope(None) as scope:
        await trio.sleep_forever()
    assert not scope.cancelled_caught


@pytest.mark.requirement("T3")
async def test_time_asleep_counts(autojump_clock: MockClock, wall: Wall) -> None:
    """Trio's clock stood still while the machine slept; the turn's hour is over all the same."""
    clock = WallClock(wall)
    with clock.scope(wall() + round(HOUR * 1000)) as scope:
        wall.ahead += 8 * HOUR
        assert trio.current_time() < scope.deadline
        clock.compare()
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


@pytest.mark.requirement("T3")
async def test_what_is_left_after_a_short_sleep_still_runs(
    autojump_clock: MockClock, wall: Wall
) -> None:
    clock = WallClock(wall)
    scope = clock.scope(wall() + 100_000)
    wall.ahead += 60
    clock.compare()
    assert await expired_after(scope) == pytest.approx(40)


@pytest.mark.requirement("T3")
async def test_a_clock_that_is_set_back_gives_the_time_back(
    autojump_clock: MockClock, wall: Wall
) -> None:
    clock = WallClock(wall)
    scope = clock.scope(wall() + 100_000)
    wall.ahead -= 30
    clock.compare()
    assert await expired_after(scope) == pytest.approx(130)


@pytest.mark.requirement("T3")
async def test_small_adjustments_add_up(autojump_clock: MockClock, wall: Wall) -> None:
    """Less than a second is left alone, but not for ever: drift is measured from the last move."""
    clock = WallClock(wall)
    scope = clock.scope(wall() + 100_000)
    for _ in range(3):
        wall.ahead += DRIFT_SECONDS * 0.4
        clock.compare()
    assert await expired_after(scope) == pytest.approx(100 - 3 * 0.4 * DRIFT_SECONDS)


@pytest.mark.requirement("T3")
@pytest.mark.parametrize("jump", [HOUR, -HOUR, 24 * HOUR, -24 * HOUR])
async def test_a_scope_made_after_a_jump_is_exact(
    autojump_clock: MockClock, wall: Wall, jump: float
) -> None:
    """Made before the keeper noticed that the clock was set, from the new wall time."""
    clock = WallClock(wall)
    other = clock.scope(wall() + 365 * 24 * 3_600_000)
    wall.ahead += jump
    scope = clock.scope(wall() + 10_000)
    assert await expired_after(scope) == pytest.approx(10)
    assert other.deadline == pytest.approx(365 * 24 * HOUR - jump, abs=1)


@pytest.mark.requirement("T3")
async def test_the_keeper_notices_a_sleep_by_itself(
    autojump_clock: MockClock, wall: Wall, nursery: trio.Nursery
) -> None:
    clock = WallClock(wall)
    await nursery.start(clock.serve)
    scope = clock.scope(wall() + round(HOUR * 1000))
    wall.ahead += 2 * HOUR
    assert await expired_after(scope) <= COMPARE_SECONDS
    nursery.cancel_scope.cancel()


async def test_a_scope_nobody_has_is_not_kept(autojump_clock: MockClock, wall: Wall) -> None:
    """A server that ran a million turns does not move a million deadlines."""
    clock = WallClock(wall)
    gone = weakref.ref(clock.scope(wall() + 1000))
    gc.collect()
    assert gone() is None
    wall.ahead += HOUR
    clock.compare()


def test_the_wall_is_the_systems_clock() -> None:
    import time

    assert abs(wall_ms() / 1000 - time.time()) < 60
