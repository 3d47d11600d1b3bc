"""Readers: nothing lost, nothing twice, whatever the order of commits, waits, cuts and ends."""

import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app import events as ev
from app import housekeeping
from app import journal as journal_module
from app import tail as tail_module
from app.clock import WallClock
from app.errors import InvalidError, NotFoundError
from app.housekeeping import STREAMS_AT_ONCE, UNUSED_MS, Housekeeping
from app.journal import Stored, cut
from app.tail import KEEP_FRAMES, Tail
from store import search, threads, turns
from store.database import Connection
from store.errors import StoreUnavailableError
from tests.app.logs import (
    HEARTBEAT_SECONDS,
    OUTCOME,
    Logs,
    events,
    failing,
    fold,
    ids,
    logs,
    read_on,
    split,
)
from tests.store.rows import NOW, add_message, add_stream, frames, segment

T = TypeVar("T")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


# every order of commits and waits


class Follower:
    """A client: reads, loses its connection now and then, and resumes after its last id."""

    def __init__(self, world: Logs, stream: str, rng: random.Random) -> None:
        self.seen = b""
        self._world = world
        self._stream = stream
        self._rng = rng

    async def follow(self) -> None:
        """Until there is no more, over as many connections as it takes."""
        while True:
            cursor = ids(self.seen[self.seen.rindex(b"id: ") :])[-1] if self.seen else None
            reader = await self._world.journal.locate(self._stream, cursor)
            for _ in range(self._rng.choice([1, 3, 1_000])):
                item = await reader.next()
                if isinstance(item, bytes):
                    self.seen += item
                elif item == "end":
                    return


async def write(world: Logs, tail: Tail, rng: random.Random) -> list[Tail]:
    """A turn's life: appends, now and then a wait for the commit, sometimes another life."""
    lives = [tail]
    for number in range(rng.randint(0, 12)):
        for _ in range(rng.choice([1, 1, 2, 5])):
            if rng.random() < 0.5:
                lives[-1].append(ev.TextDelta("p1", f"{number} "))
            else:
                lives[-1].append(ev.ToolInputDelta(f"call{number}", f"{number} "))
        if rng.random() < 0.4:
            await world.commit()
        await hop(rng)
        if rng.random() < 0.04:
            await world.commit()
            lives.append(await world.supersede(lives[-1]))
    job = world.end(lives[-1])
    if rng.random() < 0.5:
        await job.wait()
    return lives


async def hop(rng: random.Random) -> None:
    for _ in range(rng.choice([0, 0, 1, 2, 5])):
        await trio.lowlevel.checkpoint()


def with_hops(world: Logs, rng: random.Random) -> None:
    """Let others run before and after each read, as they do where a thread does it."""

    async def read(function: Callable[[Connection], T]) -> T:
        await hop(rng)
        result = world.database._read(function)
        await hop(rng)
        return result

    world.database.read = read  # type: ignore[method-assign]


