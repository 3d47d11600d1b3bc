"""Threads: snapshot and stream join without a seam; list and feed say what changed."""

import random
from pathlib import Path
from typing import Any

import pytest
import trio

from app.feed import KEEP_CHANGES, Change
from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, says
from tests.web.inside import Voice
from tests.web.wire import THREAD, Follower, Frame, assert_gapless, wired

# The snapshot


def answer_of(snapshot: Any) -> Any:
    return snapshot["messages"][-1]


def text_in(snapshot: Any) -> str:
    return "".join(part.get("text", "") for part in answer_of(snapshot)["parts"])


@pytest.mark.requirement("L7", "T2", "M3")
async def test_snapshot_and_stream_join_exactly_at_any_moment(tmp_path: Path) -> None:
    """P12: a hundred times at random moments of an answer, load the thread and follow from its
    cursor; what was loaded and what came after is the text, to the byte."""
    dice = random.Random(7)
    pieces = [f"{n}{dice.choice(['|', ' | ', '|', 'ü', '💩', chr(10)])}" for n in range(400)]
    moments = set(dice.sample(range(400), 100))
    voice = Voice()
    loaded: list[tuple[str, Follower]] = []
    async with wired(tmp_path / "u.db", voice, inline=False) as wire:
        stream = await wire.send()
        for n, piece in enumerate(pieces):
            voice.say(piece)
            if n in moments:
                snapshot = await wire.snapshot()
                turn = answer_of(snapshot)["turn"]
                assert (turn["state"], turn["stream"]) == ("running", stream)
                loaded.append((text_in(snapshot), await wire.follow(stream, turn["cursor"])))
        voice.stop()
        whole = await wire.read(stream)
        assert whole.text == "".join(pieces)
        assert len({text for text, _ in loaded}) > 50
        for text, follower in loaded:
            await follower.rest()
            assert text + follower.text == whole.text
            assert follower.frames == whole.frames[-len(follower.frames) :]
            await follower.close()
        ended = await wire.snapshot()
        assert text_in(ended) == whole.text
        assert answer_of(ended)["turn"]["cursor"] is None
        assert answer_of(ended)["turn"]["outcome"] == whole.outcome


