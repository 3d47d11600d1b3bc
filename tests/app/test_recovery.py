"""After a crash: what was said is kept, what was cut is asked again, what may have happened is not
done again, and every reader is led on (R1-R4, P33)."""

import itertools
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from sqlalchemy import select, update
from structlog.testing import capture_logs
from trio.testing import MockClock

from app import events as ev
from app.clock import WallClock
from app.config import Settings
from app.lifetime import compose
from app.models.catalogue import Catalogue, Limits
from app.models.errors import ModelError
from app.models.interface import (
    AssistantStep,
    Completion,
    ModelRequest,
    Sink,
    ToolResults,
    UserEntry,
)
from app.tools import Toolbox
from app.turns.intake import Accepted
from app.turns.steps import UNKNOWN_RESULT
from store import messages, schema, segments, turns
from store.database import Connection, open_database
from store.schema import stream, turn
from store.sqlite import wal_bytes
from tests.app import truth
from tests.app.crashes import crash, cut_log, image, images
from tests.app.world import Probe, ScriptedModel, Seen, Wall, calls, hangs, says, world


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one" / "unbroken.db"


# a crash at any moment


class Agent:
    """A model whose answers depend on the request alone, as those of a real one would.

    Step 0 says "one " and calls two tools, step 1 says "two " and calls one, step 2 fails once in
    each life and then says "three four five".
    """

    name = provider = model = "agent"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.failed = False

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        self.requests.append(request)
        step = steps_of(request)
        if step == 0:
            await say(sink, "one ")
            call(sink, "pay", '{"sum":1}')
            call(sink, "look", '{"at":1}')
        elif step == 1:
            sink.reasoning("hmm")
            await say(sink, "two ")
            call(sink, "look", '{"at":2}')
        else:
            await say(sink, "three ", "four ")
            if not self.failed:
                self.failed = True
                raise ModelError("Overloaded", code="MODEL_OVERLOADED", retryable=True)
            await say(sink, "five")
        usage = ev.Usage(input_tokens=10, output_tokens=step + 1)
        return Completion("tool-calls" if step < 2 else "stop", usage)


async def say(sink: Sink, *pieces: str) -> None:
    for piece in pieces:
        sink.text(piece)
        await trio.sleep(0.5)


def call(sink: Sink, name: str, input_text: str) -> None:
    id_ = sink.tool_start(name)
    sink.tool_delta(id_, input_text)
    sink.tool_ready(id_, input_text)


def steps_of(request: ModelRequest) -> int:
    """How many steps of the present answer are complete."""
    entries = itertools.takewhile(lambda e: not isinstance(e, UserEntry), request.entries[::-1])
    return sum(isinstance(entry, AssistantStep) for entry in entries)


class Tools:
    """`pay` must not happen twice; `look` may."""

    def __init__(self) -> None:
        self.pay = Probe("pay", done_after(0.5))
        self.look = Probe("look", done_after(0.2))
        self.look.idempotent = True
        self.box = Toolbox([self.pay, self.look])


def done_after(seconds: float) -> Callable[[Any], Awaitable[Any]]:
    async def do(_arguments: Any) -> Any:
        await trio.sleep(seconds)
        return {"done": True}

    return do


@pytest.mark.requirement("R1", "R3", "R4", "S5", "O4")
async def test_crash_after_any_commit_loses_and_repeats_nothing(
    autojump_clock: MockClock, path: Path
) -> None:
    """One crash at each moment of a turn that has everything: text, tools, a retry, an end."""
    first = await first_life(path)
    assert len(first.images) > 15
    dispatched = 0
    for number, moment in enumerate(first.images):
        after = await next_life(moment, first.stream)
        dispatched += after.check(first, number)
    assert dispatched >= 2, "some crashes came while the tool ran"


