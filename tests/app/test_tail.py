"""The live end of a stream: what is one event, when it is visible, what a failure takes back."""

import random
from pathlib import Path

import pytest
import trio

from app import events as ev
from app import tail as tail_module
from app.tail import KEEP_FRAMES, MERGE_BYTES, PIECE_BYTES
from store import segments, streams
from store.database import Connection
from store.errors import StoreUnavailableError, StreamClosedError
from tests.app.logs import OUTCOME, events, failing, fold, ids, logs, split
from tests.store.rows import NOW


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


# what becomes one event


async def test_deltas_of_one_part_that_wait_together_are_one_event(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.TextStart("p1"), ev.TextDelta("p1", "a"), ev.TextDelta("p1", "b"))
        tail.append(ev.TextDelta("p1", "c"))
        await world.commit()
        tail.append(ev.TextDelta("p1", "d"))
        await world.commit()
        assert events(await world.stored(tail)) == [
            ev.TextStart("p1"),
            ev.TextDelta("p1", "abc"),
            ev.TextDelta("p1", "d"),
        ]


async def test_only_neighbours_of_the_same_part_and_kind_merge(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        given: list[ev.Event] = [
            ev.TextDelta("p1", "a"),
            ev.TextDelta("p2", "b"),
            ev.TextDelta("p1", "c"),
            ev.ReasoningDelta("p1", "d"),
            ev.Status("connecting", ""),
            ev.ReasoningDelta("p1", "e"),
            ev.ToolInputDelta("call", "f"),
            ev.ToolInputDelta("p1", "g"),
        ]
        tail.append(*given)
        await world.commit()
        assert events(await world.stored(tail)) == given


async def test_merged_delta_stays_within_bounds(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        for n in range(MERGE_BYTES // 100 * 4):
            tail.append(ev.TextDelta("p1", f"{n:0100d}"))
        await world.commit()
        deltas = [event.delta for event in events(await world.stored(tail))]
        assert "".join(deltas) == "".join(f"{n:0100d}" for n in range(MERGE_BYTES // 100 * 4))
        assert 4 <= len(deltas) <= 5
        assert max(map(len, deltas)) <= MERGE_BYTES


async def test_fragments_of_a_calls_input_merge_too(path: Path) -> None:
    """A model may write a long input in pieces of a character, behind a disk that hangs."""
    async with logs(path) as world:
        tail = await world.open()
        tail.append(*(ev.ToolInputDelta("call", char) for char in "abc"))
        await world.commit()
        assert events(await world.stored(tail)) == [ev.ToolInputDelta("call", "abc")]


@pytest.mark.parametrize("size", [MERGE_BYTES - 1, MERGE_BYTES, MERGE_BYTES + 1, 300_000])
async def test_large_delta_is_cut_into_events_of_a_bearable_size(path: Path, size: int) -> None:
    text = ("a\U0001f600" * size)[:size]
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.TextStart("p1"), ev.TextDelta("p1", text), ev.TextDelta("p1", ""))
        await world.commit()
        _, *deltas = events(await world.stored(tail))
        assert max(len(event.delta) for event in deltas) <= MERGE_BYTES
        assert "".join(event.delta for event in deltas) == text
        assert tail.fold.parts()[0]["text"] == text


@pytest.mark.requirement("L5", "L1")
async def test_much_at_once_is_stored_and_given_out_in_pieces(path: Path) -> None:
    """A reader that stalls keeps what it was given; a late one gets segments."""
    async with logs(path) as world:
        tail = await world.open()
        tail.append(*(ev.ToolInputDelta(f"call{n}", "x" * 1_000) for n in range(2_000)))
        tail.checkpoint(b"goes with the last of them")
        await world.commit()
        largest = PIECE_BYTES + 2_000
        found = await world.database.read(lambda c: segments.read_after(c, tail.number, 0))
        assert len(found) > 5
        assert all(len(segment.frames) <= largest for segment in found)
        row = await world.database.read(lambda c: streams.get(c, tail.number))
        assert row.checkpoint == b"goes with the last of them"
        given, seq = [], 0
        while seq < tail.durable:
            seq, frames = tail.after(seq)
            assert ids(frames)[-1] == (tail.id, seq)
            assert len(frames) <= largest
            given.append(frames)
        assert b"".join(given) == b"".join(segment.frames for segment in found)


@pytest.mark.requirement("L9")
async def test_pieces_are_on_record_together_or_not_at_all(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        with failing(world.database):
            tail.append(*(ev.ToolInputDelta(f"call{n}", "x" * 1_000) for n in range(1_000)))
            with pytest.raises(StoreUnavailableError):
                await world.commit()
        assert tail.durable == 0
        tail.repair()
        tail.append(*(ev.ToolInputDelta(f"call{n}", "y" * 1_000) for n in range(1_000)))
        await world.end(tail).wait()
        assert tail.ended
        stored = events(await world.stored(tail))
        assert len(stored) == tail.durable == 1_001
        assert {event.input_text_delta[0] for event in stored[:-1]} == {"y"}


@pytest.mark.requirement("M3", "L1")
async def test_any_appends_keep_every_character_and_number_without_a_hole(path: Path) -> None:
    """Whatever merges: the text is the sum of the deltas, the seqs are 1, 2, 3 …"""
    rng = random.Random(3)
    async with logs(path) as world:
        for _ in range(150):
            tail = await world.open()
            texts = {"p1": "", "p2": "", "p3": ""}
            tail.append(*(ev.TextStart(id_) for id_ in texts))
            for _ in range(rng.randint(1, 40)):
                id_ = rng.choice(list(texts))
                delta = rng.choice(["|", "||", " ", "\n\n", "data: ", "é", "\U0001f600", "id: x"])
                texts[id_] += delta
                tail.append(ev.TextDelta(id_, delta))
                if rng.random() < 0.2:
                    tail.append(ev.Status("connecting", "x"))
                if rng.random() < 0.3:
                    await world.commit()
            await world.commit()
            stored = await world.stored(tail)
            assert ids(stored) == [(tail.id, seq) for seq in range(1, tail.durable + 1)]
            assert tail.after(0) == (tail.durable, stored)
            assert {part["id"]: part["text"] for part in fold(stored).parts()} == texts
            assert tail.fold.parts() == fold(stored).parts()


# when it is visible


@pytest.mark.requirement("L2")
async def test_nothing_is_visible_before_its_commit(path: Path) -> None:
    async with logs(path, inline=False) as world:
        tail = await world.open()
        gate, entered = trio.Event(), trio.Event()
        token = trio.lowlevel.current_trio_token()

        def slow(_connection: Connection) -> None:
            trio.from_thread.run_sync(entered.set, trio_token=token)
            trio.from_thread.run(gate.wait, trio_token=token)

        job = world.database.job(slow)
        tail.append(ev.TextStart("p1"), ev.TextDelta("p1", "in the commit"))
        await entered.wait()
        tail.append(ev.TextDelta("p1", ", after it"))
        assert tail.durable == 0
        assert tail.fold.parts() == []
        preview = tail.preview(ev.TextEnd("p1")).parts()
        assert [part["text"] for part in preview] == ["in the commit, after it"]
        gate.set()
        await job.wait()
        assert tail.durable == 2
        await world.commit()
        assert tail.fold.parts()[0]["text"] == "in the commit, after it"
        assert events(tail.after(2)[1]) == [ev.TextDelta("p1", ", after it")]


@pytest.mark.requirement("L7")
async def test_fold_is_exact_for_the_newest_seq_at_every_moment(path: Path) -> None:
    rng = random.Random(7)
    async with logs(path) as world:
        tail = await world.open()
        open_part, parts = "", 0
        for _ in range(400):
            if not open_part or rng.random() < 0.05:
                parts += 1
                open_part = f"p{parts}"
                tail.append(ev.TextStart(open_part))
            tail.append(ev.TextDelta(open_part, rng.choice("abc")))
            if rng.random() < 0.05:
                tail.append(ev.TextEnd(open_part))
            if rng.random() < 0.02:
                tail.append(ev.StartStep())
            if rng.random() < 0.02:
                tail.append(ev.ResetStep("MODEL_EOF"))
            if rng.random() < 0.5:
                await world.commit()
            frames = split(await world.stored(tail))
            assert len(frames) == tail.durable
            assert tail.fold.parts() == fold(b"".join(frames)).parts()


async def test_preview_changes_nothing(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.TextStart("p1"), ev.TextDelta("p1", "a"))
        await world.commit()
        tail.append(ev.TextDelta("p1", "b"))
        for _ in range(2):
            assert tail.preview(ev.TextDelta("p1", "c")).parts()[0]["text"] == "abc"
        await world.commit()
        assert events(await world.stored(tail))[-1] == ev.TextDelta("p1", "b")
        assert tail.fold.parts()[0]["text"] == "ab"


# memory


@pytest.mark.requirement("L5")
async def test_frames_in_memory_are_bounded_in_number(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        most = 0
        for _ in range(60):
            tail.append(*(ev.ToolInputDelta(f"call{n}", "") for n in range(500)))
            await world.commit()
            most = max(most, len(tail._frames))
            first = tail.durable + 1 - len(tail._frames)
            assert tail.holds(first - 1)
            assert not tail.holds(first - 2) or first == 1
        assert tail.durable == 30_000
        assert KEEP_FRAMES <= most <= 2 * KEEP_FRAMES
        last = b"".join(split(await world.stored(tail))[-7:])
        assert tail.after(tail.durable - 7) == (tail.durable, last)


@pytest.mark.requirement("L5")
async def test_frames_in_memory_are_bounded_in_bytes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "KEEP_BYTES", 20_000)
    async with logs(path) as world:
        tail = await world.open()
        for _ in range(40):
            tail.append(ev.ToolInputDelta("call", "x" * 3_000))
            await world.commit()
            assert sum(map(len, tail._frames)) == tail._bytes <= 40_000
        tail.append(ev.TextEnd("p1", "x" * 90_000))  # larger than all that may be kept
        await world.commit()
        assert len(tail.after(tail.durable - 1)[1]) > 90_000


async def test_what_waits_is_counted_and_given_back(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        other = await world.open()
        tail.append(ev.TextStart("p1"), ev.TextDelta("p1", "x" * 1_000))
        other.append(ev.ToolInputDelta("call", "y"))
        assert world.database._pending_bytes > 1_000
        await world.commit()
        assert world.database._pending_bytes == 0


# failures


@pytest.mark.requirement("L9")
async def test_failed_commit_is_told_and_never_on_record(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.TextStart("p1"), ev.TextDelta("p1", "kept"))
        await world.commit()
        told: list[str] = []
        tail.on_failure = lambda: told.append("failed")
        with failing(world.database):
            tail.append(ev.TextDelta("p1", "lost"))
            with pytest.raises(StoreUnavailableError):
                await world.commit()
        assert told == ["failed"]
        assert isinstance(tail.error, StoreUnavailableError)
        assert not tail.lost
        with pytest.raises(StoreUnavailableError):
            tail.append(ev.TextDelta("p1", "too late"))
        assert world.database._pending_bytes == 0

        tail.repair()
        tail.append(ev.TextEnd("p1"))
        await world.commit()
        stored = await world.stored(tail)
        assert ids(stored) == [(tail.id, 1), (tail.id, 2), (tail.id, 3)]
        assert [part["text"] for part in fold(stored).parts()] == ["kept"]
        assert tail.fold.parts() == fold(stored).parts()


@pytest.mark.requirement("L9")
async def test_what_waits_behind_a_failed_commit_goes_with_it(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()

        def append_more() -> None:
            tail.append(ev.ToolInputDelta("call", "behind"))

        with failing(world.database, during=append_more):
            tail.append(ev.ToolInputDelta("call", "first"))
            with pytest.raises(StoreUnavailableError):
                await world.commit()
        await world.commit()  # the store works: still nothing of a broken stream gets in
        assert await world.stored(tail) == b""
        tail.repair()
        assert world.database._pending_bytes == 0
        await world.commit()
        assert await world.stored(tail) == b""


@pytest.mark.requirement("L9")
async def test_failed_end_can_be_made_up_for(path: Path) -> None:
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.StartStep())
        await world.commit()
        with failing(world.database):
            job = world.end(tail)
            with pytest.raises(StoreUnavailableError):
                await job.wait()
        assert not tail.ended
        tail.repair()
        await world.end(tail).wait()
        assert tail.ended
        assert events(await world.stored(tail)) == [ev.StartStep(), OUTCOME]


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("events_at_once", [1, 2])
async def test_writer_whose_stream_was_sealed_has_lost_it(path: Path, events_at_once: int) -> None:
    async with logs(path) as world:
        tail = await world.open()
        tail.append(ev.StartStep())
        await world.commit()
        told: list[str] = []
        tail.on_failure = lambda: told.append("failed")

        def take_over(connection: Connection) -> None:  # another process
            segments.append(connection, [segments.Segment(tail.number, 2, 1, b"id: x:2\n\n")])
            streams.close(connection, tail.number, NOW, 99)

        await world.database.write(take_over)
        tail.append(*[ev.StartStep()] * events_at_once)
        await world.commit()
        assert tail.lost
        assert told == ["failed"]
        assert tail.durable == 1
        assert tail.fold.parts() == [{"type": "step-start"}]
        with pytest.raises(StreamClosedError):
            tail.append(ev.StartStep())
