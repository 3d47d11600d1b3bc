"""Sending: once, whatever the network does; refused where it must be (T1, T5, L8)."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from app.errors import ConflictError, NotFoundError, UnavailableError
from app.turns.intake import Accepted, new_id, new_stream_id, title_of
from tests.app import truth
from tests.app.world import Paused, ScriptedModel, World, hangs, says, world


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unbroken.db"


# One message, one turn


@pytest.mark.requirement("T5")
async def test_a_hundred_times_the_same_post_is_one_turn(
    autojump_clock: MockClock, path: Path
) -> None:
    """A double click, a retry, a lost response: all attach to the one stream."""
    model = ScriptedModel(says("one ", "answer", every=1))
    found: list[Accepted] = []

    async def post(w: World) -> None:
        found.append(await w.send(id_="message-one"))

    async with world(path, model) as w:
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(post, w)
        assert {one.turn.stream_id for one in found} == {found[0].turn.stream_id}
        assert [one.repeated for one in found].count(False) == 1
        seen = await w.read(found[0].turn.stream_id)
        again = await w.send(id_="message-one")  # also long after
        assert (again.repeated, again.turn.state) == (True, "finished")
        assert again.turn.stream_id == found[0].turn.stream_id
        assert seen.text == "one answer"
        assert len(await w.turns()) == len(model.requests) == 1
        await truth.check(w)


@pytest.mark.requirement("T5")
async def test_the_same_post_after_a_restart(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        await w.answer(id_="message-one")
    model = ScriptedModel(says("another"))
    async with world(path, model) as w:
        assert (await w.send(id_="message-one")).repeated
        assert model.requests == []
        assert len(await w.turns()) == 1


@pytest.mark.requirement("T5")
async def test_an_id_of_another_thread_is_a_conflict(autojump_clock: MockClock, path: Path) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        await w.answer(id_="message-one", thread="thread-01")
        with pytest.raises(ConflictError) as error:
            await w.send(id_="message-one", thread="thread-02")
        assert error.value.code == "MESSAGE_CONFLICT"
        assert await w.turns("thread-02") == []
        answer = (await w.answers())[0].id
        with pytest.raises(ConflictError):  # an answer's id is taken too
            await w.send(id_=answer)
        await truth.check(w)


@pytest.mark.requirement("T1", "T5")
async def test_a_request_that_dies_while_it_is_accepted_still_starts_the_turn(
    autojump_clock: MockClock, path: Path
) -> None:
    """Cancelled at each moment of submit: either nothing was handed over, or the turn runs."""
    for ticks in range(4):
        async with world(path.with_name(f"{ticks}.db"), ScriptedModel(says("answer"))) as w:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def request(w: World = w) -> None:
                        await w.send(id_="message-one")

                    nursery.start_soon(request)
                    for _ in range(ticks):
                        await trio.lowlevel.checkpoint()
                    scope.cancel(reason="the client went away")
            await trio.testing.wait_all_tasks_blocked()
            seen = await w.read((await w.send(id_="message-one")).turn.stream_id)
            assert seen.text == "answer"
            assert len(await w.turns()) == 1
            await truth.check(w)


@pytest.mark.requirement("T1", "C4")
async def test_readers_come_and_go_and_the_turn_runs_on(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(says(*"answer", every=1))) as w:
        accepted = await w.send()
        for _ in range(3):
            with trio.move_on_after(1):
                await w.read(accepted.turn.stream_id)
        await trio.sleep(60)  # nobody reads
        seen = await w.read(accepted.turn.stream_id)
        assert (seen.text, seen.outcome.code) == ("answer", "FINISHED")


# Refused


async def test_an_unknown_model_is_refused_before_anything_is_kept(
    autojump_clock: MockClock, path: Path
) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        with pytest.raises(NotFoundError) as error:
            await w.send(model="nonesuch")
        assert error.value.code == "MODEL_NOT_FOUND"
        with pytest.raises(NotFoundError):
            await w.messages()


@pytest.mark.parametrize("parent", ["message-none", "message-other"])
async def test_a_parent_must_be_of_the_thread(
    autojump_clock: MockClock, path: Path, parent: str
) -> None:
    async with world(path, ScriptedModel(says("answer"))) as w:
        await w.answer(thread="thread-02", id_="message-other")
        with pytest.raises(NotFoundError) as error:
            await w.send(parent=parent)
        assert error.value.code == "MESSAGE_NOT_FOUND"
        assert await w.turns() == []
        with pytest.raises(NotFoundError):  # nor is there a thread without a message
            await w.messages()


@pytest.mark.requirement("L8")
async def test_one_turn_more_than_allowed_is_refused(autojump_clock: MockClock, path: Path) -> None:
    """Queued ones count. What was accepted before is still found; an end makes room."""
    async with world(path, ScriptedModel(hangs), max_streams=3) as w:
        running = await w.send(id_="message-one")
        await w.send()
        await w.send(thread="thread-02")
        with pytest.raises(UnavailableError) as error:
            await w.send(thread="thread-03")
        assert error.value.code == "STREAM_LIMIT_REACHED"
        assert error.value.retry_after > 0
        assert (await w.send(id_="message-one")).repeated
        await w.services.turns.cancel(running.turn.stream_id)
        await w.read(running.turn.stream_id)
        await w.send(thread="thread-03")
        await truth.check(w)


@pytest.mark.requirement("L8")
async def test_the_limit_holds_against_a_burst(autojump_clock: MockClock, path: Path) -> None:
    """Requests that wait for the same commit do not slip through together."""
    refused: list[str] = []

    async def post(w: World, number: int) -> None:
        try:
            await w.send(thread=f"thread-{number:02}")
        except UnavailableError as error:
            refused.append(error.code)

    async with world(path, ScriptedModel(hangs), max_streams=5) as w:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(post, w, number)
        assert refused == ["STREAM_LIMIT_REACHED"] * 15


# Branches


async def test_a_message_follows_the_leaf_or_what_it_names(
    autojump_clock: MockClock, path: Path
) -> None:
    model = ScriptedModel(says("answer"))
    async with world(path, model) as w:
        await w.answer("first", id_="message-a")
        await w.answer("second", id_="message-b")
        first, second = await w.answers()
        await w.answer("edited", id_="message-c", parent=first.id)
        await w.answer("new root", id_="message-d", parent=None)
        await w.answer("goes on", id_="message-e")
        parents = {view.id: view.parent for view in await w.messages()}
        assert parents["message-a"] is None
        assert parents["message-b"] == parents["message-c"] == first.id
        assert parents["message-d"] is None
        fourth = (await w.answers())[3]
        assert parents["message-e"] == fourth.id
        told = [[getattr(one, "text", "") for one in request.entries] for request in model.requests]
        assert told == [
            ["first"],
            ["first", "answer", "second"],
            ["first", "answer", "edited"],  # the other branch is not told
            ["new root"],
            ["new root", "answer", "goes on"],
        ]
        assert second.parent == "message-b"
        await truth.check(w)


async def test_an_answer_can_be_asked_for_again(autojump_clock: MockClock, path: Path) -> None:
    model = ScriptedModel(says("one"), says("two"))
    async with world(path, model) as w:
        await w.answer("question", id_="message-a")
        again = await w.regenerate("message-a", key="again-01")
        await w.read(again.turn.stream_id)
        assert (await w.regenerate("message-a", key="again-01")).repeated
        answers = await w.answers()
        assert [view.parent for view in answers] == ["message-a", "message-a"]
        assert model.requests[1].entries == model.requests[0].entries
        assert (await w.services.threads.snapshot("thread-01")).thread.leaf == answers[1].id
        await truth.check(w)


# Ids and titles


def test_ids_sort_by_time_and_are_uuids() -> None:
    import uuid

    ids = [new_id(at) for at in (0, 1, 1_800_000_000_000, 2**48 - 1)]
    assert sorted(ids) == ids
    for id_, at in zip(ids, (0, 1, 1_800_000_000_000, 2**48 - 1), strict=True):
        value = uuid.UUID(id_)
        assert (value.version, value.variant) == (7, uuid.RFC_4122)
        assert value.int >> 80 == at
    assert len({new_id(1) for _ in range(1000)}) == 1000


@pytest.mark.requirement("L1")
def test_stream_ids_are_random_and_long_enough() -> None:
    ids = {new_stream_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(id_) == 32 for id_ in ids)  # base64 of 192 bits


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        (["Hello"], "Hello"),
        (["\n  \n  First line  \nsecond"], "First line"),
        ([], ""),
        (["   "], ""),
        (["a\x00b\u202ec\td"], "abcd"),
        (["x" * 80], "x" * 80),
        (["x" * 81], "x" * 79 + "\u2026"),
        (["first", "second"], "first"),
    ],
)
def test_the_title_is_the_first_line(texts: list[str], title: str) -> None:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    assert title_of(parts) == title


# Independence


@pytest.mark.requirement("T4")
async def test_threads_run_side_by_side(autojump_clock: MockClock, path: Path) -> None:
    first, second = Paused("a"), Paused("b")
    async with world(path, ScriptedModel(first, second)) as w:
        await w.send(thread="thread-01")
        await w.send(thread="thread-02")
        await first.reached.wait()
        await second.reached.wait()
        state = w.services.turns.thread_state
        assert state("thread-01") == state("thread-02") == "running"
        first.go.set()
        second.go.set()
