"""Ids that give access, tokens and texts stay out of the log (A3)."""

import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import structlog
import trio

from app.logs import log_to
from app.models.interface import Completion, ModelRequest, Sink
from tests.app.world import ScriptedModel as Scripted
from tests.app.world import says
from tests.web.inside import Voice, broken_store
from tests.web.wire import JSON, wired

SECRET = "the-secret-text"
THREAD = "thread-id-of-a-person"
MESSAGE = "message-id-of-a-person"


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = before, level


@pytest.fixture
def logged(logging_as_before: None) -> StringIO:
    """What a server says while it runs, everything included."""
    stream = StringIO()
    log_to(stream, "debug")
    return stream


async def fails(request: ModelRequest, sink: Sink) -> Completion:
    text = str(request.entries)  # in the traceback's frames
    sink.text(text)
    await trio.lowlevel.checkpoint()
    raise RuntimeError("a fault of the program")


@pytest.mark.requirement("A3")
async def test_a_whole_exchange_leaves_no_id_and_no_text_in_the_log(
    tmp_path: Path, logged: StringIO
) -> None:
    path = tmp_path / "u.db"
    voice = Voice()
    models = (voice, Scripted(fails, name="fails"), Scripted(says(SECRET), name="says"))
    ids = [SECRET, THREAD, MESSAGE]
    async with wired(path, *models) as wire:
        stream = await wire.send(SECRET, thread=THREAD, id_=MESSAGE)
        ids.append(stream)
        reader = await wire.follow(stream)
        voice.say(SECRET)
        await reader.until_text(SECRET)
        await reader.close()
        await wire.poll(stream)
        await wire.get(f"/api/streams/{stream}?lastEventId={stream}:1&after=x", accept=JSON)
        await wire.get(f"/api/streams/{stream}", last_event_id="nonsense")
        await wire.get(f"/api/threads/{THREAD}", origin="http://attacker.example")
        await wire.get(f"/api/threads/{THREAD}/nothing")
        await wire.ask("POST", f"/api/threads/{THREAD}/messages", f"{SECRET} {{".encode())
        await wire.ask("DELETE", f"/api/streams/{stream}")
        # Faults: of a turn, of a request, of a response that has begun, of the store.
        failed = await wire.send(SECRET, thread=f"{THREAD}-2", model="fails")
        assert (await wire.read(failed)).outcome["code"] == "INTERNAL"
        ids.append(failed)

        async def broken(*_: object) -> None:
            raise RuntimeError("a fault of the program")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(wire.services.threads, "snapshot", broken)
            assert (await wire.get(f"/api/threads/{THREAD}")).code == "INTERNAL"
            patch.setattr("app.journal.Reader.thread", broken)
            patch.setattr("app.journal.Reader.next", gap)
            cut = await wire.follow(stream)
            with pytest.raises(EOFError):
                await cut.rest()
        with broken_store(wire.services):
            assert (await wire.post(SECRET, thread=THREAD)).code == "STORE_FAILED"
        ids.append(await wire.send(SECRET, thread=f"{THREAD}-3"))
    async with wired(path, *models) as wire:  # recovered
        voice.stop()
        await wire.read(ids[-1])
    said = logged.getvalue()
    assert "a turn failed inside" in said
    assert "a request failed inside" in said
    assert said.count("a fault of the program") >= 3
    assert "a turn was recovered" in said
    assert [one for one in ids if one in said] == []


async def gap(*_: object, **__: object) -> str:
    return "gap"


class Gone(StringIO):
    """A pipe whose reader has left."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


@pytest.mark.requirement("T1")
@pytest.mark.usefixtures("logging_as_before")
async def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    log_to(Gone(), "debug")
    async with wired(tmp_path / "u.db", Scripted(fails), Voice()) as wire:
        other = await wire.follow(await wire.send(thread="thread-02", model="voice"))
        seen = await wire.read(await wire.send())
        assert seen.outcome["code"] == "INTERNAL"
        await other.frame()
        assert (await wire.get("/readyz")).status == 200