@pytest.mark.requirement("R1", "R2", "R3", "R4", "S5")
async def test_crash_while_recovering_from_a_crash(autojump_clock: MockClock, path: Path) -> None:
    """The second crash comes after any of the first commits of the second life."""
    first = await first_life(path)
    for number, moment in list(enumerate(first.images))[1::2]:
        second = await next_life(moment, first.stream, take=4)
        for again in second.images:
            third = await next_life(again, first.stream)
            third.check(first, number)


class Life:
    """What one life of the server did, and what a reader of its turn saw."""

    def __init__(self, stream: str, seen: Seen, model: Agent, tools: Tools) -> None:
        self.stream = stream
        self.seen = seen
        self.model = model
        self.tools = tools
        self.images: list[Path] = []
        self.row: turns.TurnRow

    def check(self, first: "Life", number: int) -> bool:
        """Compare with the life that was not cut. True if `pay` had begun and is unknown."""
        where = f"image {number}"
        assert self.seen.how == "end", where
        assert self.seen.outcome.outcome == "finished", where
        assert self.seen.text == first.seen.text == "one hmmtwo three four five", where
        parts = [part for part in self.seen.fold.parts() if part["type"] == "tool"]
        assert [part["toolName"] for part in parts] == ["pay", "look", "look"], where
        pay, *looks = parts
        unknown = pay.get("unknown", False)
        assert pay["state"] == ("output-error" if unknown else "output-available"), where
        assert {part["state"] for part in looks} == {"output-available"}, where
        self._check_requests(unknown, where)
        assert self.seen.outcome.usage == ev.Usage(input_tokens=30, output_tokens=6), where
        return bool(unknown)

    def _check_requests(self, unknown: bool, where: str) -> None:
        """The model is asked only for steps that were not complete, with all that came before."""
        asked = [steps_of(request) for request in self.model.requests]
        assert asked == sorted(asked), where
        for request in self.model.requests:
            question, *rest = request.entries
            assert isinstance(question, UserEntry), where
            assert question.text == "Hello", where
            for step, results in zip(rest[::2], rest[1::2], strict=True):
                assert isinstance(step, AssistantStep), where
                assert isinstance(results, ToolResults), where
                assert [r.call for r in results.results] == step.calls, where
                for result in results.results:
                    lost = unknown and result.call.name == "pay"
                    assert result.output == (UNKNOWN_RESULT if lost else {"done": True}), where
                    assert result.is_error == lost, where


async def first_life(path: Path) -> Life:
    """The whole turn, with an image after each commit that it had a part in."""
    model, tools = Agent(), Tools()
    async with world(path, model, tools=tools.box) as w:
        with images(w.services.database, path.parent.with_name("first")) as taken:
            accepted = await w.send(id_="message-one")
            seen = await w.read(accepted.turn.stream_id)
        await truth.check(w)
    life = Life(accepted.turn.stream_id, seen, model, tools)
    life.images = list(taken)
    return life


async def next_life(moment: Path, stream: str, take: int = 0) -> Life:
    """A restart on that image. A reader who had seen all there was resumes where it stood."""
    model, tools = Agent(), Tools()
    before = await seen_by(moment)
    async with world(moment, model, tools=tools.box) as w:
        with images(w.services.database, moment.parent / "next", take) as taken:
            seen = await w.read(stream, before.ids[-1] if before.ids else None)
        whole = await w.read(stream)
        assert before.ids + seen.ids == whole.ids, "each event once, in order, in all lives"
        assert before.events + seen.events == whole.events, "and as it was seen"
        paid = [name for name in dispatched(before.events) if name == "pay"]
        assert len(paid) + len(tools.pay.runs) <= 1, "paid twice"
        await truth.check(w)
        again = await w.send(id_="message-one")
        assert (again.repeated, again.turn.state) == (True, "finished")
        (answer,) = await w.answers()
        assert answer.parts == whole.fold.parts()
    life = Life(stream, whole, model, tools)
    life.images = list(taken)
    return life


