"""SIGTERM to a real server: readers are told and let go, turns get their grace, nothing is lost
(T7, P34)."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import trio

from tests.crash.client import Broken, Turn, new_http
from tests.crash.server import PATIENCE_SECONDS, RunningServer, environment, running_server

# What a loaded machine may add to any of the bounds.
SLACK_SECONDS = 10.0
# A turn that says one thing and is then silent for ten minutes.
QUIET = "m=1 rate=0 size=40 tail=600000"


@pytest.mark.requirement("T7")
async def test_idle_readers_do_not_hold_up_the_end(tmp_path: Path) -> None:
    """Case P34 (a): readers are told at once, and the end comes within grace + 2 s."""
    grace = 1.0
    with running_server(tmp_path, model="bench", grace=str(grace)) as server:
        readers = [Turn(server, "quiet", QUIET) for _ in range(3)]
        async with new_http() as http, trio.open_nursery() as nursery:
            await readers[0].send(http)
            for reader in readers:
                reader.stream = readers[0].stream
                nursery.start_soon(reader.follow_as_far_as_it_lives, http)
            for reader in readers:
                await reader.until(kind="text-delta")
            server.terminate()
            began = time.monotonic()
            for reader in readers:
                await reader.until(comment="draining")
            told = time.monotonic() - began
            code = await trio.to_thread.run_sync(server.wait)
            took = time.monotonic() - began
        assert code == 0
        assert told < grace + SLACK_SECONDS
        assert took < grace + 2 + SLACK_SECONDS
        assert [reader.comments[-1] for reader in readers] == ["draining"] * 3
        assert not any(reader.ended for reader in readers), "it goes on later"
        assert row(server) == ("running", 0, 1), "released, not crashed"


@pytest.mark.requirement("T7")
async def test_server_without_turns_ends_at_once(tmp_path: Path) -> None:
    with running_server(tmp_path, grace="600") as server:
        async with new_http() as http, trio.open_nursery() as nursery:
            opened = trio.Event()

            async def watch() -> None:
                async with http.stream("GET", f"{server.url}/api/feed") as response:
                    async for _ in response.aiter_raw():
                        opened.set()

            nursery.start_soon(watch)
            with trio.fail_after(PATIENCE_SECONDS):
                await opened.wait()
            server.terminate()
            assert await trio.to_thread.run_sync(server.wait, 2 + SLACK_SECONDS) == 0


@pytest.mark.requirement("T7", "L5")
async def test_reader_that_stopped_reading_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """Case P34 (b): its connection is full, so it can be told nothing."""
    with running_server(tmp_path, model="bench", grace="0") as server:
        turn = Turn(server, "flood", "m=40000 rate=0 size=400 tail=600000")
        async with new_http() as http, trio.open_nursery() as nursery:
            await turn.send(http)
            stuck = await open_and_never_read(server, turn.stream)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
            await turn.until(size=8_000_000)
            server.terminate()
            assert await trio.to_thread.run_sync(server.wait, 10 + SLACK_SECONDS) == 0
        await stuck.aclose()
        server.start(max_recoveries="0")
        assert row(server)[0] == "running", "it goes on in the next life"


@pytest.mark.requirement("T7")
async def test_turn_may_end_in_its_grace(tmp_path: Path) -> None:
    with running_server(tmp_path, model="bench", grace="60") as server:
        turn = Turn(server, "grace", "m=100 rate=100 size=40")
        async with new_http() as http, trio.open_nursery() as nursery:
            await turn.send(http)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
            await turn.until(frames=10)
            server.terminate()
            assert await trio.to_thread.run_sync(server.wait) == 0
        assert turn.comments[-1] == "draining"
        assert row(server)[0] == "finished"
        server.start()
        async with new_http() as http:
            await turn.finish(http)
        assert turn.outcome["outcome"] == "finished"
        assert "superseded" not in turn.kinds


@pytest.mark.requirement("T7", "R1", "R2")
async def test_turn_that_did_not_end_goes_on_and_no_crash_is_counted(tmp_path: Path) -> None:
    """However often: with `max_recoveries=0` a single crash would have ended it."""
    text = "m=150 rate=100 size=40"
    with running_server(tmp_path, model="bench", grace="0", max_recoveries="0") as server:
        turn = Turn(server, "deploys", text)
        for _ in range(3):
            async with new_http() as http, trio.open_nursery() as nursery:
                if not turn.stream:
                    await turn.send(http)
                nursery.start_soon(turn.follow_as_far_as_it_lives, http)
                await turn.until(frames=len(turn.frames) + 10)
                server.terminate()
                assert await trio.to_thread.run_sync(server.wait) == 0
            assert row(server) == ("running", 0, 1)
            await trio.to_thread.run_sync(server.start)
        async with new_http() as http:
            await turn.finish(http)
            whole = await turn.whole(http)
        assert whole.frames == turn.frames
        assert turn.kinds.count("superseded") == 3
        assert turn.outcome["outcome"] == "finished"


@pytest.mark.requirement("T7", "R2")
async def test_second_signal_ends_it_at_once_and_no_crash_is_counted(tmp_path: Path) -> None:
    with running_server(tmp_path, model="bench", grace="600", max_recoveries="0") as server:
        turn = Turn(server, "twice", QUIET)
        async with new_http() as http, trio.open_nursery() as nursery:
            await turn.send(http)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
            await turn.until(kind="text-delta")
            server.terminate()
            await turn.until(comment="draining")
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(0.2)  # the grace goes on
            server.terminate()
            assert await trio.to_thread.run_sync(server.wait, 2 + SLACK_SECONDS) == 0
        assert row(server) == ("running", 0, 1)
        server.start()
        assert row(server)[0] == "running", "it goes on in the next life"


@pytest.mark.requirement("T7", "R2")
async def test_kill_within_the_grace_is_no_crash_either(tmp_path: Path) -> None:
    """What stops a service or a container asks first, and kills before a long grace is over."""
    with running_server(tmp_path, model="bench", grace="600", max_recoveries="0") as server:
        turn = Turn(server, "impatient", "m=150 rate=100 size=40")
        async with new_http() as http, trio.open_nursery() as nursery:
            await turn.send(http)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
            await turn.until(kind="text-delta")
            title = b'{"title": "Later"}'
            async with await connect(server) as connection:
                head = f"PATCH /api/threads/{turn.thread} HTTP/1.1\r\nHost: localhost\r\n"
                await connection.send_all(f"{head}Content-Length: {len(title)}\r\n\r\n".encode())
                server.terminate()
                await turn.until(comment="draining")
                # What is written now is written behind what the shutdown wrote first.
                await connection.send_all(title)
                assert (await connection.receive_some(1024)).startswith(b"HTTP/1.1 200")
            server.kill9()
        assert row(server) == ("running", 0, 1)
        server.start()
        async with new_http() as http:
            await turn.finish(http)
        assert turn.outcome["outcome"] == "finished"
        assert turn.kinds.count("superseded") == 1


@pytest.mark.requirement("T7")
async def test_nothing_new_is_accepted_while_it_ends(tmp_path: Path) -> None:
    with running_server(tmp_path, model="bench", grace="600") as server:
        turn = Turn(server, "late", QUIET)
        async with new_http() as http, trio.open_nursery() as nursery:
            await turn.send(http)
            nursery.start_soon(turn.follow_as_far_as_it_lives, http)
            await turn.until(kind="text-delta")
            server.terminate()
            await turn.until(comment="draining")
            with pytest.raises(Broken):
                async with new_http() as other:
                    await Turn(server, "refused", QUIET).send(other)
            server.kill9()


async def test_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        done = await trio.to_thread.run_sync(run_second, server)
        assert done.returncode == 1
        assert f"process {server.pid}" in done.stderr
        assert "Traceback" not in done.stderr
        async with new_http() as http:
            assert (await http.get(f"{server.url}/healthz")).status_code == 200


@pytest.mark.requirement("T7")
@pytest.mark.parametrize("gap", [0.001, 0.005, 0.01, 0.02, 0.05])
def test_more_ctrl_c_than_needed_ends_it_without_a_traceback(tmp_path: Path, gap: float) -> None:
    """Wherever in the end the second and the third find it: the store is closed."""
    with running_server(tmp_path) as server:
        for _ in range(3):
            server.interrupt()
            time.sleep(gap)
        # By one that came when all was done: 130, or in the interpreter's own end by it.
        assert server.wait() in (0, 130, -signal.SIGINT)
        assert "Traceback" not in server.output.read_text("utf-8")
        assert not server.database.with_name("unbroken.db-wal").exists(), "closed, not abandoned"


@pytest.mark.requirement("T7")
@pytest.mark.parametrize("after", [0.3, 0.5, 0.7, 0.9, 1.1])
def test_ctrl_c_while_it_starts_is_not_answered_with_a_traceback(
    tmp_path: Path, after: float
) -> None:
    command = [sys.executable, "-m", "app", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(
        command, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    # The interpreter itself, before our first line, dies of it.
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "Traceback" not in said
    assert "Aborted" not in said


# shorthands


async def open_and_never_read(server: RunningServer, stream: str) -> trio.SocketStream:
    """A reader with a small buffer that asks for a stream and then does nothing."""
    connection = await connect(server, buffer=4096)
    await connection.send_all(
        f"GET /api/streams/{stream} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    )
    return connection


async def connect(server: RunningServer, buffer: int = 65536) -> trio.SocketStream:
    host, _, port = server.url.removeprefix("http://").partition(":")
    sock = trio.socket.socket()
    sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, buffer)
    await sock.connect((host, int(port)))
    return trio.SocketStream(sock)


def row(server: RunningServer) -> tuple[str, int, int]:
    """State, recoveries and release of the one turn there is."""
    with closing(sqlite3.connect(server.database)) as database:
        found = database.execute("SELECT state, recoveries, released FROM turn").fetchall()
    ((state, recoveries, released),) = found
    return state, recoveries, released


def run_second(server: RunningServer) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", "--port", "0", "--data", str(server.data)],
        env=environment(server.settings),
        cwd=server.data,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