@pytest.mark.requirement("L2", "L3", "L5", "R3")
@pytest.mark.parametrize("keep", [2, KEEP_FRAMES], ids=["from store", "from memory"])
async def test_thousand_interleavings_lose_nothing_and_repeat_nothing(
    autojump_clock: MockClock, path: Path, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case P13, with readers that come late, drop, resume, fall behind and are led on."""
    monkeypatch.setattr(tail_module, "KEEP_FRAMES", keep)
    monkeypatch.setattr(journal_module, "PIECE_BYTES", 200 if keep == 2 else 256 * 1024)
    lengths = []
    async with logs(path) as world:
        for seed in range(1_000):
            rng = random.Random(seed)
            with_hops(world, rng)
            tail = await world.open()
            lives: list[Tail] = []
            followers = [Follower(world, tail.id, rng) for _ in range(rng.randint(1, 3))]

            async def be_writer(tail: Tail, lives: list[Tail], rng: random.Random) -> None:
                lives += await write(world, tail, rng)

            async def be_reader(follower: Follower, rng: random.Random) -> None:
                await hop(rng)
                await follower.follow()

            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(be_writer, tail, lives, rng)
                    for follower in followers:
                        nursery.start_soon(be_reader, follower, rng)
            whole = b"".join([await world.stored(life) for life in lives])
            expected = [(life.id, n) for life in lives for n in range(1, count(whole, life) + 1)]
            assert ids(whole) == expected, f"seed {seed}"
            for follower in followers:
                assert follower.seen == whole, f"seed {seed}"
            lengths.append(len(lives))
    assert max(lengths) >= 3, "some lives were taken over more than once"


def count(frames: bytes, life: Tail) -> int:
    return sum(stream == life.id for stream, _ in ids(frames))


@pytest.mark.requirement("L2", "L3", "L5")
async def test_threads_lose_nothing_and_repeat_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with a real writer's thread and real readers' threads, all at once."""
    monkeypatch.setattr(tail_module, "KEEP_FRAMES", 20)
    rng = random.Random(9)
    async with logs(path, inline=False) as world:
        tails = [await world.open() for _ in range(20)]
        followers = [(tail, Follower(world, tail.id, rng)) for tail in tails for _ in range(3)]

        async def be_writer(tail: Tail) -> None:
            for number in range(150):
                tail.append(ev.ToolInputDelta(f"call{number}", str(number)))
                if rng.random() < 0.1:
                    await world.commit()
                await trio.lowlevel.checkpoint()
            await world.end(tail).wait()

        with trio.fail_after(90):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.journal.serve)
                async with trio.open_nursery() as working:
                    for tail in tails:
                        working.start_soon(be_writer, tail)
                    for _, follower in followers:
                        working.start_soon(follower.follow)
                nursery.cancel_scope.cancel()
        for tail, follower in followers:
            assert follower.seen == await world.stored(tail)
            assert ids(follower.seen) == [(tail.id, seq) for seq in range(1, 152)]


async def test_stream_that_is_open_but_not_known_here_yet_is_followed_when_it_is(
    autojump_clock: MockClock,
    path: Path,
) -> None:
    """A reader's thread can see a commit before the loop that opens the tail hears of it."""
    async with logs(path) as world:
        tail = await world.open()
        world.journal.close(tail)
        reader = await world.journal.locate(tail.id)
        again = world.journal.open(tail.number, tail.id)
        again.append(ev.StartStep())
        await world.end(again).wait()
        seen, how = await read_on(reader)
        assert (seen, how) == (await world.stored(again), "end")
        assert len(split(seen)) == 2


@pytest.mark.requirement("O2")
async def test_stream_that_ends_between_two_looks_is_told_to_its_end(
    autojump_clock: MockClock, path: Path
) -> None:
    """Open when its row was read, ended and forgotten before its tail was looked for."""
    async with logs(path) as world:
        tail = await world.open()
        reader = await world.journal.locate(tail.id)
        reader._tail = None  # as if it had not been made then
        stored = world.journal.stored

        async def end_meanwhile(number: int, seq: int) -> Stored:
            seen = await stored(number, seq)
            if not tail.ended:
                await world.end(tail).wait()
            return seen

        world.journal.stored = end_meanwhile  # type: ignore[method-assign]
        seen, how = await read_on(reader)
        assert (events(seen), how) == ([OUTCOME], "end")


@pytest.mark.requirement("O2", "L3")
async def test_commit_that_is_seen_before_it_is_told_here_ends_no_reader(path: Path) -> None:
    """The writer's thread has committed a new stream; this one has not opened its tail yet."""
    async with logs(path, inline=False) as world:
        seen_by_others, may_tell = trio.Event(), threading.Event()
        token = trio.lowlevel.current_trio_token()
        deliver = world.database._deliver

        def deliver_late(batch: Any) -> None:  # on the writer's thread
            token.run_sync_soon(seen_by_others.set)
            may_tell.wait()
            deliver(batch)

        world.database._deliver = deliver_late  # type: ignore[method-assign]
        opened: list[Tail] = []

        def open_it(number: int) -> None:
            opened.append(world.journal.open(number, "s-late"))
            opened[0].append(ev.StartStep())
            world.end(opened[0])

        job = world.database.job(lambda c: add_stream(c, "late"), on_commit=open_it)
        await seen_by_others.wait()
        async with trio.open_nursery() as nursery:
            found: list[tuple[bytes, str]] = []

            async def follow() -> None:
                found.append(await read_on(await world.journal.locate("s-late")))

            nursery.start_soon(follow)
            await wait_all_tasks_blocked(0.2)
            may_tell.set()
        await job.wait()
        ((frames, how),) = found
        assert (events(frames), how) == ([ev.StartStep(), OUTCOME], "end")


