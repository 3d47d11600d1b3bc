"""`kill -9` of a real server, at any moment of real turns (R1-R4, P33).

What is random is printed and the same in each run; what a kill meets exactly is not.
"""

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx2
import pytest
import trio

from tests.crash.client import Broken, Turn, new_http
from tests.crash.server import PATIENCE_SECONDS, RunningServer, running_server

# Of the benchmark's model: 0.4 seconds of text.
DELTAS = 120
TEXT = f"m={DELTAS} rate=300 size=40"
SHORT = "m=3 rate=0 size=40"
MARKER = re.compile(r"~(\d{6}):\d{16}~")


# Some forty starts of a server; a busy machine takes several times as long for each as an idle one.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path, model="bench", heartbeat="1") as server:
        yield server


@pytest.mark.requirement("R1", "R3", "R4", "L2", "L3", "T5", "O2")
async def test_twenty_kills_lose_and_repeat_nothing(server: RunningServer) -> None:
    """Three turns at a time, each at another point of its life when the server is killed."""
    rng = random.Random(20)
    recovered = 0
    for number in range(20):
        turns = [Turn(server, f"{number:02d}-{n}", TEXT) for n in range(3)]
        moment = rng.uniform(0.0, 0.7)
        async with new_http() as http, trio.open_nursery() as nursery:
            for turn in turns:
                nursery.start_soon(use, turn, http, rng.uniform(0.0, 0.2))
            await trio.sleep(moment)
            server.kill9()
        seen = [len(turn.frames) for turn in turns]
        print(f"kill {number} after {moment:.3f} s: events seen {seen}")
        await restart(server)
        async with new_http() as http:
            for turn in turns:
                await turn.finish(http)
                await check(turn, http, DELTAS)
                recovered += "superseded" in turn.kinds
    assert recovered >= 20, "most kills met a turn that ran"
    await check_database(server, turns=60)


@pytest.mark.requirement("R4", "T5")
async def test_kills_around_the_acknowledgement(server: RunningServer) -> None:
    """Before the 202 the message is there or not, and sending it again is right; after it, it is
    there."""
    rng = random.Random(202)
    acknowledged = 0
    for number in range(6):
        turns = [Turn(server, f"{number:02d}-post-{n}", SHORT) for n in range(4)]
        async with new_http() as http, trio.open_nursery() as nursery:
            for turn in turns:
                nursery.start_soon(use, turn, http, rng.uniform(0.0, 0.02))
            if number % 2:
                with trio.fail_after(PATIENCE_SECONDS):
                    await turns[0].acknowledged.wait()
            else:
                await trio.sleep(rng.uniform(0.01, 0.03))
            server.kill9()
        print(f"kill {number}: acknowledged {[bool(turn.stream) for turn in turns]}")
        await restart(server)
        async with new_http() as http:
            for turn in turns:
                if turn.stream:
                    acknowledged += 1
                    await turn.snapshot(http)  # it is there before anybody sends it again
                await turn.finish(http)
                await check(turn, http, 3)
    assert 3 <= acknowledged < 24
    await check_database(server, turns=24)


@pytest.mark.requirement("R1", "R4", "O1", "O4")
async def test_kills_around_the_terminal_record(server: RunningServer) -> None:
    """Turns so short that each kill comes about when one ends: it has ended, or it runs again."""
    rng = random.Random(4)
    ended = 0
    for number in range(6):
        turns = [Turn(server, f"{number:02d}-end-{n}", SHORT) for n in range(4)]
        async with new_http() as http, trio.open_nursery() as nursery:
            for turn in turns:
                nursery.start_soon(use, turn, http, rng.uniform(0.0, 0.03))
            await turns[0].until(frames=rng.randint(1, 7))
            await trio.sleep(rng.uniform(0.0, 0.005))
            server.kill9()
        print(f"kill {number}: events seen {[len(turn.frames) for turn in turns]}")
        ended += sum(turn.ended for turn in turns)
        await restart(server)
        async with new_http() as http:
            for turn in turns:
                await turn.finish(http)
                await check(turn, http, 3)
    assert ended < 24
    await check_database(server, turns=24)


@pytest.mark.requirement("R2", "R3")
async def test_turn_that_is_killed_too_often_is_given_up(server: RunningServer) -> None:
    turn = Turn(server, "again", "m=2000 rate=200 size=40")
    for number in range(4):
        async with new_http() as http, trio.open_nursery() as nursery:
            if not turn.stream:
                await turn.send(http)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
            await turn.until(frames=len(turn.frames) + 20)
            server.kill9()
        await restart(server)
        assert turn.kinds.count("superseded") == number
    async with new_http() as http:
        await turn.finish(http)
        assert turn.kinds.count("superseded") == 4
        assert (turn.outcome["outcome"], turn.outcome["code"]) == (
            "interrupted",
            "RECOVERY_EXHAUSTED",
        )
        whole = await turn.whole(http)
        assert whole.frames == turn.frames
        following = Turn(server, "following", SHORT)
        await following.finish(http)
        await check(following, http, 3)
    await check_database(server, turns=2)


