"""Sending a message: once, whatever the network does."""

from pathlib import Path
from typing import Any

import h11
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, says
from tests.web.inside import Voice
from tests.web.wire import THREAD, Exchange, Wire, assert_gapless, dumped, wired

POST = f"/api/threads/{THREAD}/messages"


def turns_of(snapshot: Any) -> list[str]:
    return [m["id"] for m in snapshot["messages"] if m["role"] == "assistant"]


async def test_the_answer_to_a_message_names_its_turn_and_stream(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        answer = await wire.post(id_="message-01")
        assert answer.status == 202
        stream, turn = answer.json["stream"], answer.json["turn"]
        assert answer.json == {
            "thread": THREAD,
            "message": "message-01",
            "turn": turn,
            "stream": stream,
            "cursor": f"{stream}:0",
            "state": "running",
            "repeated": False,
        }
        assert turns_of(await wire.snapshot()) == [turn]
        queued = (await wire.post()).json
        assert queued["state"] == "queued"


@pytest.mark.requirement("T5")
async def test_the_same_message_again_attaches_to_the_first_turn(tmp_path: Path) -> None:
    model = Scripted(hangs)
    async with wired(tmp_path / "u.db", model) as wire:
        first = (await wire.post(id_="message-01")).json
        for text in ("Hello", "another text, as after an edit that was lost"):
            again = await wire.post(text, id_="message-01")
            assert again.status == 202
            assert again.json == {**first, "repeated": True}
        assert len((await wire.snapshot())["messages"]) == 2
        assert len(model.requests) == 1


@pytest.mark.requirement("T5")
async def test_a_double_click_starts_one_turn(tmp_path: Path) -> None:
    """Twenty times the same POST, at once, half of them as streams."""
    voice = Voice()
    async with wired(tmp_path / "u.db", voice, inline=False) as wire:
        body = wire.message()
        streams: set[str] = set()

        async def post() -> None:
            streams.add((await wire.ask("POST", POST, body)).json["stream"])

        async def follow() -> None:
            follower = await wire.open(POST, method="POST", body=body)
            await follower.until_text("once")
            streams.add(follower.frames[0].stream)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(post)
                nursery.start_soon(follow)
            voice.say("once")
        assert len(streams) == 1
        assert voice.asked == 1
        voice.stop()


@pytest.mark.requirement("T5", "T1")
async def test_a_lost_response_is_made_up_for_by_sending_again(tmp_path: Path) -> None:
    """The connection dies as soon as the request is out; the turn runs, the retry finds it."""
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        body = wire.message()
        lost = await wire.start("POST", POST, body)
        await lost.close()
        with trio.fail_after(30):
            while voice.asked == 0:
                await wait_all_tasks_blocked(0.01)
        voice.say("said")
        voice.stop()
        again = (await wire.ask("POST", POST, body)).json
        assert again["repeated"]
        assert (await wire.read(again["stream"])).text == "said"
        assert voice.asked == 1


@pytest.mark.requirement("T5")
async def test_a_repeated_message_with_events_replays_the_first_stream(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a", "b"))) as wire:
        body = wire.message()
        seen = [await (await wire.open(POST, method="POST", body=body)).rest() for _ in range(3)]
        assert seen[0].outcome["outcome"] == "finished"
        assert_gapless(seen[0].ids)
        assert seen[0].frames == seen[1].frames == seen[2].frames


# Resuming by POST


@pytest.mark.requirement("L3")
async def test_a_post_with_last_event_id_starts_nothing_and_reads_no_body(tmp_path: Path) -> None:
    """As a fetch-based EventSource does: the body is announced and never sent."""
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        first = await wire.open(POST, method="POST", body=wire.message())
        voice.say("so far")
        await first.until_text("so far")
        exchange = await wire.connect()
        headers = {"Content-Length": "5000", "Last-Event-ID": first.cursor}
        await exchange.send(wire.head("POST", POST, {**headers, "Accept": "text/event-stream"}))
        await exchange.head()
        assert exchange.status == 200
        await first.close()
        voice.say(", and on")
        voice.stop()
        body = b""
        while piece := await exchange.data():
            body += piece
        assert b", and on" in body
        assert b"so far" not in body
        assert b'"outcome"' in body
        assert voice.asked == 1
        assert len((await wire.snapshot())["messages"]) == 2


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("body", [b"not JSON", b"", b"x" * 3_000_000])
async def test_a_resuming_post_does_not_care_for_its_body(tmp_path: Path, body: bytes) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        stream = await wire.send()
        whole = await wire.read(stream)
        resumed = await wire.open(POST, method="POST", body=body, after=f"{stream}:1")
        assert (await resumed.rest()).frames == whole.frames[1:]
        assert len((await wire.snapshot())["messages"]) == 2


@pytest.mark.requirement("L3", "L4")
async def test_a_post_that_has_seen_nothing_follows_what_is_active(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        idle = await wire.ask("POST", POST, wire.message(), {"Last-Event-ID": "0"})
        assert (idle.status, idle.body) == (204, b"")
        stream = await wire.send()
        resumed = await wire.open(POST, method="POST", body=wire.message(), after="0")
        voice.say("a")
        await resumed.until_text("a")
        assert resumed.frames[0].stream == stream
        assert len((await wire.snapshot())["messages"]) == 2
        voice.stop()


# During a turn


@pytest.mark.requirement("T4")
async def test_a_message_during_a_turn_waits_for_it(tmp_path: Path) -> None:
    voice = Voice()
    async with wired(tmp_path / "u.db", voice) as wire:
        first, second = await wire.send(), await wire.send(during="queue")
        waiting = await wire.follow(second)
        queued = await waiting.frame()
        assert (queued.event["type"], queued.event["state"]) == ("status", "queued")
        assert voice.asked == 1
        voice.say("one")
        voice.stop()
        assert (await wire.read(first)).text == "one"
        voice.say("two")
        voice.stop()
        await waiting.rest()
        assert waiting.text == "two"
        assert_gapless(waiting.ids)


@pytest.mark.requirement("T4", "C3")
async def test_a_message_may_interrupt_the_turn_before(tmp_path: Path) -> None:
    model = Scripted(says("half", every=0), says("b"), name="scripted")
    voice = Voice()
    async with wired(tmp_path / "u.db", voice, model) as wire:
        first = await wire.follow(await wire.send())
        voice.say("half of it")
        await first.until_text("half of it")
        second = await wire.send(during="interrupt", model="scripted")
        await first.rest()
        assert (first.outcome["outcome"], first.outcome["code"]) == ("cancelled", "REPLACED")
        assert voice.cut == 1
        assert (await wire.read(second)).outcome["outcome"] == "finished"
        messages = (await wire.snapshot())["messages"]
        assert messages[1]["parts"][-1]["text"] == "half of it"
        assert messages[2]["parent"] == messages[1]["id"]


@pytest.mark.requirement("T4")
async def test_a_message_may_refuse_to_wait(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        stream = await wire.send(during="reject")
        refused = await wire.post(during="reject", id_="message-no")
        assert (refused.status, refused.code) == (409, "TURN_RUNNING")
        assert len((await wire.snapshot())["messages"]) == 2
        await wire.ask("DELETE", f"/api/streams/{stream}")
        await wire.read(stream)
        assert (await wire.post(during="reject", id_="message-no")).status == 202


# Texts and bodies


TEXTS = (
    "a\x00b",
    "data: x\n\nid: y",
    "\r\n\t ",
    "💩 e\u0301 \u202e \ufeff \ufffd",
    "</script>'\"\\",
    " " * 100,
    "\u2028\u2029",
    "x" * 1_000_000,
    "ü" * 500_000,
)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_any_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    async def echoes(request: Any, sink: Any) -> Any:
        return await says(request.entries[-1].text)(request, sink)

    async with wired(tmp_path / "u.db", Scripted(echoes)) as wire:
        stream = await wire.send(text)
        assert (await wire.read(stream)).text == text
        [question, answer] = (await wire.snapshot())["messages"]
        assert question["parts"] == [{"type": "text", "text": text}]
        assert answer["parts"][-1]["text"] == text
        assert len((await wire.get("/api/threads")).json["threads"]) == 1


@pytest.mark.parametrize("kind", [None, "application/json", "text/plain", "nonsense"])
async def test_a_body_is_json_whatever_it_says_to_be(tmp_path: Path, kind: str | None) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        answer = await wire.ask("POST", POST, wire.message(), {"Content-Type": kind})
        assert answer.status == 202


async def test_a_body_may_come_in_any_pieces(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        exchange = await wire.connect()
        await exchange.send(wire.head("POST", POST, {"Transfer-Encoding": "chunked"}))
        for byte in dumped(wire.message("ü💩")):
            await exchange.send(h11.Data(data=bytes([byte])))
        await exchange.send(h11.EndOfMessage())
        assert (await exchange.answer()).status == 202
        assert (await wire.snapshot())["messages"][0]["parts"][0]["text"] == "ü💩"


async def test_a_client_may_ask_before_it_sends_a_large_body(tmp_path: Path) -> None:
    """curl does so by itself for bodies over 1 MB."""
    async with wired(tmp_path / "u.db", Scripted(hangs)) as wire:
        body = dumped(wire.message("x" * 100_000))
        exchange = await wire.connect()
        headers = {"Content-Length": str(len(body)), "Expect": "100-continue"}
        await exchange.send(wire.head("POST", POST, headers))
        assert (await exchange.informed()).status_code == 100
        await exchange.send(h11.Data(data=body), h11.EndOfMessage())
        assert (await exchange.answer()).status == 202


@pytest.mark.parametrize("size", [1_048_577, 30_000_000])
async def test_a_body_too_large_is_refused_and_nothing_is_kept_of_it(
    tmp_path: Path, size: int
) -> None:
    """The refusal arrives although the client is still sending; the server goes on as before."""
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        refused = await sent_whatever(wire, dumped(wire.message("x" * size)))
        assert refused == 413
        assert (await wire.get(f"/api/threads/{THREAD}")).status == 404
        assert (await wire.read(await wire.send())).text == "a"


async def sent_whatever(wire: Wire, body: bytes) -> int:
    """The status; like a client that reads while it sends."""
    exchange = await wire.connect()
    await exchange.send(wire.head("POST", POST, {"Content-Length": str(len(body))}))

    async def send() -> None:
        try:
            for start in range(0, len(body), 65536):
                await exchange.send(h11.Data(data=body[start : start + 65536]))
        except trio.BrokenResourceError:
            pass  # we are refused, and the server has hung up: the answer was on its way before

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        answer = await exchange.answer()
        assert answer.code == "BODY_TOO_LARGE"
        nursery.cancel_scope.cancel()
    return answer.status


async def test_a_body_may_be_slow_but_not_trickle(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        for size, every, status in ((1000, 8.0, 408), (50_000, 4.0, 202)):
            body = dumped(wire.message("x" * 500_000))
            exchange = await wire.connect()
            await exchange.send(wire.head("POST", POST, {"Content-Length": str(len(body))}))

            async def trickle(
                exchange: Exchange = exchange,
                body: bytes = body,
                size: int = size,
                every: float = every,
            ) -> None:
                for start in range(0, len(body), size):
                    await exchange.send(h11.Data(data=body[start : start + size]))
                    await trio.sleep(every)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(trickle)
                assert (await exchange.answer()).status == status
                nursery.cancel_scope.cancel()
