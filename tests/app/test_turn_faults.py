"""A store that fails, a program that is wrong: each turn ends, the others run on (L9, O4)."""

import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from app import events as ev
from app.errors import NotFoundError, StoreError
from app.tools import Toolbox
from app.turns import ending, supervisor
from app.turns.state import TRANSITIONS, IllegalTransitionError, State, advance
from store import search, streams, threads
from store.errors import StreamClosedError
from tests.app import truth
from tests.app.world import Paused, Probe, ScriptedModel, World, calls, follow, hangs, says, world


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


@contextmanager
def broken_store(w: World) -> Iterator[None]:
    """No commit works."""
    writer = w.services.database._writer
    commit = writer._commit

    def refuse(_batch: Any) -> None:
        raise OSError("the disk is full")

    writer._commit = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        writer._commit = commit  # type: ignore[method-assign]


# The store


@pytest.mark.requirement("L9", "L2")
async def test_live_readers_are_told_and_the_outcome_follows(
    autojump_clock: MockClock, path: Path
) -> None:
    running = Paused("kept ", after="lost")
    model = ScriptedModel(running, says("fine"))
    async with world(path, model) as w:
        sent = await w.send()
        await running.reached.wait()
        reader = await w.services.journal.locate(sent.turn.stream_id)
        await wait_all_tasks_blocked()
        with broken_store(w):
            running.go.set()
            seen = await follow(reader)
            assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "STORE_FAILED")
            assert len(seen.ids) == len(seen.events) - 1  # its frame has no id
            assert "lost" not in seen.text
            with pytest.raises(StoreError):
                await w.send()
            await trio.sleep(30)
            assert (await w.turns())[0].state == "running"
        await trio.sleep(2)
        later = await w.read(sent.turn.stream_id)
        assert later.outcome.code == "STORE_FAILED"
        assert later.text == "kept "
        assert (await w.answer()).text == "fine"
        await truth.check(w)


@pytest.mark.requirement("L9")
async def test_a_message_that_cannot_be_stored_starts_nothing(
    autojump_clock: MockClock, path: Path
) -> None:
    model = ScriptedModel(says("fine"))
    async with world(path, model) as w:
        with broken_store(w), pytest.raises(StoreError):
            await w.send(id_="message-one")
        await wait_all_tasks_blocked()
        assert model.requests == []
        assert w.services.turns.thread_state("thread-01") == "idle"
        again = await w.send(id_="message-one")
        assert not again.repeated
        assert (await w.read(again.turn.stream_id)).text == "fine"
        await truth.check(w)


@pytest.mark.requirement("L9", "S5")
async def test_a_tool_does_not_start_if_that_cannot_be_recorded(
    autojump_clock: MockClock, path: Path
) -> None:
    """The fence holds: no record, no side effect."""
    tool = Probe()
    model = ScriptedModel(calls("probe"), says("fine"))
    async with world(path, model, tools=Toolbox([tool])) as w:
        writer = w.services.database._writer
        commit = writer._commit

        def refuse_dispatch(batch: Any) -> None:
            if any(b'"tool-dispatched"' in segment.frames for _, segment in batch.taken):
                raise OSError("the disk is full")
            commit(batch)

        writer._commit = refuse_dispatch  # type: ignore[method-assign]
        seen = await w.answer()
        assert seen.outcome.code == "STORE_FAILED"
        assert tool.runs == []
        await trio.sleep(5)
        (part,) = [part for part in (await w.answers())[0].parts if part["type"] == "tool"]
        assert "unknown" not in part
        await truth.check(w)


@pytest.mark.requirement("L9", "C1")
async def test_a_stop_works_without_the_store(autojump_clock: MockClock, path: Path) -> None:
    """The model is let go at once, whether or not the wish can be kept."""
    running = Paused("so far")
    async with world(path, ScriptedModel(running)) as w:
        sent = await w.send()
        await running.reached.wait()
        await wait_all_tasks_blocked()
        with broken_store(w):
            with pytest.raises(StoreError):
                await w.services.turns.cancel(sent.turn.stream_id)
            assert running.cancelled
        seen = await w.read(sent.turn.stream_id)
        await trio.sleep(5)
        assert (await w.turns())[0].ended_at is not None
        assert seen.text == "so far"
        await truth.check(w)