async def test_a_snapshot_has_the_documented_shape(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a")), Scripted(hangs, name="slow")) as wire:
        await wire.read(await wire.send("first line\nsecond"))
        running, queued = [(await wire.post(model="slow")).json for _ in range(2)]
        reader = await wire.follow(running["stream"])
        status = await reader.until(lambda frame: frame.event.get("state") == "connecting")
        snapshot = await wire.snapshot()
        thread = snapshot["thread"]
        assert thread["id"] == THREAD
        assert thread["title"] == "first line"
        assert thread["state"] == "running"
        assert thread["leaf"] == queued["turn"]
        assert thread["createdAt"] <= thread["updatedAt"]
        messages = snapshot["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant"] * 3
        assert [m["parent"] for m in messages] == [None, *(m["id"] for m in messages[:-1])]
        for question in messages[::2]:
            assert set(question) == {"id", "parent", "role", "createdAt", "parts"}
        turns = [m["turn"] for m in messages[1::2]]
        for turn in turns:
            assert set(turn) == {"state", "stream", "cursor", "model", "status", "outcome"}
        assert [turn["state"] for turn in turns] == ["finished", "running", "queued"]
        assert [turn["model"] for turn in turns] == ["scripted", "slow", "slow"]
        assert turns[1]["cursor"] == status.id
        assert turns[1]["status"]["state"] == "connecting"
        assert turns[2]["cursor"].startswith(queued["stream"])
        assert turns[2]["status"]["state"] == "queued"
        assert turns[0]["status"] is turns[1]["outcome"] is None


@pytest.mark.requirement("L4")
async def test_the_active_stream_of_a_thread(tmp_path: Path) -> None:
    voice = Voice()
    active = f"/api/threads/{THREAD}/stream"
    async with wired(tmp_path / "u.db", voice) as wire:
        for cursor in ("", "0"):  # nothing yet, not even the thread
            answer = await wire.ask("GET", active, headers={"Last-Event-ID": cursor})
            assert (answer.status, answer.body) == (204, b"")
        first, second = await wire.send(), await wire.send()
        reader = await wire.open(active)
        assert (await reader.frame()).stream == first
        voice.say("one")
        voice.stop()
        await reader.rest()
        assert reader.text == "one"
        assert (await (await wire.open(active, after="0")).frame()).stream == second
        # A cursor of any turn of the thread, also of one that has ended.
        resumed = await (await wire.open(active, after=reader.ids[2])).rest()
        assert resumed.frames == reader.frames[3:]
        voice.stop()
        await wire.read(second)
        assert (await wire.get(active)).status == 204


# The list


async def test_the_list_is_complete_in_pages_of_any_size(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        names = [f"thread-{n:02d}" for n in range(25)]
        for name in names:
            await wire.read(await wire.send(thread=name))
        whole = (await wire.get("/api/threads?limit=200")).json
        assert sorted(thread["id"] for thread in whole["threads"]) == names
        assert whole["next"] is None
        times = [thread["updatedAt"] for thread in whole["threads"]]
        assert times == sorted(times, reverse=True)
        for limit in (1, 7, 24, 25):
            found, after = [], ""
            while after is not None:
                page = (
                    await wire.get(f"/api/threads?limit={limit}{after and '&after='}{after}")
                ).json
                assert 0 < len(page["threads"]) <= limit
                found += page["threads"]
                after = page["next"]
            assert found == whole["threads"]


async def test_a_thread_is_renamed_and_deleted(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        await wire.read(await wire.send())
        before = (await wire.snapshot())["thread"]
        path = f"/api/threads/{THREAD}"
        renamed = await wire.ask("PATCH", path, {"title": "Ünder the sea 💩"})
        assert renamed.status == 200
        assert renamed.json["title"] == "Ünder the sea 💩"
        assert renamed.json["version"] > before["version"]
        assert (await wire.snapshot())["thread"] == renamed.json
        for _ in range(2):
            gone = await wire.ask("DELETE", path)
            assert (gone.status, gone.body) == (204, b"")
        assert (await wire.get("/api/threads")).json == {"threads": [], "next": None}


# The feed


async def changes(feed: Follower, count: int) -> list[Frame]:
    return [await feed.frame() for _ in range(count)]


def told(frames: list[Frame]) -> list[tuple[str, str]]:
    return [(frame.event["thread"], frame.event["state"]) for frame in frames]


async def test_the_feed_tells_every_change_and_no_content(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        feed = await wire.open("/api/feed")
        reset = await feed.frame()
        assert reset.event == {"reset": True}
        stream = await wire.send("a secret")
        voice.say("another secret")
        voice.stop()
        await wire.read(stream)
        await wire.ask("PATCH", f"/api/threads/{THREAD}", {"title": "a third secret"})
        await wire.ask("DELETE", f"/api/threads/{THREAD}")
        frames = await changes(feed, 4)
        assert told(frames) == [(THREAD, "running"), *[(THREAD, "idle")] * 3]
        for frame in frames:
            assert set(frame.event) == {"thread", "version", "state", "deleted"}
        assert [frame.event["deleted"] for frame in frames] == [False, False, False, True]
        versions = [frame.event["version"] for frame in frames[:3]]
        assert versions == sorted(set(versions))
        assert [frame.seq for frame in frames] == [reset.seq + n for n in (1, 2, 3, 4)]
        assert len({frame.stream for frame in feed.frames}) == 1


async def test_the_feeds_versions_are_the_snapshots(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        feed = await wire.open("/api/feed")
        await feed.frame()
        await wire.read(await wire.send())
        [_, ended] = await changes(feed, 2)
        thread = (await wire.snapshot())["thread"]
        assert (ended.event["version"], ended.event["state"]) == (thread["version"], "idle")


async def test_the_feed_goes_on_after_any_change(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        feed = await wire.open("/api/feed")
        await feed.frame()
        for n in range(5):
            await wire.read(await wire.send(thread=f"thread-{n:02d}"))
        await changes(feed, 10)
        for n in range(10):
            for how in ("header", "query"):
                after = feed.ids[n]
                if how == "header":
                    resumed = await wire.open("/api/feed", after=after)
                else:
                    resumed = await wire.open(f"/api/feed?lastEventId={after}")
                assert await changes(resumed, 10 - n) == feed.frames[n + 1 :]
                await resumed.close()


@pytest.mark.parametrize(
    "last",
    [
        "",
        "0",
        "x",
        "other:1",
        "{epoch}:",
        "{epoch}:-1",
        "{epoch}:x",
        "{epoch}:\xb2",
        "{epoch}:999999",
        "{epoch}:" + "9" * 5000,
        "{epoch}",
    ],
)
async def test_the_feed_starts_anew_for_an_id_it_does_not_know(tmp_path: Path, last: str) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        feed = await wire.open("/api/feed", after=last.format(epoch=wire.services.feed.epoch))
        assert (await feed.frame()).event == {"reset": True}


async def test_the_feed_of_another_life_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "u.db"
    async with wired(path, Scripted(says("a"))) as wire:
        await wire.read(await wire.send())
        feed = await wire.open("/api/feed")
        last = (await feed.frame()).id
    async with wired(path, Scripted(says("a"))) as wire:
        feed = await wire.open("/api/feed", after=last)
        assert (await feed.frame()).event == {"reset": True}


async def test_who_missed_more_than_the_feed_keeps_starts_anew(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        feed = await wire.open("/api/feed")
        first = (await feed.frame()).id
        await wire.read(await wire.send())
        for n in range(KEEP_CHANGES):
            wire.services.feed.publish(Change(THREAD, n, "idle"))
        resumed = await wire.open("/api/feed", after=first)
        assert (await resumed.frame()).event == {"reset": True}
        frames = await changes(feed, KEEP_CHANGES + 2)
        assert_gapless([frame.id or "" for frame in frames])


async def test_a_feed_reader_that_leaves_is_forgotten(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        for _ in range(50):
            feed = await wire.open("/api/feed")
            await feed.frame()
            await feed.close()
        with trio.fail_after(30):
            while _tasks() > 40:
                await trio.testing.wait_all_tasks_blocked(0.01)


def _tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living
