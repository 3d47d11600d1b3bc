"""A provider that means no good, or is very wrong: the turn fails, nothing else does (S3)."""

import gzip
import json
import zlib
from typing import Any

import pytest
import trio

from app.models import Http, ModelError
from app.models.chat_completions import ChatCompletions
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import (
    DONE,
    END,
    STOP,
    FakeProvider,
    Step,
    chunk,
    frame,
    head,
    part,
    reply,
    say,
)
from tests.app.models.recorder import Recorder

pytestmark = pytest.mark.requirement("S3")

DEEP = "[" * 100_000
ANSWER = [frame(say("ok")), frame(STOP), frame(DONE)]


@pytest.fixture
def model(provider: FakeProvider, http: Http) -> ChatCompletions:
    return ChatCompletions(name="fake", model="fake", http=http, base_url=provider.base_url)


async def failure(model: ChatCompletions) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.respond(ask("Hello"), Recorder())
    return caught.value


def zipped(data: bytes, coding: str) -> list[Step]:
    packed = gzip.compress(data) if coding == "gzip" else zlib.compress(data)
    return [head(content_encoding=coding), part(packed), END]


# compression that nobody asked for


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_answer_is_understood(
    model: ChatCompletions, provider: FakeProvider, coding: str
) -> None:
    text = "|" * 100_000
    events = [say(text), STOP]
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    provider.play(*zipped(data, coding))
    sink = Recorder()
    await model.respond(ask("Hello"), sink)
    assert [part.text for part in sink.parts] == [text]


async def test_a_compressed_answer_of_several_members_is_one(
    model: ChatCompletions, provider: FakeProvider
) -> None:
    """As a proxy writes it that flushes by closing; also where a cut goes through a head."""
    data = [b"data: %b\n\n" % json.dumps(event).encode() for event in (say("a"), say("b"), STOP)]
    body = b"".join(map(gzip.compress, data))
    for cut in (len(body), 1, len(gzip.compress(data[0])) + 5):
        pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
        provider.play(head(content_encoding="gzip"), *map(part, pieces), END)
        sink = Recorder()
        await model.respond(ask("Hello"), sink)
        assert sink.all_text == "ab"


@pytest.mark.parametrize(
    ("coding", "body"),
    [("gzip", b"no gzip at all"), ("br", b"x"), ("zstd", b"x"), ("gzip, br", b"x")],
)
async def test_a_body_that_cannot_be_unpacked(
    model: ChatCompletions, provider: FakeProvider, coding: str, body: bytes
) -> None:
    provider.play(head(content_encoding=coding), part(body), END)
    error = await failure(model)
    assert (error.code, error.retryable) == ("MODEL_PROTOCOL", True)


@pytest.mark.parametrize("body", [b"\n" * 20_000_000, b"data: " + b"x" * 100_000_000])
async def test_a_body_that_unpacks_to_gigabytes_stops_nobody_else(
    model: ChatCompletions, provider: FakeProvider, body: bytes
) -> None:
    """It comes in two network reads; others run all the while, and it can be stopped."""
    provider.play(*zipped(body, "gzip"))
    ticks = 0
    async with trio.open_nursery() as nursery:

        async def tick() -> None:
            nonlocal ticks
            while True:
                await trio.lowlevel.checkpoint()
                ticks += 1

        nursery.start_soon(tick)
        with trio.move_on_after(2):
            assert (await failure(model)).code in ("MODEL_PROTOCOL", "MODEL_EOF")
        nursery.cancel_scope.cancel()
    assert ticks > 50


# values no program can hold


async def test_nesting_without_end(
    model: ChatCompletions, provider: FakeProvider, http: Http
) -> None:
    provider.play(head(), part(f"data: {DEEP}\n\n".encode()), END)
    assert (await failure(model)).code == "MODEL_PROTOCOL"
    provider.play(*reply(400, DEEP, kind="application/json"))
    assert (await failure(model)).code == "MODEL_REQUEST_REFUSED"
    provider.play(*reply(200, DEEP, kind="application/json"))
    with pytest.raises(ModelError) as caught:
        await http.get_json(f"{provider.base_url}/models")
    assert caught.value.code == "MODEL_PROTOCOL"


@pytest.mark.parametrize("tokens", [-1, 2**53, 10**4000, 1.5, True, "7", None, [7]])
async def test_what_is_no_number_of_tokens(
    model: ChatCompletions, provider: FakeProvider, tokens: Any
) -> None:
    usage = {"prompt_tokens": tokens, "completion_tokens": 7}
    provider.play(head(), *ANSWER[:1], frame({"usage": usage, "choices": []}), *ANSWER[1:], END)
    completion = await model.respond(ask("Hello"), Recorder())
    assert completion.usage is not None
    assert (completion.usage.input_tokens, completion.usage.output_tokens) == (None, 7)


@pytest.mark.parametrize("index", [-1, 10**30, 0.5, "0", True, [0], {"a": 0}, None])
async def test_calls_at_odd_places_are_whole(
    model: ChatCompletions, provider: FakeProvider, index: Any
) -> None:
    pieces = [
        {"index": index, "id": "a", "function": {"name": "look", "arguments": '{"a":'}},
        {"index": index, "function": {"arguments": "1}"}},
    ]
    calls = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    provider.play(head(), *map(frame, calls), frame(chunk(finish="tool_calls")), END)
    sink = Recorder()
    completion = await model.respond(ask("Hello"), sink)
    assert completion.finish_reason == "tool-calls"
    (call,) = sink.calls.values()
    assert (call.name, call.input_text) == ("look", '{"a":1}')


# more than was asked for


async def test_an_end_ends_it_however_often_it_comes(
    model: ChatCompletions, provider: FakeProvider
) -> None:
    ghost = [frame(say("ghost")), frame(STOP), frame(DONE)]
    provider.play(head(), *ANSWER, frame(DONE), *ghost, END)
    sink = Recorder()
    completion = await model.respond(ask("Hello"), sink)
    assert completion.finish_reason == "stop"
    assert [part.text for part in sink.parts] == ["ok"]


async def test_many_empty_deltas_say_nothing(
    model: ChatCompletions, provider: FakeProvider
) -> None:
    empty = b"data: %b\n\n" % json.dumps(say("")).encode()
    provider.play(head(), *[part(empty * 1_000)] * 20, *ANSWER, END)
    sink = Recorder()
    await model.respond(ask("Hello"), sink)
    assert [part.text for part in sink.parts] == ["ok"]