@pytest.mark.requirement("L9")
async def test_one_broken_commit_ends_all_that_were_in_it_and_no_more(
    autojump_clock: MockClock, path: Path
) -> None:
    paused = [Paused("a"), Paused("b"), Paused("c", after="!")]
    async with world(path, ScriptedModel(*paused)) as w:
        sent = [await w.send(thread=f"thread-0{number}") for number in range(3)]
        await paused[2].reached.wait()
        await wait_all_tasks_blocked()
        with broken_store(w):
            for one in paused[:2]:
                one.go.set()
            await wait_all_tasks_blocked()
        paused[2].go.set()
        codes = [(await w.read(one.turn.stream_id)).outcome.code for one in sent]
        assert codes == ["STORE_FAILED", "STORE_FAILED", "FINISHED"]
        await trio.sleep(5)
        await truth.check(w)


# Bookkeeping


@pytest.mark.requirement("O4")
@pytest.mark.parametrize("fails", ["promote", "search", "touch"])
async def test_bookkeeping_that_fails_does_not_lose_the_outcome(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def broken(*_args: object, **_more: object) -> Any:
        raise RuntimeError("a fault of the program")

    running = Paused("the ", after="answer")
    async with world(path, ScriptedModel(running, says("fine"))) as w:
        sent = await w.send()
        beside = await w.send(thread="thread-02", id_="message-two")
        await running.reached.wait()
        await w.read(beside.turn.stream_id)
        with monkeypatch.context() as patch:
            if fails == "promote":
                patch.setattr(ending, "promote", broken)
            else:
                module = {"search": search, "touch": threads}[fails]
                patch.setattr(module, "put" if fails == "search" else "touch", broken)
            running.go.set()
            seen = await w.read(sent.turn.stream_id)
        assert (seen.outcome.code, seen.text) == ("FINISHED", "the answer")
        assert w.services.turns.thread_state("thread-01") == "idle"
        assert (await w.answer(id_="message-three")).text == "fine"
        await truth.check(w)
    async with world(path, ScriptedModel(hangs)) as w:
        assert truth.outcome((await w.answers())[0]) == seen.outcome
        await truth.check(w)


@pytest.mark.requirement("T4", "O4")
@pytest.mark.parametrize("fails", ["promote", "search"])
async def test_a_queue_goes_on_after_bookkeeping_that_failed(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """For a while the next turn cannot be started: it is, when it can. What others do not wait for
    (that the words are found) holds nothing up, however long it fails."""

    def broken(*_args: object, **_more: object) -> Any:
        raise RuntimeError("a fault of the program")

    running = Paused("one")
    async with world(path, ScriptedModel(running, says("two"))) as w:
        first, second = [await w.send(text) for text in ("one", "two")]
        await running.reached.wait()
        with monkeypatch.context() as patch:
            module = {"promote": ending, "search": search}[fails]
            patch.setattr(module, "promote" if fails == "promote" else "put", broken)
            running.go.set()
            assert (await w.read(first.turn.stream_id)).outcome.code == "FINISHED"
            if fails == "promote":
                await trio.sleep(20)
                assert (await w.turns())[1].state == "queued"
            else:
                assert (await w.read(second.turn.stream_id)).text == "two"
        with trio.fail_after(120):
            assert (await w.read(second.turn.stream_id)).text == "two"
        assert w.services.turns.thread_state("thread-01") == "idle"
        await truth.check(w)


@pytest.mark.requirement("O1", "O4")
async def test_a_record_that_fails_is_tried_again_and_said_once(
    autojump_clock: MockClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in the record itself: the server lives, the log has one outcome, the row gets it."""
    record, faults = supervisor.record_end, 3

    def faulty(*args: Any) -> None:
        nonlocal faults
        faults -= 1
        if faults >= 0:
            raise RuntimeError("a fault of the program")
        record(*args)

    monkeypatch.setattr(supervisor, "record_end", faulty)
    async with world(path, ScriptedModel(says("answer"))) as w:
        sent = await w.send()
        other = await w.send(thread="thread-02")
        await trio.sleep(10)
        for one in (sent, other):
            seen = await w.read(one.turn.stream_id)
            assert (seen.outcome.code, seen.text) == ("FINISHED", "answer")
        await truth.check(w)


# Faults of the program


@pytest.mark.requirement("O1")
@pytest.mark.parametrize("error", [RuntimeError("x"), KeyError("x"), RecursionError(), OSError(5)])
async def test_a_fault_in_a_model_is_its_turns_own(
    autojump_clock: MockClock, path: Path, error: Exception
) -> None:
    """What it had said is kept; nothing of the fault's inside is shown."""

    async def bug(_request: Any, sink: Any) -> Any:
        sink.text("so far")
        await trio.lowlevel.checkpoint()
        raise error

    model = ScriptedModel(bug, says("fine"))
    other = ScriptedModel(says(*"other", every=1), name="other")
    async with world(path, model, other) as w:
        beside = await w.send(thread="thread-02", model="other")
        seen = await w.answer()
        assert (seen.outcome.outcome, seen.outcome.code) == ("failed", "INTERNAL")
        assert (seen.text, seen.outcome.retryable) == ("so far", True)
        assert (await w.read(beside.turn.stream_id)).text == "other"
        assert (await w.answer()).text == "fine"
        await truth.check(w)


async def test_a_model_that_is_gone_after_a_restart(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(hangs, name="old"), grace=0) as w:
        sent = await w.send()
        await wait_all_tasks_blocked()
    async with world(path, ScriptedModel(says("fine"), name="new")) as w:
        seen = await w.read(sent.turn.stream_id)
        assert seen.outcome.code == "MODEL_NOT_FOUND"
        assert "old" in seen.outcome.text
        await truth.check(w)


@pytest.mark.requirement("R3")
async def test_a_turn_that_another_runner_has_is_let_go(
    autojump_clock: MockClock, path: Path
) -> None:
    """Its stream was sealed behind its back: it writes nothing more, ends, and is forgotten."""
    running = Paused("kept", after=" lost")
    async with world(path, ScriptedModel(running, says("fine"))) as w:
        sent = await w.send()
        await running.reached.wait()
        await wait_all_tasks_blocked()
        live = w.services.turns.live(sent.turn.id)
        assert live is not None

        def take_over(connection: Any) -> None:
            streams.close(connection, live.tail.number, 1)

        await w.services.database.write(take_over)
        running.go.set()
        await live.ended.wait()
        assert live.tail.lost
        assert w.services.turns.live(sent.turn.id) is None
        assert w.services.turns.thread_state("thread-01") == "idle"
        (row,) = await w.turns()
        log = await w.services.database.read(lambda c: truth.log_of(c, row.stream, row.stream_id))
        assert (row.ended_at, log.text) == (None, "kept")
        assert w.services.database._pending_bytes == 0
        # It is shown as what it is, elsewhere: to be followed from its start.
        (view,) = await w.answers()
        assert view.turn is not None
        assert (view.turn.state, view.parts) == ("running", [])
        assert view.turn.cursor == f"{row.stream_id}:0"
        with trio.fail_after(60):
            await w.services.threads.remove("thread-01")
        with pytest.raises(NotFoundError):
            await w.answers()
        assert isinstance(live.tail.error, StreamClosedError | None)


# The states


@pytest.mark.requirement("O1")
def test_nothing_leads_out_of_an_end() -> None:
    for state in State:
        terminal = state not in (State.QUEUED, State.RUNNING)
        assert (TRANSITIONS[state] == frozenset()) is terminal
        for to in State:
            if to in TRANSITIONS[state]:
                assert advance(state, to) is to
            else:
                with pytest.raises(IllegalTransitionError, match=f"{state} to {to}"):
                    advance(state, to)


def test_states_are_the_protocols_words() -> None:
    outcomes = set(typing.get_args(ev.OutcomeName))
    assert {state.value for state in State} == outcomes | {"queued", "running"}
