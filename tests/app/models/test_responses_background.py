"""Background mode: a broken connection and a crash of ours cost nothing, a stop reaches OpenAI."""

from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from app.models import Http, ModelError, ResumableModel
from app.models.responses import POLL_SECONDS, RESUME_PAUSES, Responses
from app.models.responses_answer import Answer
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import (
    END,
    FIN,
    HANG,
    RST,
    Exchange,
    FakeProvider,
    Step,
    head,
    part,
    reply,
)
from tests.app.models.recorder import Recorder
from tests.app.models.wire_responses import KeepingServer, Kept, Script, frames

KEY = "key-12345678"


@pytest.fixture
def server(provider: FakeProvider) -> KeepingServer:
    return KeepingServer(provider)


def model_at(url: str, http: Http) -> Responses:
    return Responses(
        name="fake", http=http, base_url=url, model="fake", api_key=KEY, background=True
    )


@pytest.fixture
def model(provider: FakeProvider, http: Http) -> Responses:
    return model_at(provider.base_url, http)


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    # Long enough for the loopback to deliver what was sent.
    autojump_clock.autojump_threshold = 0.02
    return autojump_clock


def everything() -> Script:
    script = Script().thought(("I wo", "nder"), ("Ah", "!")).text("Hel", "|", "|", "lo ")
    script.call("look", '{"q":', "1}", call_id="call_a").call("see", call_id="call_b")
    return script.thought(("So",)).text("|", "|", " done").end()


WHOLE = [
    ("reasoning", "I wonder"),
    ("reasoning", "Ah!"),
    ("text", "Hel||lo "),
    ("tool", "call-1"),
    ("tool", "call-2"),
    ("reasoning", "So"),
    ("text", "|| done"),
]


def shown(sink: Recorder) -> list[tuple[str, str]]:
    assert not any(one.open for one in sink.parts)
    return [(one.kind, one.text) for one in sink.parts]


def paths(provider: FakeProvider) -> list[str]:
    return [f"{exchange.method} {exchange.path}" for exchange in provider.requests]


REST = (
    "GET /v1/responses/resp_1?stream=true&starting_after={}&include[]=reasoning.encrypted_content"
)
POLL = "GET /v1/responses/resp_1?include[]=reasoning.encrypted_content"
CANCEL = "POST /v1/responses/resp_1/cancel"


async def test_it_can_be_resumed(model: Responses) -> None:
    assert isinstance(model, ResumableModel)