@pytest.mark.requirement("S5", "R1")
async def test_tool_whose_process_was_killed_is_not_run_again(tmp_path: Path) -> None:
    """Case P36, with a real process."""
    with running_server(tmp_path, model="demo") as server:
        turn = Turn(server, "tool", "tool 30")
        async with new_http() as http, trio.open_nursery() as nursery:
            await turn.send(http)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
            await turn.until(kind="tool-dispatched")
            server.kill9()
        await restart(server)
        async with new_http() as http:
            await turn.finish(http)  # at once: nothing waits thirty seconds again
            whole = await turn.whole(http)
        assert whole.frames == turn.frames
        assert turn.kinds.count("tool-dispatched") == 1
        (part,) = [part for part in turn.fold().parts() if part["type"] == "tool"]
        assert (part["state"], part["unknown"]) == ("output-error", True)
        assert turn.outcome["outcome"] == "finished"
        await check_database(server, turns=1)


@pytest.mark.requirement("T4", "R1")
async def test_queue_survives_a_kill(server: RunningServer) -> None:
    turns = [Turn(server, f"queue-{n}", TEXT) for n in range(3)]
    for turn in turns:
        turn.thread = "thread-of-them-all"
    async with new_http() as http, trio.open_nursery() as nursery:
        for turn in turns:
            await turn.send(http)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
        await turns[0].until(frames=20)
        server.kill9()
    await restart(server)
    async with new_http() as http:
        for turn in turns:
            await turn.finish(http)
            assert markers(turn) == list(range(DELTAS))
        snapshot = await turns[0].snapshot(http)
    ends = [turn.outcome["at"] for turn in turns]
    assert ends == sorted(ends), "in the order they were sent"
    assert snapshot["thread"]["state"] == "idle"
    questions = [message["id"] for message in snapshot["messages"] if message["role"] == "user"]
    assert questions == [turn.message for turn in turns]
    await check_database(server, turns=3)


# what clients do


async def use(turn: Turn, http: httpx2.AsyncClient, begin: float) -> None:
    """Send after `begin` seconds and follow, as far as the server lives."""
    await trio.sleep(begin)
    with suppress(Broken):
        await turn.send(http)
        await turn.follow(http)


async def restart(server: RunningServer) -> None:
    await trio.to_thread.run_sync(server.restart)


# what must be true then


def markers(turn: Turn) -> list[int]:
    text = "".join(part.get("text", "") for part in turn.fold().parts())
    return [int(number) for number in MARKER.findall(text)]


async def check(turn: Turn, http: httpx2.AsyncClient, deltas: int) -> None:
    """The turn finished; all that was ever seen of it is in the log, once, with the same bytes."""
    assert turn.outcome["outcome"] == "finished"
    assert markers(turn) == list(range(deltas)), "each word once, in order"
    whole = await turn.whole(http)
    assert whole.frames == turn.frames
    snapshot = await turn.snapshot(http)
    assert snapshot["thread"]["state"] == "idle"
    question, answer = snapshot["messages"]
    assert (question["id"], question["parts"][0]["text"]) == (turn.message, turn.text)
    assert answer["parts"] == turn.fold().parts()
    assert answer["turn"]["outcome"] == turn.outcome | {"type": "outcome"}


async def check_database(server: RunningServer, turns: int) -> None:
    """Of the stopped server: every turn has its end, its one outcome, and logs without a hole."""
    server.terminate()
    assert await trio.to_thread.run_sync(server.wait) == 0
    with closing(sqlite3.connect(server.database)) as database:

        def number(query: str) -> int:
            return int(database.execute(query).fetchone()[0])

        assert number("SELECT count(*) FROM turn") == turns
        assert number("SELECT count(*) FROM turn WHERE ended_at IS NULL OR outcome IS NULL") == 0
        assert number("SELECT count(*) FROM stream WHERE ended_at IS NULL") == 0
        outcomes = b'"type":"outcome"'
        found = database.execute("SELECT frames FROM segment").fetchall()
        assert sum(frames.count(outcomes) for (frames,) in found) == turns
        holes = """
            SELECT count(*) FROM (
                SELECT last_seq - events AS first,
                       lag(last_seq, 1, 0) OVER (PARTITION BY stream ORDER BY last_seq) AS before
                FROM segment)
            WHERE first <> before"""
        assert number(holes) == 0
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
