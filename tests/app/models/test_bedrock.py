"""ConverseStream as Bedrock sends it, on a real socket."""

import json
import struct
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from app.events import Usage
from app.models import Completion, Http, ModelError
from app.models.bedrock import Bedrock
from app.models.bedrock_keys import Bearer, Fixed
from app.models.server_calls import NO_RESULT
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import END, FIN, HANG, RST, FakeProvider, Step, part, reply
from tests.app.models.recorder import Recorder
from tests.app.models.wire_bedrock import (
    START,
    BedrockWire,
    call,
    delta,
    error,
    event,
    exception,
    start_call,
    stop,
    stop_block,
    text,
)

pytestmark = pytest.mark.requirement("E3")

WIRE = BedrockWire()
KEY = "bedrock-api-key-verysecret1234"


class Talk:
    """A model at the fake provider, and the sink its answer goes to."""

    def __init__(self, provider: FakeProvider, http: Http, sink: Recorder, **members: Any) -> None:
        self.provider = provider
        self.sink = sink
        members = {
            "model": "fake",
            "region": "eu-west-1",
            "source": Fixed(Bearer(KEY)),
            **members,
        }
        self.model = Bedrock(name="fake", http=http, base_url=provider.url, **members)

    async def answer(self, *frames: bytes, end: Step = END) -> Completion:
        """Let the provider stream these frames, and ask."""
        self.provider.play(WIRE.opening(), *map(part, frames), end)
        return await self.model.respond(ask("Hello"), self.sink)

    async def failure(self, *frames: bytes, end: Step = END) -> ModelError:
        with pytest.raises(ModelError) as caught:
            await self.answer(*frames, end=end)
        return caught.value


@pytest.fixture
def talk(provider: FakeProvider, http: Http, sink: Recorder) -> Talk:
    return Talk(provider, http, sink)


async def test_the_request(provider: FakeProvider, http: Http, sink: Recorder) -> None:
    talk = Talk(
        provider, http, sink, model="arn:aws:bedrock:eu-west-1:1:inference-profile/x.y-v1:0"
    )
    await talk.answer(START, text(0, "Hi"), stop())
    [asked] = provider.requests
    assert asked.method == "POST"
    assert asked.path == (
        "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fx.y-v1%3A0/converse-stream"
    )
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json == {"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}


async def test_text_thinking_and_calls(talk: Talk) -> None:
    completion = await talk.answer(
        START,
        delta(0, reasoningContent={"text": "Let "}),
        delta(0, reasoningContent={"text": "me see."}),
        delta(0, reasoningContent={"signature": "c2ln"}),
        stop_block(0),
        delta(1, reasoningContent={"redactedContent": "b3Bh"}),
        stop_block(1),
        text(2, "I ", "look."),
        call(3, "tooluse_1", "look", '{"q": ', '"é"}'),
        call(4, "tooluse_2", "stop"),
        stop("tool_use", cacheReadInputTokens=90, cacheWriteInputTokens=3),
    )
    sink = talk.sink
    assert (sink.all_reasoning, sink.all_text) == ("Let me see.", "I look.")
    assert [(c.name, c.provider_id, c.input_text) for c in sink.calls.values()] == [
        ("look", "tooluse_1", '{"q": "é"}'),
        ("stop", "tooluse_2", ""),
    ]
    assert completion.finish_reason == "tool-calls"
    assert completion.usage == Usage(input_tokens=100, output_tokens=3, cached_tokens=90)
    assert completion.state is not None
    assert completion.state.data == [
        {"reasoningContent": {"reasoningText": {"text": "Let me see.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "b3Bh"}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"q": "é"}}},
        {"toolUse": {"toolUseId": "tooluse_2", "name": "stop", "input": {}}},
    ]


async def test_what_the_provider_runs_itself_is_not_left_for_us(talk: Talk) -> None:
    results = {"toolUseId": "srv_1", "type": "nova_grounding_result", "status": "success"}
    completion = await talk.answer(
        START,
        start_call(0, "srv_1", "nova_grounding", type="server_tool_use"),
        stop_block(0),
        event("contentBlockStart", contentBlockIndex=1, start={"toolResult": results}),
        delta(1, toolResult=[{"text": "found"}]),
        stop_block(1),
        delta(2, citation={"title": "t"}),
        text(2, "It is."),
        start_call(3, "srv_2", "nova_grounding", type="server_tool_use"),
        stop_block(3),
        stop(),
    )
    assert [call.settled for call in talk.sink.calls.values()] == [
        ([{"text": "found"}], False),
        (NO_RESULT, True),
    ]
    assert completion.finish_reason == "stop"
    assert completion.state is not None
    assert completion.state.data[1] == {"toolResult": {**results, "content": [{"text": "found"}]}}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "stop"),  # without a call
        ("from_the_future", "other"),
    ],
)
async def test_stop_reasons(talk: Talk, reason: str, finish: str) -> None:
    completion = await talk.answer(START, text(0, "Hi"), stop(reason))
    assert completion.finish_reason == finish


async def test_half_an_input_at_the_limit(talk: Talk) -> None:
    completion = await talk.answer(START, call(0, "t", "look", '{"a'), stop("max_tokens"))
    assert completion.finish_reason == "length"
    assert completion.state is not None
    assert completion.state.data[0]["toolUse"]["input"] == {"INVALID_JSON": '{"a'}


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("reason", "code", "retryable"),
    [
        ("guardrail_intervened", "CONTENT_FILTERED", False),
        ("content_filtered", "CONTENT_FILTERED", False),
        ("model_context_window_exceeded", "CONTEXT_TOO_LONG", False),
        ("malformed_model_output", "MODEL_ERROR", True),
        ("malformed_tool_use", "MODEL_ERROR", True),
    ],
)
async def test_reasons_that_are_failures(
    talk: Talk, reason: str, code: str, retryable: bool
) -> None:
    failure = await talk.failure(START, text(0, "Hi"), stop(reason))
    assert (failure.code, failure.retryable) == (code, retryable)


