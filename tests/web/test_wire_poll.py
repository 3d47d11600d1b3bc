"""The long poll: the same log, in pieces that any HTTP client can fetch."""

import random
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, says
from tests.web.inside import Voice
from tests.web.wire import JSON, THREAD, Wire, assert_gapless, text_of, wired
from web.routes.streams import POLL_BYTES, POLL_EVENTS, POLL_SECONDS


class Poller:
    """Polls a stream to its end."""

    def __init__(self, wire: Wire, stream: str, after: str = "") -> None:
        self.wire, self.stream, self.cursor = wire, stream, after
        self.events: list[Any] = []
        self.polls = 0

    async def poll(self, wait: float | None = None) -> Any:
        self.polls += 1
        found = await self.wire.poll(self.stream, self.cursor, wait)
        assert set(found) == {"events", "cursor", "ended"}
        self.events += found["events"]
        if found["events"]:
            assert found["cursor"] == found["events"][-1]["id"]
        self.cursor = found["cursor"]
        return found

    async def to_the_end(self, wait: float | None = None) -> "Poller":
        while not (await self.poll(wait))["ended"]:
            pass
        return self

    @property
    def ids(self) -> list[str]:
        return [one["id"] for one in self.events]

    @property
    def text(self) -> str:
        return text_of(one["event"] for one in self.events)


@pytest.mark.requirement("L3", "M3")
@pytest.mark.parametrize("wait", [0, 0.0, 30, None])
async def test_what_is_there_comes_at_once_however_short_the_wait(
    tmp_path: Path, wait: float | None
) -> None:
    """Also from the store, which takes a moment to read."""
    async with wired(tmp_path / "u.db", Scripted(says("a", "data: b", "c")), inline=False) as wire:
        stream = await wire.send()
        whole = await wire.read(stream)
        poller = Poller(wire, stream)
        found = await poller.poll(wait)
        assert [(one["id"], one["event"]) for one in found["events"]] == whole.frames
        assert found["ended"] is True
        assert found["cursor"] == whole.cursor
        assert await poller.poll(wait) == {"events": [], "cursor": whole.cursor, "ended": True}


async def test_a_poll_waits_for_what_comes(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        stream = await wire.send()
        poller = Poller(wire, stream)
        await poller.poll()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.poll)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert poller.text == ""
            voice.say("word")
        while not poller.text:
            await poller.poll()
        assert poller.text == "word"
        assert_gapless(poller.ids)