async def seen_by(moment: Path) -> Seen:
    """What a reader has seen who followed the turn up to the moment of the image."""
    seen = Seen()

    def read(connection: Connection) -> bytes:
        numbers = connection.scalars(select(stream.c.number).order_by(stream.c.number)).all()
        found = [segments.read_after(connection, number, 0) for number in numbers]
        return b"".join(one.frames for several in found for one in several)

    async with open_database(moment, inline=True) as database:
        seen.feed(await database.read(read))
    return seen


def dispatched(events: list[Any]) -> list[str]:
    """Names of the tools that were started, as often as they were."""
    names: dict[str, str] = {}
    found = []
    for event in events:
        if isinstance(event, ev.ToolInputStart):
            names[event.tool_call_id] = event.tool_name
        elif isinstance(event, ev.ToolDispatched):
            found.append(names[event.tool_call_id])
    return found


# what is kept


@pytest.mark.requirement("R1", "S4")
async def test_broken_attempt_is_withdrawn_and_the_same_request_made_again(
    autojump_clock: MockClock, path: Path
) -> None:
    first = ScriptedModel(calls("probe", text="kept "), says("cut ", "off ", every=1))
    async with world(path, first, tools=Toolbox([Probe()])) as w:
        await w.answer("Earlier", thread="thread-00")
        first.requests.clear()
        accepted = await w.send(instructions="Be brief")
        await trio.sleep(1.5)
        (answer,) = await w.answers()
        types = [part["type"] for part in answer.parts]
        assert types == ["step-start", "text", "tool", "step-start", "text"]
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
    second = ScriptedModel(says("said again"))
    async with world(after, second, tools=Toolbox([Probe()])) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert seen.text == "kept said again"
        assert second.requests == [first.requests[-1]], "one request, the same one"
        assert (await w.turns())[0].recoveries == 1
        await truth.check(w)


@pytest.mark.requirement("R1", "R3", "O5")
async def test_reader_sees_a_snapshot_and_the_status_of_the_recovery(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(says("Hel", "lo", every=1))) as w:
        accepted = await w.send()
        await trio.sleep(1.5)
        after = await crash(w, "two")
        old = accepted.turn.stream_id
        await w.services.turns.cancel(old)
    async with world(after, ScriptedModel(says("Hello", every=1))) as w:
        (answer,) = await w.answers()  # before anything was said again
        assert answer.turn is not None
        assert answer.turn.status.state == "recovering"
        assert all("text" not in part for part in answer.parts)
        await trio.sleep(0.5)  # the model is asked, and has not answered
        (answer,) = await w.answers()
        assert answer.turn is not None
        assert answer.turn.status.state == "recovering"
        seen = await w.read(old)
        at = seen.types.index("Superseded")
        new = seen.events[at].stream
        assert seen.types[at : at + 3] == ["Superseded", "Snapshot", "Status"]
        assert seen.events[at + 2].state == "recovering"
        assert seen.ids[at : at + 2] == [(old, at + 1), (new, 1)]
        assert seen.text == "Hello"
        assert seen.fold.status is None
        # By either name, and the same message again leads to the new stream.
        assert (await w.read(new)).events == seen.events[at + 1 :]
        assert (await w.send(id_="message-0001")).turn.stream_id == new


@pytest.mark.requirement("C1", "C3")
async def test_turn_can_be_stopped_by_its_old_stream(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(calls("probe", text="kept "), hangs)) as w:
        accepted = await w.send()
        await trio.sleep(0.5)
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
    async with world(after, ScriptedModel(hangs)) as w:
        await trio.sleep(1)
        await w.services.turns.cancel(accepted.turn.stream_id)
        seen = await w.read(accepted.turn.stream_id)
        assert seen.outcome.code == "CANCELLED"
        assert seen.text == "kept "
        await truth.check(w)