# errors in the stream


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("kind", "code", "retryable"),
    [
        ("throttlingException", "MODEL_RATE_LIMITED", True),
        ("serviceUnavailableException", "MODEL_OVERLOADED", True),
        ("internalServerException", "MODEL_ERROR", True),
        ("modelStreamErrorException", "MODEL_ERROR", True),
        ("modelTimeoutException", "MODEL_ERROR", True),
        ("validationException", "MODEL_REQUEST_REFUSED", False),
        ("accessDeniedException", "MODEL_UNAUTHORIZED", False),
        ("somethingNewException", "MODEL_ERROR", True),
    ],
)
async def test_exception_frames(talk: Talk, kind: str, code: str, retryable: bool) -> None:
    frame = exception(kind, message="Said so", originalMessage="by the model")
    failure = await talk.failure(START, delta(0, text="half"), frame)
    assert (failure.code, failure.retryable) == (code, retryable)
    assert "Said so: by the model." in failure.text
    assert talk.sink.all_text == "half"


@pytest.mark.requirement("S3")
async def test_an_error_frame_that_no_model_of_the_service_foresees(talk: Talk) -> None:
    failure = await talk.failure(START, error("InternalError", "Something broke"))
    assert (failure.code, failure.retryable) == ("MODEL_ERROR", True)
    assert "Something broke." in failure.text


@pytest.mark.requirement("S3")
@pytest.mark.parametrize("place", [3, 8, 30, -1], ids=["length", "prelude", "head", "end"])
async def test_a_frame_that_was_damaged_is_asked_for_again(talk: Talk, place: int) -> None:
    frame = bytearray(delta(0, text="never shown"))
    frame[place] ^= 0x40
    failure = await talk.failure(START, bytes(frame), stop())
    assert failure.code in ("MODEL_PROTOCOL", "MODEL_EOF")
    assert failure.retryable
    assert talk.sink.all_text == ""


@pytest.mark.requirement("S3")
async def test_a_frame_that_claims_to_be_endless(talk: Talk) -> None:
    failure = await talk.failure(START, struct.pack(">III", 2**31, 0, 0), stop())
    assert (failure.code, failure.retryable) == ("MODEL_PROTOCOL", True)


@pytest.mark.parametrize(
    "frame",
    [
        event("contentBlockDelta", raw=b"[]"),
        event("contentBlockDelta", contentBlockIndex=0, delta=None),
        start_call(0, "t", ""),
    ],
)
async def test_what_is_no_part_of_an_answer_is_asked_for_again(talk: Talk, frame: bytes) -> None:
    failure = await talk.failure(START, frame, stop())
    assert (failure.code, failure.retryable) == ("MODEL_PROTOCOL", True)


@pytest.mark.requirement("S3")
async def test_every_cut_of_a_stream_is_an_error_until_the_message_has_stopped(
    talk: Talk,
) -> None:
    """A clean end at each byte: bytes left over, or a frame short, are both no answer."""
    frames = [START, text(0, "Hi"), event("messageStop", stopReason="end_turn")]
    body = b"".join(frames)
    for size in range(1, len(body), 5):
        failure = await talk.failure(body[:size])
        assert (failure.code, failure.retryable) == ("MODEL_EOF", True)
    assert (await talk.answer(body)).finish_reason == "stop"