# catching up


@pytest.mark.requirement("L5", "L3")
async def test_slow_reader_of_a_long_stream_catches_up_from_the_store(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        tail = await world.open()
        reader = await world.journal.locate(tail.id)
        resumed = await world.journal.locate(tail.id)
        total = 0
        while total < 3 * KEEP_FRAMES:
            tail.append(*(ev.ToolInputDelta(f"call{total + n}", "x") for n in range(250)))
            total += 250
            await world.commit()
            if total == 500:
                item = await resumed.next()
                assert isinstance(item, bytes)
                assert len(split(item)) == 500
        assert not tail.holds(500)
        await world.end(tail).wait()
        stored = await world.stored(tail)
        biggest = 0
        seen = b""
        while isinstance(item := await reader.next(), bytes):
            seen += item
            biggest = max(biggest, len(item))
        assert item == "end"
        assert seen == stored
        assert ids(seen) == [(tail.id, seq) for seq in range(1, total + 2)]
        assert (await read_on(resumed))[0] == b"".join(split(stored)[500:])
        assert biggest < 2 * tail_module.PIECE_BYTES, "in pieces, not all at once"


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("live", [True, False], ids=["live", "ended"])
async def test_resuming_after_any_seq_gives_exactly_the_rest(
    autojump_clock: MockClock, path: Path, live: bool
) -> None:
    async with logs(path) as world:
        tail = await world.open()
        rng = random.Random(4)
        for _ in range(25):
            tail.append(*(ev.StartStep() for _ in range(rng.randint(1, 5))))
            await world.commit()
        job = world.end(tail)
        await job.wait()
        if live:
            world.journal._tails[tail.id] = tail  # as in the moment before it is forgotten
        all_frames = split(await world.stored(tail))
        for seq in range(len(all_frames) + 1):
            reader = await world.journal.locate(tail.id, (tail.id, seq))
            assert await read_on(reader) == (b"".join(all_frames[seq:]), "end")
        reader = await world.journal.locate(tail.id)
        assert await read_on(reader) == (b"".join(all_frames), "end")


@pytest.mark.requirement("L3")
def test_cut_gives_what_follows_any_seq() -> None:
    found = [segment(1, 1, 3), segment(1, 4, 4), segment(1, 5, 12)]
    for seq in range(13):
        rest = [one for one in found if one.last_seq > seq]
        assert cut(rest, seq) == frames(seq + 1, 12)
    assert cut([], 12) == b""


@pytest.mark.requirement("L7")
async def test_snapshot_and_the_rest_of_the_stream_give_the_whole(
    autojump_clock: MockClock, path: Path
) -> None:
    """At any moment: the fold that a snapshot shows, and the events after its cursor."""
    async with logs(path) as world:
        tail = await world.open()
        moments: list[tuple[int, list[dict[str, Any]]]] = []
        tail.append(ev.TextStart("p1"))
        for n in range(60):
            tail.append(ev.TextDelta("p1", f"{n}|"))
            moments.append((tail.durable, tail.fold.parts()))
            if n % 3:
                await world.commit()
            moments.append((tail.durable, tail.fold.parts()))
        await world.end(tail).wait()
        whole = fold(await world.stored(tail))
        for seq, parts in moments:
            reader = await world.journal.locate(tail.id, (tail.id, seq))
            rest, _ = await read_on(reader)
            tail_events: list[ev.Event] = [ev.Snapshot(parts), *events(rest)]
            joined = fold(b"")
            for event in tail_events:
                joined.apply(event)
            assert joined.parts() == whole.parts()


# superseded streams


@pytest.mark.requirement("R3")
async def test_reader_of_a_superseded_stream_is_led_on_through_all_lives(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        lives = [await world.open()]
        reader = await world.journal.locate(lives[0].id)
        async with trio.open_nursery() as nursery:
            result: list[tuple[bytes, str]] = []

            async def follow() -> None:
                result.append(await read_on(reader))

            nursery.start_soon(follow)
            for n in range(3):
                lives[-1].append(ev.ToolInputDelta(f"call{n}", "x"))
                await world.commit()
                await trio.testing.wait_all_tasks_blocked()  # it waits for the bell
                lives.append(await world.supersede(lives[-1]))
            lives[-1].append(ev.StartStep())
            await world.end(lives[-1]).wait()
        whole = b"".join([await world.stored(life) for life in lives])
        assert result == [(whole, "end")]
        names = [life.id for life in lives]
        assert [event.stream for event in events(whole) if isinstance(event, ev.Superseded)] == (
            names[1:]
        )

        # Anybody who comes later, with a cursor of any life, and asks for any of them.
        all_frames, all_ids = split(whole), ids(whole)
        for position, cursor in enumerate(all_ids, 1):
            for asked in names:
                late = await world.journal.locate(asked, cursor)
                assert (await read_on(late))[0] == b"".join(all_frames[position:])


@pytest.mark.requirement("L3", "L6")
async def test_cursors_that_are_not_of_this_turn_are_refused(
    autojump_clock: MockClock, path: Path
) -> None:
    """Also those of a database that was wiped (case P10): never silence."""
    async with logs(path) as world:
        tail, other = await world.open(), await world.open()
        tail.append(ev.StartStep())
        await world.commit()
        with pytest.raises(NotFoundError) as unknown:
            await world.journal.locate("stream-of-an-earlier-database")
        assert unknown.value.code == "STREAM_NOT_FOUND"
        for cursor in [("stream-of-an-earlier-database", 3), (other.id, 0), (tail.id, 2)]:
            with pytest.raises(InvalidError) as invalid:
                await world.journal.locate(tail.id, cursor)
            assert invalid.value.code == "CURSOR_INVALID"
        reader = await world.journal.locate(tail.id, (tail.id, 1))
        await world.end(tail).wait()
        assert events((await read_on(reader))[0]) == [OUTCOME]


# retention


@pytest.mark.requirement("L6", "L8")
async def test_pruned_stream_is_a_gap_and_its_thread_is_named(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.StartStep(), ev.StartStep())
        await world.end(tail).wait()
        keeper = Housekeeping(world.database, WallClock(lambda: NOW + 3_600_001), 3600.0)
        assert not await keeper.prune()
        for cursor in [None, (tail.id, 1)]:
            reader = await world.journal.locate(tail.id, cursor)
            assert await reader.next() == "gap"
            assert await reader.next() == "end"
            assert await reader.thread() == "thread-of-turn-00001"
        turn = await world.database.read(lambda c: turns.by_key(c, "key-of-turn-00001"))
        assert turn is not None
        assert turn.outcome == ev.encode(OUTCOME), "the outcome stays"


@pytest.mark.requirement("L6")
async def test_reader_that_is_overtaken_by_pruning_learns_of_the_gap(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "PIECE_BYTES", 1)
    async with logs(path) as world:
        tail = await world.open()
        for _ in range(3):
            tail.append(ev.StartStep())
            await world.commit()
        await world.end(tail).wait()
        reader = await world.journal.locate(tail.id)
        assert isinstance(await reader.next(), bytes)
        keeper = Housekeeping(world.database, WallClock(lambda: NOW + 3_600_001), 3600.0)
        await keeper.prune()
        assert await reader.next() == "gap"


@pytest.mark.requirement("L8")
async def test_only_what_ended_long_ago_is_pruned(autojump_clock: MockClock, path: Path) -> None:
    async with logs(path) as world:
        ended, running = await world.open(), await world.open()
        for tail in (ended, running):
            tail.append(ev.StartStep())
        await world.end(ended).wait()
        taken_over = running
        running = await world.supersede(running)
        await world.commit()
        now = [NOW + 3_600_000]
        keeper = Housekeeping(world.database, WallClock(lambda: now[0]), 3600.0)
        forever = Housekeeping(world.database, WallClock(lambda: NOW + 10**12), None)
        await keeper.prune()
        await forever.prune()
        assert await world.stored(ended) != b"", "not older than an hour yet"
        now[0] += 1
        await keeper.prune()
        assert await world.stored(ended) == b""
        now[0] += 10**12
        await keeper.prune()
        assert await world.stored(running) != b""
        assert await world.stored(taken_over) != b"", "its turn runs: readers may be led on"


@pytest.mark.requirement("L8")
async def test_pruning_goes_on_until_nothing_is_left_and_never_stops(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        tails = [await world.open() for _ in range(2 * STREAMS_AT_ONCE + 3)]
        for tail in tails:
            await world.end(tail).wait()
        before = world.database.commits
        keeper = Housekeeping(world.database, WallClock(lambda: NOW + 3_600_001), 3600.0)
        async with trio.open_nursery() as nursery:
            await nursery.start(keeper.serve)
            await trio.testing.wait_all_tasks_blocked()
            assert world.database.commits - before == 3, "in small transactions"
            assert [await world.stored(tail) for tail in tails] == [b""] * len(tails)

            # A disk that fails meanwhile is no reason to end (L9).
            late = await world.open()
            await world.end(late).wait()
            with failing(world.database):
                await trio.sleep(200)
            await trio.sleep(100)
            assert await world.stored(late) == b""
            nursery.cancel_scope.cancel()


async def test_stops_for_messages_that_never_came_are_forgotten(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        await world.database.write(lambda c: turns.add_intent(c, "message-1", "thread-1", NOW))
        now = [NOW + UNUSED_MS]
        keeper = Housekeeping(world.database, WallClock(lambda: now[0]), None)

        def kept(connection: Connection) -> int:
            query = "SELECT count(*) FROM cancel_intent"
            return int(connection.exec_driver_sql(query).scalar_one())

        await keeper.prune()
        assert await world.database.read(kept) == 1
        now[0] += 1
        await keeper.prune()
        assert await world.database.read(kept) == 0


async def test_deleted_words_leave_the_index_in_small_transactions(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "MESSAGES_AT_ONCE", 2)
    monkeypatch.setattr(housekeeping, "BUSY_SECONDS", 0.0)

    def write(connection: Connection) -> None:
        for number in range(5):
            search.put(connection, add_message(connection, f"message-{number}"), "some words")

    def kept(connection: Connection) -> int:
        query = "SELECT count(*) FROM message_text"
        return int(connection.exec_driver_sql(query).scalar_one())

    async with logs(path) as world:
        await world.database.write(write)
        assert await world.database.write(lambda c: threads.remove(c, "thread-01"))
        assert await world.database.read(kept) == 5, "as after a crash just then"
        before = world.database.commits
        keeper = Housekeeping(world.database, WallClock(lambda: NOW), None)
        async with trio.open_nursery() as nursery:
            await nursery.start(keeper.serve)
            await trio.sleep(10)
            assert await world.database.read(kept) == 0
            assert world.database.commits - before >= 5
            nursery.cancel_scope.cancel()


@pytest.mark.requirement("L5")
async def test_reader_of_a_thread_that_is_deleted_comes_to_an_end(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "PIECE_BYTES", 1)
    async with logs(path) as world:
        tail = await world.open()
        for _ in range(3):
            tail.append(ev.StartStep())
            await world.commit()
        await world.end(tail).wait()
        reader = await world.journal.locate(tail.id)
        assert isinstance(await reader.next(), bytes)
        await world.database.write(lambda c: threads.remove(c, "thread-of-turn-00001"))
        assert await reader.next() == "end"
        with pytest.raises(NotFoundError):
            await world.journal.locate(tail.id)


# silence


@pytest.mark.requirement("L1")
async def test_silence_is_never_longer_than_a_heartbeat_and_beats_are_not_frequent(
    autojump_clock: MockClock,
    path: Path,
) -> None:
    rng = random.Random(2)
    async with logs(path) as world, trio.open_nursery() as nursery:
        await nursery.start(world.journal.serve)
        tail = await world.open()
        spoken: dict[int, list[tuple[float, bytes | str]]] = {}

        async def listen(number: int) -> None:
            await trio.sleep(number * 1.7)
            reader = await world.journal.locate(tail.id)
            spoken[number] = [(trio.current_time(), "opened")]
            item: bytes | str = ""
            while item != "end":
                item = await reader.next()
                spoken[number].append((trio.current_time(), item))

        async with trio.open_nursery() as readers:
            for number in range(7):
                readers.start_soon(listen, number)
            for _ in range(60):
                await trio.sleep(rng.choice([0.1, 1, 5, HEARTBEAT_SECONDS, 40]))
                tail.append(ev.ToolInputDelta("call", "x"))
            await world.end(tail).wait()
        nursery.cancel_scope.cancel()
    for items in spoken.values():
        beats = 0
        for (before, _), (at, item) in itertools.pairwise(items):
            assert at - before <= HEARTBEAT_SECONDS
            if item == "beat":
                beats += 1
                assert at - before >= 0.7 * HEARTBEAT_SECONDS
        assert beats > 50


async def test_reader_that_must_not_wait_gets_what_there_is(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        tail = await world.open()
        reader = await world.journal.locate(tail.id)
        assert await reader.next(wait=False) == "beat"
        tail.append(ev.StartStep())
        await world.commit()
        assert await reader.next(wait=False) == await world.stored(tail)
        assert await reader.next(wait=False) == "beat"
        await world.end(tail).wait()
        item = await reader.next(wait=False)
        assert isinstance(item, bytes)
        assert events(item) == [OUTCOME]
        assert await reader.next(wait=False) == "end"


# the end of the server


@pytest.mark.requirement("T7")
async def test_draining_tells_every_reader_at_once_after_what_is_on_record(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        quiet, busy, ended = [await world.open() for _ in range(3)]
        for tail in (busy, ended):
            tail.append(ev.StartStep())
        await world.end(ended).wait()
        results: dict[str, tuple[bytes, str]] = {}

        async def follow(tail: Tail) -> None:
            results[tail.id] = await read_on(await world.journal.locate(tail.id))

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, quiet)
            await trio.testing.wait_all_tasks_blocked()
            world.journal.drain()
            nursery.start_soon(follow, busy)
            nursery.start_soon(follow, ended)
        assert trio.current_time() == began
        assert results == {
            quiet.id: (b"", "draining"),
            busy.id: (await world.stored(busy), "draining"),
            ended.id: (await world.stored(ended), "end"),
        }
        busy.append(ev.StartStep())  # writers go on
        await world.commit()
        assert busy.durable == 2


# a store that fails


@pytest.mark.requirement("L9")
async def test_readers_of_a_broken_stream_get_a_last_frame_without_id(
    autojump_clock: MockClock, path: Path
) -> None:
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.StartStep())
        await world.commit()
        results: list[tuple[bytes, str]] = []

        async def follow() -> None:
            reader = await world.journal.locate(tail.id)
            seen = b""
            while isinstance(item := await reader.next(), bytes):
                seen += item
            results.append((seen, item))

        told = ev.Outcome("failed", "STORE_FAILED", "", True, NOW)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await trio.testing.wait_all_tasks_blocked()
            with failing(world.database):
                tail.append(ev.StartStep())
                with pytest.raises(StoreUnavailableError):
                    await world.commit()
            tail.repair()
            tail.tell_broken(told)
            nursery.start_soon(follow)
        assert (
            results == [(await world.stored(tail) + b"data: %b\n\n" % ev.encode(told), "end")] * 2
        )

        # Its end is on record some time later: whoever comes then gets that one.
        await world.end(tail).wait()
        seen, how = await read_on(await world.journal.locate(tail.id, (tail.id, 1)))
        assert how == "end"
        assert ids(seen) == [(tail.id, 2)]
        assert events(seen) == [OUTCOME]