@pytest.mark.requirement("R4", "T5")
async def test_acknowledged_message_is_there_and_answered(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        with images(w.services.database, path.parent.with_name("images")) as taken:
            accepted = await w.send("Are you there?")
        await w.services.turns.cancel(accepted.turn.stream_id)
    assert taken
    async with world(taken[0], ScriptedModel(says("Yes"))) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert await w.line() == ["Are you there?", "Yes"]
        assert seen.outcome.outcome == "finished"
        assert (await w.answer("Next")).text == "Yes"
        await truth.check(w)


@pytest.mark.requirement("R1", "R3", "L3")
async def test_power_cut_that_takes_unsynced_events_back(
    autojump_clock: MockClock, path: Path
) -> None:
    """Deltas are not synced: readers may have seen more than is there afterwards. They are at the
    end of what is there, and the successor's snapshot replaces what they saw."""
    model = ScriptedModel(calls("probe", text="kept "), says(*"abcdefghij", every=1))
    async with world(path, model, tools=Toolbox([Probe()])) as w:
        accepted = await w.send()
        stream = accepted.turn.stream_id
        await trio.sleep(1.5)
        synced = wal_bytes(path)
        reader = await w.services.journal.locate(stream)
        await trio.sleep(7)
        before = Seen()
        item = await reader.next()
        assert isinstance(item, bytes)
        before.feed(item)
        assert before.text == "kept abcdefgh"
        whole = await crash(w, "whole")
        await w.services.turns.cancel(stream)
    rng = random.Random(8)
    for number in range(12):
        cut = image(whole, path.parent / f"cut-{number}")
        cut_log(cut, rng.randint(synced, wal_bytes(whole)))
        async with world(cut, ScriptedModel(says("again")), tools=Toolbox([Probe()])) as w:
            for seq in (1, len(before.ids) // 2, len(before.ids)):
                seen = Seen()
                later = await w.read(stream, (stream, seq))
                for event in before.events[:seq] + later.events:
                    seen.fold.apply(event)
                (answer,) = await w.answers()
                assert answer.parts == seen.fold.parts()
                assert seen.text == "kept again"
                assert later.outcome.outcome == "finished"
            await truth.check(w)


# how often


@pytest.mark.requirement("R2")
@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_after_so_many_crashes_the_turn_is_given_up(
    autojump_clock: MockClock, path: Path, limit: int
) -> None:
    at = path
    accepted = None
    for number in range(limit + 1):
        model = ScriptedModel(calls("probe", text="kept "), says("lost", "?", every=1))
        if number:
            model.scripts.pop(0)
        async with world(at, model, tools=Toolbox([Probe()]), max_recoveries=limit) as w:
            accepted = accepted or await w.send()
            await trio.sleep(1.5)
            (row,) = await w.turns()
            assert (row.state, row.recoveries) == ("running", number)
            at = await crash(w, f"after-{number}")
            await w.services.turns.cancel(accepted.turn.stream_id)
    assert accepted is not None
    model = ScriptedModel(says("never"))
    async with world(at, model, max_recoveries=limit) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert (seen.outcome.outcome, seen.outcome.code) == ("interrupted", "RECOVERY_EXHAUSTED")
        assert seen.outcome.retryable
        assert seen.text == "kept lost", "what was said is kept"
        assert model.requests == []
        assert (await w.answer("Next", id_="message-next")).text == "never"
        await truth.check(w)


@pytest.mark.requirement("R2", "T7")
async def test_clean_restarts_are_not_counted(autojump_clock: MockClock, path: Path) -> None:
    stream = ""
    for number in range(6):
        async with world(path, ScriptedModel(hangs), max_recoveries=0) as w:
            stream = stream or (await w.send()).turn.stream_id
            await trio.sleep(1)
            (row,) = await w.turns()
            assert (row.state, row.recoveries, row.released) == ("running", 0, 0), number
    async with world(path, ScriptedModel(says("at last")), max_recoveries=0) as w:
        seen = await w.read(stream)
        assert (seen.outcome.outcome, seen.text) == ("finished", "at last")
        assert seen.types.count("Superseded") == 6
        await truth.check(w)


@pytest.mark.requirement("R2")
async def test_crash_after_a_clean_restart_is_counted(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(hangs), max_recoveries=0) as w:
        accepted = await w.send()
    async with world(path, ScriptedModel(hangs), max_recoveries=0) as w:
        await trio.sleep(1)
        after = await crash(w, "two")
    with capture_logs() as logged:
        async with world(after, ScriptedModel(says("never")), max_recoveries=0) as w:
            seen = await w.read(accepted.turn.stream_id)
            assert seen.outcome.code == "RECOVERY_EXHAUSTED"
    told = [(entry["event"], entry["code"]) for entry in logged if "life" in entry]
    assert told == [("a turn was ended at the start", "RECOVERY_EXHAUSTED")]


@pytest.mark.requirement("R1", "T7")
async def test_a_start_that_is_told_to_end_leaves_the_rest_to_the_next_one(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.turns.service.START_BATCH", 2)
    async with world(path, ScriptedModel(hangs)) as w:
        sent = [await w.send(thread=f"thread-{n:02d}") for n in range(5)]
        await trio.sleep(1)
        after = await crash(w, "crashed")
    model = ScriptedModel(hangs)
    async with open_database(after, inline=True) as database:
        services = compose(Settings(), database, Catalogue([(model, Limits())]), WallClock(Wall()))
        services.drain.set()
        with trio.fail_after(20):
            await services.turns.serve(services.drain)
        rows = await database.read(turns.open_turns)
    assert sorted((row.recoveries, row.released) for row in rows) == [(0, 0)] * 3 + [(1, 1)] * 2
    async with world(after, ScriptedModel(says("answer"))) as w:
        for one in sent:
            assert (await w.read(one.turn.stream_id)).text == "answer"
        await truth.check(w)


@pytest.mark.requirement("R1", "T4")
async def test_more_turns_than_are_taken_up_at_once(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some were running, some were waiting; each thread goes on in its order."""
    monkeypatch.setattr("app.turns.service.START_BATCH", 3)
    async with world(path, ScriptedModel(hangs)) as w:
        sent = [await w.send(f"{n}", thread=f"thread-{n % 4:02d}") for n in range(10)]
        await trio.sleep(1)
        after = await crash(w, "crashed")
    async with world(after, ScriptedModel(says("answer"))) as w:
        for one in sent:
            assert (await w.read(one.turn.stream_id)).text == "answer"
        assert await w.line("thread-01") == ["1", "answer", "5", "answer", "9", "answer"]
        await truth.check(w)


# what was asked for before


@pytest.mark.requirement("C1", "C3", "R1")
async def test_stop_that_was_asked_for_before_the_crash_is_kept(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(says("partial ", "text", every=1))) as w:
        accepted = await w.send()
        await trio.sleep(1.5)
        now = w.services.clock.now_ms()
        await w.services.database.write(  # on record, and then the power fails
            lambda c: turns.request_cancel(c, accepted.turn.number, now)
        )
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
    model = ScriptedModel(says("never"))
    async with world(after, model) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert (seen.outcome.outcome, seen.outcome.code) == ("cancelled", "CANCELLED")
        assert seen.text == "partial ", "what was said is kept"
        assert model.requests == []
        await truth.check(w)


@pytest.mark.requirement("T3", "R1")
async def test_deadline_that_passed_meanwhile_ends_the_turn(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(says("partial ", "x", every=40)), turn_timeout=90) as w:
        accepted = await w.send()
        await trio.sleep(50)
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
    model = ScriptedModel(says("never"))
    wall = Wall()
    wall.ahead = 100
    async with world(after, model, wall=wall, turn_timeout=90) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert (seen.outcome.outcome, seen.outcome.code) == ("aborted", "TURN_TIMEOUT")
        assert "90 seconds" in seen.outcome.text
        assert seen.text == "partial "
        assert model.requests == []
        await truth.check(w)


@pytest.mark.requirement("T3", "R1")
async def test_deadline_goes_on_after_a_restart(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs), turn_timeout=90) as w:
        accepted = await w.send()
        await trio.sleep(50)
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
        began = trio.current_time()
    async with world(after, ScriptedModel(hangs), turn_timeout=90) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert seen.outcome.code == "TURN_TIMEOUT"
        assert trio.current_time() - began == pytest.approx(40, abs=1)


# the queue


@pytest.mark.requirement("T4", "R1")
async def test_queue_survives_in_its_order(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        sent = [await w.send(f"question {n}") for n in range(4)]
        await trio.sleep(1)
        await w.services.turns.cancel(sent[2].turn.stream_id)
        after = await crash(w, "two")
        await w.services.turns.stop_thread("thread-01")
    model = ScriptedModel(says("answer", every=1))
    async with world(after, model) as w:
        states = [row.state for row in await w.turns()]
        assert states == ["running", "queued", "cancelled", "queued"]
        readers = [await w.read(one.turn.stream_id) for one in sent]
        assert [seen.outcome.outcome for seen in readers] == [
            "finished",
            "finished",
            "cancelled",
            "finished",
        ]
        asked = [request.entries[-1] for request in model.requests]
        assert [entry.text for entry in asked if isinstance(entry, UserEntry)] == [
            "question 0",
            "question 1",
            "question 3",
        ]
        waited = readers[3]
        at = waited.types.index("Superseded")
        assert waited.events[at + 2].state == "queued", "it still waits, and says so"
        assert "Start" in waited.types
        await truth.check(w)


@pytest.mark.requirement("T4", "R2")
async def test_what_waits_is_not_given_up_with_what_crashed(
    autojump_clock: MockClock, path: Path
) -> None:
    """A turn that kills the process again and again is interrupted; those behind it have done
    nothing and go on."""
    at = path
    sent: list[Accepted] = []
    for number in range(3):
        async with world(at, ScriptedModel(hangs), max_recoveries=2) as w:
            sent = sent or [await w.send(f"question {n}") for n in range(3)]
            await trio.sleep(1)
            at = await crash(w, f"after-{number}")
            await w.services.turns.stop_thread("thread-01")
    async with world(at, ScriptedModel(says("answer")), max_recoveries=2) as w:
        ends = [(await w.read(one.turn.stream_id)).outcome.outcome for one in sent]
        assert ends == ["interrupted", "finished", "finished"]
        assert [row.recoveries for row in await w.turns()][1:] == [0, 0]
        await truth.check(w)


@pytest.mark.requirement("R1", "R4", "T4", "O1")
@pytest.mark.parametrize("seed", range(4))
async def test_crash_at_any_commit_of_a_busy_thread(
    autojump_clock: MockClock, path: Path, seed: int
) -> None:
    """Messages queue, interrupt and are stopped; after a crash at any commit each of those that
    were accepted comes to its one end, in a line."""
    rng = random.Random(seed)
    model = ScriptedModel(calls("probe", text="a "), says("b ", "c ", "d ", every=0.5))
    model.scripts *= 10
    async with world(path, model, tools=Toolbox([Probe(do=done_after(0.3))])) as w:
        sent: list[Accepted] = []
        with images(w.services.database, path.parent.with_name("images")) as taken:
            for _ in range(8):
                during = rng.choice(["queue", "queue", "interrupt"])
                sent.append(await w.send(during=during))
                await trio.sleep(rng.choice([0, 0.2, 0.7]))
                if rng.random() < 0.4:
                    await w.services.turns.cancel(rng.choice(sent).turn.stream_id)
            await trio.sleep(rng.choice([0.5, 2]))
        await w.services.turns.stop_thread("thread-01")
        await truth.check(w)
    for moment in taken[1 :: 1 + len(taken) // 15]:
        model = ScriptedModel(says("again ", every=0.2))
        async with world(moment, model, tools=Toolbox([Probe()])) as w:
            await trio.sleep(0.05)
            await truth.check(w)  # right after the start: what is open has a task
            for row in await w.turns():
                await w.read(row.stream_id)
            await truth.check(w)
            rows = await w.turns()
            assert [row.id for row in rows] == [one.turn.id for one in sent[: len(rows)]]
            assert {row.state for row in rows} <= {"finished", "cancelled"}
            for row, one in zip(rows, sent, strict=False):
                seen = await w.read(one.turn.stream_id)
                assert seen.outcome.outcome == row.state
            before = len(await w.line())
            assert (await w.answer("Next", id_="message-next")).text == "again "
            assert len(await w.line()) == before + 2


@pytest.mark.requirement("T4", "C1")
async def test_stop_of_what_waits_is_kept(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        sent = [await w.send(f"question {n}") for n in range(2)]
        now = w.services.clock.now_ms()
        await w.services.database.write(lambda c: turns.request_cancel(c, sent[1].turn.number, now))
        after = await crash(w, "two")
        await w.services.turns.stop_thread("thread-01")
    async with world(after, ScriptedModel(says("answer"))) as w:
        ends = [(await w.read(one.turn.stream_id)).outcome.outcome for one in sent]
        assert ends == ["finished", "cancelled"]
        await truth.check(w)


@pytest.mark.requirement("R1")
async def test_many_threads_are_picked_up_at_once(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        sent = [await w.send(thread=f"thread-{n:02d}") for n in range(40)]
        await trio.sleep(1)
        after = await crash(w, "two")
    async with world(after, ScriptedModel(says("answer", every=1))) as w:
        began = trio.current_time()
        seen = [await w.read(one.turn.stream_id) for one in sent]
        assert {one.text for one in seen} == {"answer"}
        assert trio.current_time() - began < 5, "side by side"
        await truth.check(w)


# tools


@pytest.mark.requirement("S5", "R1")
async def test_tool_that_may_have_happened_is_unknown_and_not_run_again(
    autojump_clock: MockClock, path: Path
) -> None:
    """Case P36: the tool began, and its process died before the result was on record."""
    tool = Probe(do=done_after(100))
    async with world(path, ScriptedModel(calls("probe")), tools=Toolbox([tool])) as w:
        accepted = await w.send()
        await trio.sleep(1)
        assert len(tool.runs) == 1
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
    tool, model = Probe(), ScriptedModel(says("It may have happened."))
    async with world(after, model, tools=Toolbox([tool])) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert tool.runs == []
        (part,) = [part for part in seen.fold.parts() if part["type"] == "tool"]
        assert (part["state"], part["unknown"]) == ("output-error", True)
        results = model.requests[0].entries[-1]
        assert isinstance(results, ToolResults)
        assert [(one.output, one.is_error) for one in results.results] == [(UNKNOWN_RESULT, True)]
        await truth.check(w)
        # Later turns see it too (S6).
        await w.answer("Did it?", id_="message-two")
        assert model.requests[1].entries[2] == results


@pytest.mark.requirement("S5", "R1")
async def test_tool_that_may_be_repeated_is_run_again(
    autojump_clock: MockClock, path: Path
) -> None:
    tool = Probe(do=done_after(100))
    tool.idempotent = True
    async with world(path, ScriptedModel(calls("probe", '{"a":1}')), tools=Toolbox([tool])) as w:
        accepted = await w.send()
        await trio.sleep(1)
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
    tool, model = Probe(), ScriptedModel(says("Done."))
    tool.idempotent = True
    async with world(after, model, tools=Toolbox([tool])) as w:
        seen = await w.read(accepted.turn.stream_id)
        assert tool.runs == [{"a": 1}]
        (part,) = [part for part in seen.fold.parts() if part["type"] == "tool"]
        assert part["state"] == "output-available"
        assert len(model.requests) == 1
        await truth.check(w)


@pytest.mark.requirement("R1")
async def test_tool_that_is_not_there_any_more_is_unknown(
    autojump_clock: MockClock, path: Path
) -> None:
    tool = Probe(do=done_after(100))
    tool.idempotent = True
    async with world(path, ScriptedModel(calls("probe")), tools=Toolbox([tool])) as w:
        accepted = await w.send()
        await trio.sleep(1)
        after = await crash(w, "two")
        await w.services.turns.cancel(accepted.turn.stream_id)
    async with world(after, ScriptedModel(says("Gone.")), tools=Toolbox()) as w:
        seen = await w.read(accepted.turn.stream_id)
        (part,) = [part for part in seen.fold.parts() if part["type"] == "tool"]
        assert part["unknown"]
        assert seen.outcome.outcome == "finished"


# logs that are odd


@pytest.mark.requirement("O1", "O4", "R1")
async def test_log_that_holds_an_outcome_gets_its_bookkeeping(
    autojump_clock: MockClock, path: Path
) -> None:
    """No transaction of ours leaves one; an older or a mended database might."""
    async with world(path, ScriptedModel(says("Hello"))) as w:
        before = await w.answer()
        after = await crash(w, "two")

    def forget(connection: Connection) -> None:
        (row,) = turns.of_thread(connection, "thread-01")
        connection.execute(update(turn).values(state="running", ended_at=None, outcome=None))
        connection.execute(update(stream).values(ended_at=None))
        messages.set_parts(connection, row.id, b"[]")

    async with open_database(after, inline=True) as database:
        await database.write(forget)
    model = ScriptedModel(says("again"))
    async with world(after, model) as w:
        (row,) = await w.turns()
        assert row.state == "finished"
        assert (await w.read(row.stream_id)).events == before.events
        assert await w.line() == ["Hello", "Hello"]
        assert model.requests == []
        await truth.check(w)


@pytest.mark.requirement("R1", "R2", "O1")
@pytest.mark.parametrize("what", ["step", "frames"])
async def test_turn_that_cannot_be_read_does_not_keep_the_server_from_starting(
    autojump_clock: MockClock, path: Path, what: str
) -> None:
    """It is ended; the others go on, also the one that waits behind it."""
    async with world(path, ScriptedModel(calls("wait", '{"seconds": 100}'))) as w:
        broken = await w.send()
        behind = await w.send("behind")
        beside = await w.send(thread="thread-02")
        await trio.sleep(1)
        after = await crash(w, "two")
    number = broken.turn.stream

    def spoil(connection: Connection) -> None:
        if what == "step":
            mine = schema.step.c.turn == broken.turn.number
            connection.execute(update(schema.step).where(mine).values(record=b"{"))
        else:
            seq = segments.last_seq(connection, number) + 1
            segments.append(connection, [segments.Segment(number, seq, 1, b"no frame\n\n")])

    async with open_database(after, inline=True) as database:
        await database.write(spoil)
    async with world(after, ScriptedModel(says("Hello"))) as w:
        for one in (beside, behind):
            assert (await w.read(one.turn.stream_id)).outcome.outcome == "finished"
        (row, _) = await w.turns()
        assert row.state == "failed"
        seen = await w.read(row.stream_id)
        assert (seen.outcome.code, seen.outcome.retryable) == ("INTERNAL", True)


@pytest.mark.requirement("R1")
async def test_events_of_a_newer_version_do_not_keep_the_server_from_starting(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(hangs)) as w:
        accepted = await w.send()
        await trio.sleep(1)
        after = await crash(w, "two")
    (number, name) = (accepted.turn.stream, accepted.turn.stream_id)

    def add(connection: Connection) -> None:
        seq = segments.last_seq(connection, number) + 1
        unknown = b'id: %b:%d\ndata: {"type":"sound","pitch":440}\n\n' % (name.encode(), seq)
        segments.append(connection, [segments.Segment(number, seq, 1, unknown)])

    async with open_database(after, inline=True) as database:
        await database.write(add)
    async with world(after, ScriptedModel(says("Hello"))) as w:
        (row,) = await w.turns()
        seen = await w.read(row.stream_id)
        assert (seen.outcome.outcome, seen.text) == ("finished", "Hello")