@pytest.mark.parametrize("end", [END, FIN, RST])
async def test_what_follows_the_end_of_the_message_cannot_spoil_it(talk: Talk, end: Step) -> None:
    frames = [START, text(0, "Hi"), event("messageStop", stopReason="end_turn")]
    completion = await talk.answer(*frames, stop()[-20:], end=end)
    assert (completion.finish_reason, completion.usage) == ("stop", None)


async def test_an_exception_after_the_end_of_the_message_cannot_spoil_it(talk: Talk) -> None:
    frames = [START, text(0, "Hi"), event("messageStop", stopReason="end_turn")]
    completion = await talk.answer(*frames, exception("throttlingException", message="no"))
    assert completion.finish_reason == "stop"


async def test_a_server_that_never_closes_after_the_last_event(
    talk: Talk, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.02
    began = trio.current_time()
    assert (await talk.answer(START, text(0, "Hi"), stop(), end=HANG)).finish_reason == "stop"
    assert trio.current_time() - began < 1


async def test_the_connection_is_used_again(talk: Talk) -> None:
    for _ in range(2):
        await talk.answer(START, text(0, "Hi"), stop())
    assert [request.connection for request in talk.provider.requests] == [1, 1]


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/html"])
async def test_another_kind_of_answer_is_not_ours(talk: Talk, kind: str) -> None:
    talk.provider.play(*reply(200, {"output": {}}, kind=kind))
    with pytest.raises(ModelError, match="check base_url") as caught:
        await talk.model.respond(ask("Hello"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_PROTOCOL", False)


# errors before the stream


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("status", "kind", "message", "code", "retryable"),
    [
        (429, "ThrottlingException", "Too many requests", "MODEL_RATE_LIMITED", True),
        (400, "ThrottlingException", "Rate exceeded", "MODEL_RATE_LIMITED", True),
        (400, "ServiceQuotaExceededException", "Quota", "MODEL_RATE_LIMITED", False),
        (400, "ValidationException", "messages.0 is bad", "MODEL_REQUEST_REFUSED", False),
        (400, "ValidationException", "Input is too long for requested model.",
         "CONTEXT_TOO_LONG", False),
        (403, "AccessDeniedException", "no access to the model", "MODEL_UNAUTHORIZED", False),
        (403, "ExpiredTokenException", "The token is expired", "MODEL_UNAUTHORIZED", False),
        (403, "InvalidSignatureException", "does not match", "MODEL_UNAUTHORIZED", False),
        (404, "ResourceNotFoundException", "no such model", "MODEL_NOT_FOUND", False),
        (408, "ModelTimeoutException", "took too long", "MODEL_ERROR", True),
        (424, "ModelErrorException", "the model failed", "MODEL_ERROR", True),
        (429, "ModelNotReadyException", "still loading", "MODEL_OVERLOADED", True),
        (500, "InternalServerException", "internal", "MODEL_ERROR", True),
        (503, "ServiceUnavailableException", "unavailable", "MODEL_OVERLOADED", True),
    ],
)  # fmt: skip
async def test_statuses_by_the_kind_in_the_header(
    talk: Talk, status: int, kind: str, message: str, code: str, retryable: bool
) -> None:
    header = f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"
    talk.provider.play(*reply(status, {"message": message}, x_amzn_errortype=header))
    with pytest.raises(ModelError) as caught:
        await talk.model.respond(ask("Hello"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert message.rstrip(".") in caught.value.text


async def test_a_kind_in_the_body(talk: Talk) -> None:
    body = {"__type": "com.amazon.coral.service#ExpiredTokenException", "message": "expired"}
    talk.provider.play(*reply(400, body))
    with pytest.raises(ModelError) as caught:
        await talk.model.respond(ask("Hello"), talk.sink)
    assert caught.value.code == "MODEL_UNAUTHORIZED"


async def test_the_key_is_in_no_error(talk: Talk) -> None:
    talk.provider.play(*reply(403, {"message": f"Bad key {KEY}"}))
    with pytest.raises(ModelError) as caught:
        await talk.model.respond(ask("Hello"), talk.sink)
    assert "Bad key [key]" in caught.value.text


async def test_a_model_without_a_region(provider: FakeProvider, http: Http, sink: Recorder) -> None:
    with pytest.raises(ModelError, match="AWS_REGION"):
        await Talk(provider, http, sink, region=None).model.respond(ask("Hello"), sink)
    assert provider.connections == 0


async def test_surrogates_cut_between_deltas_are_whole_in_what_goes_back(talk: Talk) -> None:
    completion = await talk.answer(START, text(0, "a\ud83d", "\ude00", "\ud83d"), stop())
    assert completion.state is not None
    assert completion.state.data == [{"text": "a😀\ufffd"}]
    assert json.dumps(talk.sink.all_text) == json.dumps("a😀\ufffd")
