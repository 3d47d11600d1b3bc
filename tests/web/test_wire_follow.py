"""Following a stream as server-sent events, on real sockets."""

import re
import time
from pathlib import Path

import h11
import pytest
import trio
from trio.testing import MockClock

from app.clock import WallClock
from app.housekeeping import Housekeeping
from app.turns.supervisor import SETTLE_SECONDS
from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, says
from tests.web.inside import Voice, broken_store
from tests.web.wire import JSON, THREAD, Follower, Frame, assert_gapless, text_of, wired

PIECES = ("a | b ", "|", "|", "\n", "data: x\n\nid: 7", " a | b ", "💩", " end")
DAY_MS = 86_400_000


# Frames and headers


@pytest.mark.requirement("L1", "O1")
async def test_frames_carry_gapless_ids_and_end_with_one_outcome(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says(*PIECES))) as wire:
        stream = await wire.send()
        seen = await wire.read(stream)
        assert re.fullmatch(r"[A-Za-z0-9_-]{22,64}", stream)
        assert {frame.stream for frame in seen.frames} == {stream}
        assert_gapless(seen.ids)
        assert seen.types[0] == "start"
        assert seen.outcome["outcome"] == "finished"
        assert seen.text == "".join(PIECES)
        assert seen.complete


@pytest.mark.requirement("L1")
async def test_streams_have_names_that_nobody_guesses(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        streams = [await wire.send(thread=f"thread-{n:02d}") for n in range(20)]
        assert len({stream[:12] for stream in streams}) == 20


async def test_streams_pass_every_proxy_as_they_are(tmp_path: Path) -> None:
    """P27: `Connection: close` makes EventSource connect again every second."""
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        stream = await wire.send()
        for path in (f"/api/streams/{stream}", "/api/feed"):
            follower = await wire.open(path, connection="keep-alive")
            headers = follower.exchange.headers
            assert headers["cache-control"] == "no-cache, no-transform"
            assert headers["x-accel-buffering"] == "no"
            assert "connection" not in headers
            assert "content-length" not in headers
            assert "content-encoding" not in headers


@pytest.mark.requirement("L1", "F2")
async def test_silence_is_filled_with_comments_that_carry_no_id(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        follower = await wire.follow(await wire.send())
        voice.say("word")
        await follower.until_text("word")
        began = trio.current_time()
        reached = follower.frames[-1].seq
        for beats in range(1, 11):
            assert await follower.block() == str(reached)
            # At most the documented interval between any two things said.
            assert trio.current_time() - began <= beats * wire.services.settings.heartbeat
        voice.say("more")
        voice.stop()
        await follower.rest()
        assert_gapless(follower.ids)


async def test_the_feed_is_never_silent_either(tmp_path: Path, autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        feed = await wire.open("/api/feed")
        assert isinstance(await feed.block(), Frame)
        began = trio.current_time()
        assert await feed.block() == "0"
        assert trio.current_time() - began <= wire.services.settings.heartbeat * 1.01


# Resuming


@pytest.mark.requirement("L3", "M3")
@pytest.mark.parametrize("how", ["header", "lastEventId", "after"])
async def test_a_reader_goes_on_after_any_event(tmp_path: Path, how: str) -> None:
    async with wired(tmp_path / "u.db", Scripted(says(*PIECES))) as wire:
        stream = await wire.send()
        whole = await wire.read(stream)
        for seq in range(len(whole.frames)):
            cursor = f"{stream}:{seq}"
            path = f"/api/streams/{stream}"
            if how == "header":
                rest = await wire.open(path, after=cursor)
            else:
                rest = await wire.open(f"{path}?{how}={cursor}")
            await rest.rest()
            assert rest.frames == whole.frames[seq:]


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("cursor", ["0", "", "{stream}:0"])
async def test_a_cursor_may_say_from_the_beginning(tmp_path: Path, cursor: str) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        stream = await wire.send()
        whole = await wire.read(stream)
        assert (await wire.read(stream, cursor.format(stream=stream))).frames == whole.frames


@pytest.mark.requirement("L3", "T2")
async def test_replay_goes_over_into_the_live_stream_for_any_number_of_readers(
    tmp_path: Path,
) -> None:
    """A reader joins after each piece: what was and what comes is one gapless text."""
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        stream = await wire.send()
        readers = [await wire.follow(stream)]
        for n in range(25):
            voice.say(f"{n} | ")
            await readers[0].until_text(f"{n} | ")
            readers.append(await wire.follow(stream))
        voice.stop()
        text = "".join(f"{n} | " for n in range(25))
        for reader in readers:
            await reader.rest()
            assert reader.text == text
            assert reader.frames == readers[0].frames
        assert_gapless(readers[0].ids)


@pytest.mark.requirement("C4", "T1")
async def test_a_reader_that_goes_away_stops_nothing(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        stream = await wire.send()
        for n in range(5):
            reader = await wire.follow(stream)
            voice.say(f"{n}.")
            await reader.until_text(f"{n}.")
            await reader.close()
        voice.stop()
        seen = await wire.read(stream)
        assert seen.text == "0.1.2.3.4."
        assert seen.outcome["outcome"] == "finished"
        assert voice.cut == 0


@pytest.mark.requirement("C4", "T1")
async def test_the_sender_may_leave_while_its_own_response_streams(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        path = f"/api/threads/{THREAD}/messages"
        sender = await wire.open(path, method="POST", body=wire.message())
        voice.say("said")
        await sender.until_text("said")
        await sender.close()
        voice.say(" more")
        voice.stop()
        assert (await wire.read(sender.frames[0].stream)).text == "said more"


@pytest.mark.requirement("O2")
async def test_an_ended_stream_tells_its_outcome_as_often_as_asked(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        stream = await wire.send()
        seen = [await wire.read(stream) for _ in range(3)]
        assert seen[0].frames == seen[1].frames == seen[2].frames
        assert seen[0].outcome["code"] == "FINISHED"


@pytest.mark.requirement("L4")
async def test_nothing_to_come_is_204_so_that_event_source_stops_asking(tmp_path: Path) -> None:
    """P27: to EventSource an empty 200 is a drop. A cursor beyond the end of a log that lost its
    last events with the power is at its end, too."""
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        stream = await wire.send()
        whole = await wire.read(stream)
        for cursor in (whole.cursor, f"{stream}:{len(whole.ids) + 100}"):
            for path in (f"/api/streams/{stream}", f"/api/threads/{THREAD}/stream"):
                answer = await wire.get(path, last_event_id=cursor)
                assert (answer.status, answer.body) == (204, b"")
            polled = await wire.poll(stream, cursor)
            assert polled == {"events": [], "cursor": cursor, "ended": True}


@pytest.mark.requirement("L5")
async def test_a_slow_reader_holds_up_nobody_and_misses_nothing(tmp_path: Path) -> None:
    """P30. Its socket takes nothing for a while; the tail forgets; it catches up from the store."""
    pieces = [f"{n:06d} {'x' * 2000}|" for n in range(6000)]
    async with wired(tmp_path / "u.db", Scripted(says(*pieces))) as wire:
        stream = await wire.send()
        slow = await wire.follow(stream, receive_buffer=4096)
        quick = await wire.read(stream)
        assert quick.text == "".join(pieces)
        await slow.rest()
        assert slow.frames == quick.frames


@pytest.mark.requirement("L5")
async def test_many_readers_of_many_turns_each_see_their_own(tmp_path: Path) -> None:
    """P30: 100 readers of 20 busy turns, one of them slow; nobody waits for another for long."""
    voices = [Voice(f"voice-{n:02d}") for n in range(20)]
    pieces = 40
    slowest = 0.0

    async def read(follower: Follower) -> None:
        nonlocal slowest
        while (block := await follower.block()) is not None:
            if isinstance(block, Frame) and block.event["type"] == "text-delta":
                for stamp in block.event["delta"].split():
                    slowest = max(slowest, time.monotonic() - float(stamp))

    async with wired(tmp_path / "u.db", *voices, inline=False) as wire:
        streams = [
            await wire.send(thread=f"thread-{n:02d}", model=voice.name)
            for n, voice in enumerate(voices)
        ]
        stuck = await wire.follow(streams[0], receive_buffer=4096)
        readers = {stream: [await wire.follow(stream) for _ in range(5)] for stream in streams}
        async with trio.open_nursery() as nursery:
            for group in readers.values():
                for reader in group:
                    nursery.start_soon(read, reader)
            for _ in range(pieces):
                for voice in voices:
                    voice.say(f"{time.monotonic():.6f} ")
                await trio.lowlevel.checkpoint()
            for voice in voices:
                voice.stop()
        assert slowest < 10, "a reader starved"  # the case asks for 1 s, on a machine of its own
        texts = [{reader.text for reader in group} for group in readers.values()]
        assert all(len(group) == 1 for group in texts)
        assert len({next(iter(group)) for group in texts}) == 20
        assert (await stuck.rest()).text == readers[streams[0]][0].text


# What ends a response early


@pytest.mark.requirement("R3", "L3")
async def test_a_superseded_stream_goes_on_in_the_same_response(tmp_path: Path) -> None:
    path = tmp_path / "u.db"
    voice = Voice()
    async with wired(path, voice) as wire:
        first = await wire.send()
        reader = await wire.follow(first)
        voice.say("half of ")
        await reader.until_text("half of ")
    async with wired(path, Scripted(says("all of it"), name="voice")) as wire:
        resumed = await (await wire.follow(first, reader.cursor)).rest()
        assert resumed.types[0] == "superseded"
        second = resumed.frames[0].event["stream"]
        assert second != first
        assert resumed.ids[0] == f"{first}:{len(reader.ids) + 1}"
        assert_gapless(resumed.ids[1:])
        assert resumed.frames[1].stream == second
        assert resumed.types[1:3] == ["snapshot", "status"]
        assert resumed.frames[1].event["parts"] == []  # no step was complete
        assert resumed.text == "all of it"
        assert resumed.outcome["outcome"] == "finished"
        # A cursor in the successor is good at the old address, and the other way round.
        assert (await wire.read(first, resumed.ids[2])).frames == resumed.frames[3:]
        assert (await wire.read(second, reader.cursor)).frames == resumed.frames
        assert (await wire.read(second)).frames == resumed.frames[1:]


@pytest.mark.requirement("L6")
async def test_a_reader_is_told_when_what_follows_was_pruned(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        stream = await wire.send()
        whole = await wire.read(stream)
        later = WallClock(lambda: wire.services.clock.now_ms() + 3 * DAY_MS)
        await Housekeeping(wire.services.database, later, DAY_MS / 1000).prune()
        gap = {"type": "error", "code": "STREAM_RESUME_GAP", "thread": THREAD}
        for cursor in (None, whole.ids[0], whole.ids[-1]):
            seen = await wire.read(stream, cursor)
            assert seen.frames == [Frame(None, gap)]
            assert seen.complete
            polled = await wire.poll(stream, cursor or "")
            assert polled["events"] == [{"id": None, "event": gap}]
            assert polled["cursor"] == (cursor or f"{stream}:0")
        [_, answer] = (await wire.snapshot())["messages"]  # nothing of the answer was lost
        assert answer["parts"][-1]["text"] == "a"
        assert answer["turn"]["outcome"] == whole.outcome


@pytest.mark.requirement("T7")
async def test_readers_are_told_of_a_shutdown_and_ended_cleanly(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        stream = await wire.send()
        reader, feed = await wire.follow(stream), await wire.open("/api/feed")
        voice.say("so far")
        await reader.until_text("so far")
        wire.services.shut_down()
        for follower in (reader, feed):
            await follower.rest()
            assert follower.comments[-1] == "draining"
            assert follower.complete
        assert "outcome" not in reader.types


@pytest.mark.requirement("L9", "L2")
async def test_live_readers_are_told_when_the_store_fails(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        stream = await wire.send()
        reader = await wire.follow(stream)
        voice.say("kept")
        await reader.until_text("kept")
        with broken_store(wire.services):
            voice.say(" lost")
            await reader.rest()
            assert reader.frames[-1].id is None
            assert reader.outcome["code"] == "STORE_FAILED"
            assert reader.outcome["outcome"] == "failed"
            assert reader.text == "kept"
            polled = await wire.poll(stream, reader.cursor)
            assert [one["id"] for one in polled["events"]] == [None]
            assert polled["events"][0]["event"]["code"] == "STORE_FAILED"
            assert polled["cursor"] == reader.cursor
        # The store works again: the outcome gets its place in the log, and the next turn runs.
        await trio.sleep(2 * SETTLE_SECONDS)
        rest = await wire.read(stream, reader.cursor)
        assert rest.outcome["code"] == "STORE_FAILED"
        assert_gapless([*reader.ids, *rest.ids])
        voice.say("again")
        voice.stop()
        assert (await wire.read(await wire.send())).text == "again"


# Requests


async def test_accept_decides_between_events_and_a_poll(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        stream = await wire.send()
        path = f"/api/streams/{stream}"
        for accept in (None, "*/*", "text/event-stream", f"{JSON}, text/event-stream"):
            answer = await wire.ask("GET", path, headers={"Accept": accept})
            assert answer.headers["content-type"] == "text/event-stream"
        for accept in (JSON, f"{JSON}, */*;q=0.1"):
            answer = await wire.ask("GET", path, headers={"Accept": accept})
            assert text_of(one["event"] for one in answer.json["events"]) == "a"


async def test_head_says_what_get_would_and_does_not_follow(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        stream = await wire.send()
        for path in (f"/api/streams/{stream}", f"/api/threads/{THREAD}/stream", "/api/feed"):
            exchange = await wire.start("HEAD", path)
            answer = await exchange.answer()
            assert (answer.status, answer.body) == (200, b"")
            assert answer.headers["content-type"] == "text/event-stream"
            exchange.again()
            await exchange.send(wire.head("GET", "/healthz"), h11.EndOfMessage())
            with trio.fail_after(10):  # it would never answer while it follows
                assert (await exchange.answer()).status == 200
        assert (await wire.ask("HEAD", "/api/streams/" + "x" * 32)).status == 404