async def test_a_poll_of_a_silent_stream_ends_with_its_wait(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        poller = Poller(wire, await wire.send())
        while (await poller.poll(0))["events"]:
            pass
        cursor = poller.cursor
        for wait, expected in ((0, 0), (1, 1), (7.5, 7.5), (30, 30), (None, POLL_SECONDS)):
            began = trio.current_time()
            found = await poller.poll(wait)
            assert found == {"events": [], "cursor": cursor, "ended": False}
            assert trio.current_time() - began == pytest.approx(expected, abs=0.5)


@pytest.mark.requirement("T7")
async def test_a_waiting_poll_is_answered_at_a_shutdown(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        stream = await wire.send()
        poller = Poller(wire, stream)
        while (await poller.poll(0))["events"]:
            pass
        path = f"/api/streams/{stream}?after={poller.cursor}"
        exchange = await wire.start("GET", path, headers={"Accept": JSON})
        await trio.testing.wait_all_tasks_blocked(0.05)
        wire.services.shut_down()
        answer = await exchange.answer()
        assert answer.json == {"events": [], "cursor": poller.cursor, "ended": False}


@pytest.mark.requirement("L3")
async def test_an_answer_has_a_thousand_events_at_most(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        stream = await wire.send()
        reader = await wire.follow(stream)
        for n in range(2 * POLL_EVENTS + 500):
            voice.say(f"{n},")  # each becomes an event of its own: it waits for the one before
            await reader.until_text(f"{n},")
        poller = Poller(wire, stream)
        assert len((await poller.poll())["events"]) == POLL_EVENTS  # from memory
        voice.stop()
        await reader.rest()
        await poller.to_the_end()
        assert poller.ids == reader.ids
        again = await Poller(wire, stream).to_the_end()  # from the store
        assert again.events == poller.events
        assert poller.text == reader.text


@pytest.mark.requirement("L3")
async def test_an_answer_has_about_a_megabyte_at_most(tmp_path: Path) -> None:
    pieces = [str(n % 10) * 300_000 for n in range(12)]
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        stream = await wire.send()
        reader = await wire.follow(stream)
        for piece in pieces:
            voice.say(piece)
            await reader.until_text(piece)
        for ending in (False, True):  # from memory, then from the store
            if ending:
                voice.stop()
                await reader.rest()
            poller = Poller(wire, stream)
            while poller.cursor != reader.cursor:
                path = f"/api/streams/{stream}?after={poller.cursor}"
                size = len((await wire.get(path, accept=JSON)).body)
                assert size < POLL_BYTES + 100_000
                await poller.poll()
            assert poller.text == "".join(pieces)
            assert poller.ids == reader.ids


@pytest.mark.requirement("L3")
async def test_an_event_larger_than_an_answer_is_given_alone(tmp_path: Path) -> None:
    text = "x" * (2 * POLL_BYTES)
    async with wired(tmp_path / "u.db", Scripted(says("a", text, "b"))) as wire:
        stream = await wire.send()
        poller = await Poller(wire, stream).to_the_end(0)
        assert poller.text == f"a{text}b"
        assert poller.events == [
            {"id": frame.id, "event": frame.event} for frame in (await wire.read(stream)).frames
        ]


@pytest.mark.requirement("R3", "L3")
async def test_a_poll_is_led_to_the_successor(tmp_path: Path) -> None:
    path = tmp_path / "u.db"
    voice = Voice()
    async with wired(path, voice) as wire:
        stream = await wire.send()
        poller = Poller(wire, stream)
        voice.say("half")
        while poller.text != "half":
            await poller.poll()
    async with wired(path, Scripted(says("whole"), name="voice")) as wire:
        before = len(poller.ids)
        poller.wire = wire
        await poller.to_the_end()
        types = [one["event"]["type"] for one in poller.events[before:]]
        assert types[:3] == ["superseded", "snapshot", "status"]
        assert types[-1] == "outcome"
        assert_gapless(poller.ids[: before + 1])
        assert_gapless(poller.ids[before + 1 :])
        assert not poller.cursor.startswith(stream)
        assert text_of(one["event"] for one in poller.events[before:]) == "whole"


@pytest.mark.requirement("L3", "M3")
@pytest.mark.parametrize("seed", range(10))
async def test_polls_and_streams_of_any_order_see_the_same(tmp_path: Path, seed: int) -> None:
    """Readers of both kinds come, go and resume at random while the answer is written: each sees
    each event once, and all see the same."""
    dice = random.Random(seed)
    pieces = [dice.choice(["|", " ", "a", "\n", "| a |", "data: ", "\n\n"]) for _ in range(120)]
    voice = Voice()

    async def polls(wire: Wire, stream: str, results: list[Any]) -> None:
        poller = Poller(wire, stream)
        while not (await poller.poll(dice.choice([0, 0, 5, 30])))["ended"]:
            for _ in range(dice.randrange(20)):
                await trio.lowlevel.checkpoint()
        results.append([(one["id"], one["event"]) for one in poller.events])

    async def follows(wire: Wire, stream: str, results: list[Any]) -> None:
        frames: list[Any] = []
        while not frames or frames[-1].event["type"] != "outcome":
            after = frames[-1].id if frames else None
            by_thread = dice.random() < 0.5 and after is not None
            path = f"/api/threads/{THREAD}/stream" if by_thread else f"/api/streams/{stream}"
            reader = await wire.open(path, after=after)
            for _ in range(dice.randrange(1, 40)):
                frames.append(await reader.frame())
                if frames[-1].event["type"] == "outcome":
                    break
            await reader.close()
        results.append([tuple(frame) for frame in frames])

    async def speaks() -> None:
        for piece in pieces:
            voice.say(piece)
            for _ in range(dice.randrange(10)):
                await trio.lowlevel.checkpoint()
        voice.stop()

    async with wired(tmp_path / "u.db", voice, inline=bool(seed % 2)) as wire:
        stream = await wire.send()
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            for kind in (polls, follows) * 4:
                nursery.start_soon(kind, wire, stream, results)
            nursery.start_soon(speaks)
        assert len(results) == 8
        assert all(result == results[0] for result in results)
        assert_gapless([id_ for id_, _ in results[0]])
        assert text_of(event for _, event in results[0]) == "".join(pieces)