async def test_it_asks_for_the_background(
    server: KeepingServer, provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    server.keep(everything())
    done = await model.respond(ask("Hi"), sink)
    assert shown(sink) == WHOLE
    assert done.finish_reason == "tool-calls"
    body = provider.requests[0].json
    assert (body["background"], body["store"], body["stream"]) == (True, True, True)


# a connection that breaks


@pytest.mark.requirement("S3", "M3")
async def test_a_broken_connection_withdraws_nothing(
    server: KeepingServer, provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    server.keep(everything(), 12, 1, 3)
    done = await model.respond(ask("Hi"), sink)
    assert shown(sink) == WHOLE
    assert "final_text" not in sink.kinds
    assert done.state is not None
    assert [item["type"] for item in done.state.data["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "reasoning",
        "message",
    ]
    assert paths(provider) == [
        "POST /v1/responses",
        REST.format(11),
        REST.format(12),
        REST.format(15),
    ]
    for request in provider.requests[1:]:
        assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("cut", range(1, len(everything().events)))
async def test_wherever_it_breaks(
    cut: int, server: KeepingServer, model: Responses, sink: Recorder
) -> None:
    server.keep(everything(), cut)
    await model.respond(ask("Hi"), sink)
    assert shown(sink) == WHOLE
    assert [call.input_text for call in sink.calls.values()] == ['{"q":1}', ""]


async def test_a_resumed_stream_may_repeat_what_was_seen(
    provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    """Azure opens it with a `response.in_progress`; nothing is said twice."""
    events = everything().events
    assert events[18]["delta"] == "|"
    provider.play(head(), *map(part, frames(events[:19])), RST)
    provider.play(head(), *map(part, frames([events[1], *events[16:]])), END)
    await model.respond(ask("Hi"), sink)
    assert shown(sink) == WHOLE
    assert sink.text_deltas == ["Hel", "|", "|", "lo ", "|", "|", " done"]


@pytest.mark.parametrize(
    "broken",
    [
        [FIN],
        [RST],
        [head(), END],
        [head(), part(b'data: {"type": "respon\n\n'), END],
        reply(500, {"error": {"message": "Out of order"}}),
        reply(503, "busy"),
        reply(429, {"error": {"message": "Slow down"}}),
    ],
    ids=["FIN", "RST", "clean end", "invalid JSON", "500", "503", "429"],
)
async def test_it_tries_again_and_slower(
    broken: list[Step],
    provider: FakeProvider,
    model: Responses,
    sink: Recorder,
    clock: MockClock,
) -> None:
    events = everything().events
    provider.play(head(), *map(part, frames(events[:14])), FIN)
    provider.play(*broken)
    provider.play(*broken)
    provider.play(head(), *map(part, frames(events[14:])), END)
    began = trio.current_time()
    await model.respond(ask("Hi"), sink)
    assert shown(sink) == WHOLE
    assert trio.current_time() - began >= sum(RESUME_PAUSES[:3])
    assert [path.partition("&")[0] for path in paths(provider)[1:]] == [
        "GET /v1/responses/resp_1?stream=true"
    ] * 3


async def test_but_not_for_ever(
    provider: FakeProvider, model: Responses, sink: Recorder, clock: MockClock
) -> None:
    provider.play(head(), *map(part, frames(everything().events[:14])), FIN)
    for _ in RESUME_PAUSES:
        provider.play(FIN)
    provider.play(*reply(200, {}))
    with pytest.raises(ModelError) as caught:
        await model.respond(ask("Hi"), sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNREACHABLE", True)
    await provider.arrived(7)
    assert paths(provider)[-1] == CANCEL  # it is asked for anew: the old one is not to be paid


async def test_before_the_response_has_a_name_there_is_nothing_to_resume(
    provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    provider.play(head(), FIN)
    with pytest.raises(ModelError) as caught:
        await model.respond(ask("Hi"), sink)
    assert caught.value.code == "MODEL_EOF"
    assert len(provider.requests) == 1


@pytest.mark.requirement("S3")
async def test_a_response_that_failed_is_not_resumed(
    server: KeepingServer, provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    error = {"code": "server_error", "message": "It broke"}
    server.keep(Script().text("half ", done=False).end("failed", error=error), 5)
    with pytest.raises(ModelError, match="It broke"):
        await model.respond(ask("Hi"), sink)
    assert len(provider.requests) == 2  # and there is nothing to cancel


# too old to be streamed


@pytest.mark.parametrize("cut", [1, 4, 8, 12, 14, 17, 22, 25, 30])
async def test_then_it_is_polled_and_the_rest_comes_at_once(
    cut: int,
    server: KeepingServer,
    provider: FakeProvider,
    model: Responses,
    sink: Recorder,
    clock: MockClock,
) -> None:
    server.keep(everything(), cut)
    server.refuses = True
    server.statuses = ["queued", "in_progress", "in_progress"]
    began = trio.current_time()
    await model.respond(ask("Hi"), sink)
    assert shown(sink) == WHOLE
    assert [call.input_text for call in sink.calls.values()] == ['{"q":1}', ""]
    assert paths(provider)[2:] == [POLL] * 4
    assert 3 * POLL_SECONDS <= trio.current_time() - began < 4 * POLL_SECONDS


async def test_polling_survives_faults(
    provider: FakeProvider, model: Responses, sink: Recorder, clock: MockClock
) -> None:
    events = everything().events
    provider.play(head(), *map(part, frames(events[:14])), FIN)
    provider.play(*reply(400, {"error": {"message": "more than 5 minutes old"}}))
    for _ in RESUME_PAUSES[1:]:
        provider.play(*reply(502, "bad gateway"))
    provider.play(*reply(200, events[-1]["response"]))
    await model.respond(ask("Hi"), sink)
    assert shown(sink) == WHOLE


async def test_polling_ends(
    provider: FakeProvider,
    model: Responses,
    sink: Recorder,
    clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    polls = 20
    monkeypatch.setattr("app.models.responses.POLLS", polls)
    provider.play(head(), *map(part, frames(everything().events[:14])), FIN)
    provider.play(*reply(400, {"error": {"message": "more than 5 minutes old"}}))

    def working(exchange: Exchange) -> list[Step] | None:
        polled = exchange.method == "GET" and "stream" not in exchange.path
        return reply(200, {"id": "resp_1", "status": "in_progress"}) if polled else None

    provider.aside = working
    provider.play(*reply(200, {}))
    began = trio.current_time()
    with pytest.raises(ModelError) as caught:
        await model.respond(ask("Hi"), sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_STALLED", True)
    assert trio.current_time() - began >= polls * POLL_SECONDS
    await provider.arrived(polls + 3)
    assert paths(provider)[-1] == CANCEL


async def test_a_response_that_is_gone_is_asked_for_anew(
    server: KeepingServer, provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    server.keep(everything(), 14)
    server.forgets = True
    with pytest.raises(ModelError) as caught:
        await model.respond(ask("Hi"), sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_EOF", True)
    assert caught.value.text == "127.0.0.1 has the rest of the answer no longer."


async def test_a_key_that_was_withdrawn(
    provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    provider.play(head(), *map(part, frames(everything().events[:14])), FIN)
    provider.play(*reply(401, {"error": {"message": "No"}}))
    provider.play(*reply(401, {"error": {"message": "No"}}))
    with pytest.raises(ModelError) as caught:
        await model.respond(ask("Hi"), sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNAUTHORIZED", False)


# a crash of ours


async def interrupted(model: Responses, server: KeepingServer) -> tuple[Kept, Recorder]:
    """A response that was heard to its end; `Recorder.at` is what a crash would have left."""
    kept, sink = server.keep(everything()), Recorder()
    await model.respond(ask("Hi"), sink)
    assert len(sink.checkpoints) > 5
    return kept, sink


@pytest.mark.requirement("R1", "R4")
@pytest.mark.parametrize("too_old", [False, True])
async def test_wherever_we_crash_the_rest_is_what_is_asked_for(
    too_old: bool,
    server: KeepingServer,
    provider: FakeProvider,
    model: Responses,
    clock: MockClock,
) -> None:
    _, before = await interrupted(model, server)
    server.refuses = too_old
    for number, checkpoint in enumerate(before.checkpoints[:-1]):
        asked = len(provider.requests)
        after = before.at(number)
        done = await model.resume(ask("Hi"), after, checkpoint)
        assert shown(after) == WHOLE
        assert [call.input_text for call in after.calls.values()] == ['{"q":1}', ""]
        assert done.finish_reason == "tool-calls"
        assert done.state is not None
        assert len(done.state.data["output"]) == 6
        sequence = msgspec.json.decode(checkpoint)["seq"]
        assert paths(provider)[asked] == REST.format(sequence)


async def test_a_checkpoint_is_small(server: KeepingServer, model: Responses) -> None:
    _, before = await interrupted(model, server)
    assert max(map(len, before.checkpoints)) < 200


@pytest.mark.requirement("R1")
async def test_two_crashes(server: KeepingServer, model: Responses) -> None:
    _, before = await interrupted(model, server)
    for first in range(0, len(before.checkpoints) - 1, 3):
        second = before.at(first)
        known = len(second.checkpoints)
        await model.resume(ask("Hi"), second, before.checkpoints[first])
        for number in range(known, len(second.checkpoints) - 1, 3):
            third = second.at(number)
            await model.resume(ask("Hi"), third, second.checkpoints[number])
            assert shown(third) == WHOLE


@pytest.mark.requirement("R1")
async def test_what_cannot_be_resumed_any_more_is_asked_for_anew(
    server: KeepingServer, model: Responses
) -> None:
    _, before = await interrupted(model, server)
    server.forgets = True
    with pytest.raises(ModelError) as caught:
        await model.resume(ask("Hi"), before.at(3), before.checkpoints[3])
    assert caught.value.retryable


async def test_without_background_there_is_no_checkpoint(
    server: KeepingServer, provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    plain = Responses(name="fake", http=http, base_url=provider.base_url, model="fake")
    server.keep(everything())
    await plain.respond(ask("Hi"), sink)
    assert sink.checkpoints == []


TEXT = st.text(alphabet="|a \n👩", max_size=6)
ITEMS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.lists(TEXT, max_size=5)),
        st.tuples(st.just("thought"), st.lists(st.lists(TEXT, max_size=3), max_size=3)),
        st.tuples(st.just("call"), st.lists(st.sampled_from(["{", "}", '"']), max_size=4)),
    ),
    max_size=5,
)


def built(items: list[tuple[str, list[Any]]]) -> Script:
    script = Script()
    for kind, pieces in items:
        if kind == "call":
            script.call("look", *pieces)
        else:
            getattr(script, kind)(*pieces)
    return script.end()


def play(answer: Answer, events: list[dict[str, Any]], sink: Recorder) -> None:
    for event in events:
        answer.sequence = event["sequence_number"]
        answer.take(event)
        sink.checkpoint(answer.checkpoint())


@pytest.mark.requirement("M1", "M2", "M3")
@given(ITEMS, st.data())
def test_any_crash_and_any_way_on_shows_the_same(
    items: list[tuple[str, list[Any]]], data: st.DataObject
) -> None:
    """The rest of the stream, with repeats before it, or the whole response at once."""
    script, whole = built(items), Recorder()
    play(Answer(whole, who="it"), script.events, whole)
    cut = data.draw(st.integers(0, len(script.events) - 2))
    sink = whole.at(cut)
    answer = Answer(sink, who="it")
    answer.restore(whole.checkpoints[cut])
    if data.draw(st.booleans()):
        answer.take_response(script.events[-1]["response"])
    else:
        play(answer, script.events[cut + 1 :], sink)
    assert sink.parts == whole.parts
    assert [call.input_text for call in sink.calls.values()] == [
        call.input_text for call in whole.calls.values()
    ]
    assert answer.ended
    assert answer.output == script.output


# a stop


@pytest.mark.requirement("C2")
async def test_a_stop_reaches_the_provider_and_nobody_waits_for_it(
    server: KeepingServer, provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    kept = server.keep(everything())
    kept.script.events = kept.script.events[:18]
    endless = provider.aside

    def hanging(exchange: Exchange) -> list[Step] | None:
        script = endless(exchange)
        steps = list(script) if script is not None else None
        return [*steps[:-1], HANG] if steps and exchange.path == "/v1/responses" else steps

    provider.aside = hanging
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(model.respond, ask("Hi"), sink)
            while len(sink.text_deltas) < 2:
                await trio.testing.wait_all_tasks_blocked(0.005)
            scope.cancel(reason="CANCELLED")
    assert scope.cancelled_caught
    with trio.fail_after(2):
        await kept.cancelled.wait()
        await provider.requests[0].closed.wait()
    assert paths(provider)[1:] == [CANCEL]


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("resumed", [False, True])
async def test_a_stop_while_it_is_polled(
    resumed: bool,
    server: KeepingServer,
    provider: FakeProvider,
    model: Responses,
    sink: Recorder,
    clock: MockClock,
) -> None:
    kept = server.keep(everything(), 14)
    server.refuses = True
    server.statuses = ["in_progress"] * 100
    with trio.move_on_after(10 * POLL_SECONDS) as scope:
        await model.respond(ask("Hi"), sink)
    assert scope.cancelled_caught
    await kept.cancelled.wait()
    if resumed:
        kept.cancelled = trio.Event()
        with trio.move_on_after(10 * POLL_SECONDS):
            number = len(sink.checkpoints) - 1
            await model.resume(ask("Hi"), sink.at(number), sink.checkpoints[number])
        await kept.cancelled.wait()


@pytest.mark.requirement("T7", "R1")
async def test_a_shutdown_leaves_the_response_to_the_next_start(
    server: KeepingServer, provider: FakeProvider, model: Responses, sink: Recorder
) -> None:
    server.keep(everything(), 14)
    server.refuses = True
    server.statuses = ["in_progress"] * 100
    async with trio.open_nursery() as nursery:
        nursery.start_soon(model.respond, ask("Hi"), sink)
        await provider.arrived(3)
        nursery.cancel_scope.cancel(reason="shutdown")
    asked = len(provider.requests)
    server.refuses = False
    number = len(sink.checkpoints) - 1
    after = sink.at(number)
    await model.resume(ask("Hi"), after, sink.checkpoints[number])
    assert shown(after) == WHOLE
    assert [path for path in paths(provider)[asked:] if "cancel" in path] == []


async def test_a_plain_response_ends_with_its_connection(
    provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    plain = Responses(name="fake", http=http, base_url=provider.base_url, model="fake")
    provider.play(head(), *map(part, frames(everything().events[:14])), HANG)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(plain.respond, ask("Hi"), sink)
            exchange = await provider.arrived()
            await trio.testing.wait_all_tasks_blocked(0.01)
            scope.cancel(reason="CANCELLED")
    with trio.fail_after(2):
        await exchange.closed.wait()
    assert len(provider.requests) == 1
