"""Messages streams as Anthropic and servers like it send them: one test per case."""

import json
from typing import Any

import pytest
import trio

from app.errors import InvalidError
from app.events import Usage
from app.models import (
    AssistantStep,
    Completion,
    Http,
    ModelConfig,
    ModelError,
    ModelRequest,
    ToolCall,
    ToolResult,
    ToolResults,
    discover,
)
from app.models.anthropic import MOST_PAUSES, Anthropic
from app.models.server_calls import NO_RESULT
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import END, FIN, HANG, FakeProvider, head, part, reply
from tests.app.models.recorder import Recorder
from tests.app.models.wire import sse
from tests.app.models.wire_anthropic import block, call, event, message, start, stop, text

pytestmark = pytest.mark.requirement("E3")

KEY = "sk-ant-verysecret1234567890"


class Talk:
    """A model at the fake provider, and the sink its answer goes to."""

    def __init__(self, provider: FakeProvider, http: Http, sink: Recorder, **members: Any) -> None:
        self.provider = provider
        self.sink = sink
        members = {"name": "fake", "model": "fake", "api_key": KEY, **members}
        self.model = Anthropic(http=http, base_url=provider.url, **members)

    async def answer(self, *frames: bytes) -> Completion:
        """Let the provider stream these frames, and ask."""
        self.provider.play(head(), *map(part, frames), END)
        return await self.model.respond(ask("Hello"), self.sink)

    async def failure(self, *frames: bytes) -> ModelError:
        with pytest.raises(ModelError) as caught:
            await self.answer(*frames)
        return caught.value


@pytest.fixture
def talk(provider: FakeProvider, http: Http, sink: Recorder) -> Talk:
    return Talk(provider, http, sink)


def thinking(index: int, *deltas: str, signature: str = "c2ln") -> bytes:
    return block(
        index,
        {"type": "thinking", "thinking": "", "signature": ""},
        *({"type": "thinking_delta", "thinking": delta} for delta in deltas),
        {"type": "signature_delta", "signature": signature},
    )


async def test_the_request(talk: Talk) -> None:
    await talk.answer(start(), text(0, "Hi"), stop())
    [asked] = talk.provider.requests
    assert (asked.method, asked.path) == ("POST", "/v1/messages")
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in asked.headers
    assert asked.json["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    ]
    assert "cache_control" not in asked.json  # for servers that only speak the wire


@pytest.mark.parametrize(
    "path", ["", "/", "/v1", "/v1/", "/v1/messages", "/anthropic", "/anthropic/v1/messages"]
)
async def test_a_model_as_configured(provider: FakeProvider, http: Http, path: str) -> None:
    """The address is understood however it is written elsewhere."""
    config = ModelConfig(
        name="claude", kind="anthropic", base_url=f"{provider.url}{path}", model="m",
        api_key_env="MY_KEY", options={"max_tokens": 5},
    )  # fmt: skip
    found = await discover([config], {"MY_KEY": "abc"}, http)
    provider.play(head(), part(start()), part(text(0, "Hi")), part(stop()), END)
    await found.get("claude").respond(ask("Hi"), Recorder())
    [asked] = provider.requests
    below = "/anthropic" if "anthropic" in path else ""
    assert asked.path == f"{below}/v1/messages"
    assert asked.headers["x-api-key"] == "abc"
    assert (asked.json["model"], asked.json["max_tokens"]) == ("m", 5)


async def test_without_an_address_it_is_anthropics_own(http: Http) -> None:
    config = ModelConfig(name="claude", kind="anthropic", model="m")
    model = (await discover([config], {}, http)).get("claude")
    assert isinstance(model, Anthropic)
    assert model._call(ask("Hi"), []).url == "https://api.anthropic.com/v1/messages"


async def test_a_model_has_to_be_named(http: Http) -> None:
    with pytest.raises(InvalidError, match="needs `model`"):
        await discover([ModelConfig(name="claude", kind="anthropic")], {}, http)


async def test_anthropic_itself_keeps_the_conversation_in_its_cache(http: Http) -> None:
    members: Any = {"name": "n", "model": "m", "http": http}
    model = Anthropic(base_url="https://api.anthropic.com", **members)
    assert json.loads(model._call(ask("Hi"), []).body)["cache_control"] == {"type": "ephemeral"}
    off = Anthropic(
        base_url="https://api.anthropic.com", options={"cache_control": None}, **members
    )
    assert "cache_control" not in json.loads(off._call(ask("Hi"), []).body)


async def test_without_a_key_none_is_sent_and_with_a_missing_one_nothing(
    provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    await Talk(provider, http, sink, api_key=None).answer(start(), text(0, "Hi"), stop())
    assert "x-api-key" not in provider.requests[0].headers
    error = await Talk(provider, http, sink, missing="No key there.").failure()
    assert (error.code, error.text) == ("MODEL_UNAUTHORIZED", "No key there.")
    assert len(provider.requests) == 1


async def test_text_thinking_and_calls(talk: Talk) -> None:
    completion = await talk.answer(
        start(usage={"input_tokens": 2, "output_tokens": 1, "cache_read_input_tokens": 90,
                     "cache_creation_input_tokens": 8, "cache_creation": {"x": 1}}),
        event("ping"),
        thinking(0, "Let ", "me see."),
        text(1, "I ", "look."),
        call(2, "toolu_1", "look", "", '{"q": ', '"é"}'),
        call(3, "toolu_2", "stop"),
        stop("tool_use", output_tokens=42),
    )  # fmt: skip
    sink = talk.sink
    assert (sink.all_reasoning, sink.all_text) == ("Let me see.", "I look.")
    assert [(c.name, c.provider_id, c.input_text) for c in sink.calls.values()] == [
        ("look", "toolu_1", '{"q": "é"}'),
        ("stop", "toolu_2", ""),
    ]
    assert sink.calls["call-1"].fragments == ['{"q": ', '"é"}']
    assert completion.finish_reason == "tool-calls"
    assert completion.usage == Usage(input_tokens=100, output_tokens=42, cached_tokens=90)
    assert completion.state is not None
    assert (completion.state.provider, completion.state.model) == ("anthropic", "fake")
    assert completion.state.data == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"q": "é"}},
        {"type": "tool_use", "id": "toolu_2", "name": "stop", "input": {}},
    ]


async def test_thoughts_are_parts_of_their_own(talk: Talk) -> None:
    await talk.answer(start(), thinking(0, "One."), thinking(1, "Two."), text(2, "x"), stop())
    told = [
        entry
        for entry in talk.sink.log
        if entry[0] in ("reasoning", "end_part") and entry[1:] != ("",)
    ]
    assert told == [("reasoning", "One."), ("end_part",), ("reasoning", "Two."), ("end_part",)]


async def test_a_count_that_is_left_out_at_the_end_is_that_of_the_start(talk: Talk) -> None:
    completion = await talk.answer(
        start(usage={"input_tokens": 20, "output_tokens": 1}), text(0, "x"), stop(input_tokens=0)
    )
    assert completion.usage == Usage(input_tokens=20, output_tokens=3)


async def test_what_was_received_is_what_the_next_request_says(talk: Talk) -> None:
    """Redacted thinking, thinking without words, and blocks of a later wire included."""
    future = {"type": "from_the_future", "depth": {"a": [1, None]}, "words": "be"}
    completion = await talk.answer(
        start(),
        thinking(0),
        block(1, {"type": "redacted_thinking", "data": "b3BhcXVl"}),
        block(
            2,
            future,
            {"type": "future_delta", "words": "gin"},
            {"type": "future_delta", "words": "ning", "size": 3},
        ),
        call(3, "toolu_1", "look", "{}"),
        stop("tool_use"),
    )
    [made] = talk.sink.calls.values()
    ours = ToolCall(made.id, made.name, {}, made.provider_id)
    step = AssistantStep("", [ours], completion.state)
    question = ask("Hello").entries
    request = ModelRequest([*question, step, ToolResults([ToolResult(ours, "found")])])
    talk.provider.play(head(), part(start()), part(text(0, "ok")), part(stop()), END)
    await talk.model.respond(request, Recorder())
    assert talk.provider.requests[1].json["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "b3BhcXVl"},
                {**future, "words": "beginning", "size": 3},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}],
        },
    ]


@pytest.mark.requirement("S2")
async def test_pings_and_unknown_events_are_no_progress(talk: Talk) -> None:
    await talk.answer(
        start(), event("ping"), sse({"type": "ping"}), event("from_the_future", index=0),
        text(0, "Hi"), stop(),
    )  # fmt: skip
    assert talk.sink.log[1:4] == [("alive",)] * 3
    assert talk.sink.all_text == "Hi"


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
    completion = await talk.answer(start(), text(0, "Hi"), stop(reason))
    assert completion.finish_reason == finish


@pytest.mark.parametrize(
    ("reason", "finish"), [("end_turn", "tool-calls"), ("max_tokens", "length")]
)
async def test_stop_reasons_of_calls(talk: Talk, reason: str, finish: str) -> None:
    completion = await talk.answer(start(), call(0, "toolu_1", "look", "{"), stop(reason))
    assert completion.finish_reason == finish
    # Half an input cannot go back as it is: the provider takes objects only.
    assert completion.state is not None
    assert completion.state.data[0]["input"] == {"INVALID_JSON": "{"}
    assert talk.sink.calls["call-1"].input_text == "{"


@pytest.mark.requirement("S3")
async def test_a_refusal_is_a_failure_that_is_not_repeated(talk: Talk) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not about this."}
    delta = {"stop_reason": "refusal", "stop_details": details}
    error = await talk.failure(start(), text(0, "Well, "), event("message_delta", delta=delta))
    assert (error.code, error.retryable) == ("CONTENT_FILTERED", False)
    assert error.text == "127.0.0.1 refused the content: Not about this."
    assert talk.sink.all_text == "Well, "


@pytest.mark.requirement("S3")
async def test_a_full_context_says_what_to_do(talk: Talk) -> None:
    error = await talk.failure(start(), text(0, "Hi"), stop("model_context_window_exceeded"))
    assert (error.code, error.retryable) == ("CONTEXT_TOO_LONG", False)
    assert "Start a new thread" in error.text


# what the provider runs itself, and its pauses


def served(index: int, id_: str, query: str) -> bytes:
    begin = {"type": "server_tool_use", "id": id_, "name": "web_search", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps({"query": query})}
    return block(index, begin, delta)


def found(index: int, id_: str, content: Any) -> bytes:
    return block(index, {"type": "web_search_tool_result", "tool_use_id": id_, "content": content})


async def test_a_search_of_the_provider_is_shown_and_settled(talk: Talk) -> None:
    hit = {"type": "web_search_result", "url": "https://x.invalid", "encrypted_content": "b3Bh"}
    cited = block(
        3,
        {"type": "text", "text": "", "citations": None},
        {"type": "text_delta", "text": "cited"},
        {"type": "citations_delta", "citation": {"url": "https://x.invalid"}},
    )
    completion = await talk.answer(
        start(), served(0, "srvtoolu_1", "cats"), found(1, "srvtoolu_1", [hit]),
        text(2, "It is "), cited, text(4, "."), stop(),
    )  # fmt: skip
    [search] = talk.sink.calls.values()
    assert (search.name, search.input_text) == ("web_search", '{"query": "cats"}')
    assert search.settled == ([{"type": hit["type"], "url": hit["url"]}], False)
    assert completion.finish_reason == "stop"
    assert talk.sink.all_text == "It is cited."
    assert talk.sink.count("end_part") == 0  # one sentence, one part
    assert completion.state is not None
    assert completion.state.data[1]["content"] == [hit]
    assert completion.state.data[3]["citations"] == [{"url": "https://x.invalid"}]


async def test_a_search_that_failed(talk: Talk) -> None:
    content = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    await talk.answer(
        start(), served(0, "s1", "x"), found(1, "s1", content), text(2, "No."), stop()
    )
    assert talk.sink.calls["call-1"].settled == (content, True)


async def test_a_search_without_a_result_is_not_left_for_us_to_run(talk: Talk) -> None:
    completion = await talk.answer(start(), served(0, "s1", "x"), text(1, "Hm."), stop())
    assert talk.sink.calls["call-1"].settled == (NO_RESULT, True)
    assert completion.finish_reason == "stop"


async def test_a_paused_answer_goes_on(talk: Talk) -> None:
    """Where it stopped, with what it said; its search may end in the second half."""
    provider = talk.provider
    provider.play(
        head(), part(start()), part(text(0, "I search. ")), part(served(1, "s1", "x")),
        part(stop("pause_turn")), END,
    )  # fmt: skip
    completion = await talk.answer(
        start(usage={"input_tokens": 20, "output_tokens": 1}),
        found(0, "s1", []),
        text(1, "Found."),
        stop(),
    )
    first, second = provider.requests
    said = [
        {"type": "text", "text": "I search. "},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    ]
    assert second.json["messages"] == [
        *first.json["messages"],
        {"role": "assistant", "content": said},
    ]
    assert talk.sink.all_text == "I search. Found."
    assert talk.sink.calls["call-1"].settled == ([], False)
    assert completion.usage == Usage(input_tokens=27, output_tokens=6)
    assert completion.state is not None
    assert completion.state.data == [
        *said,
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "text", "text": "Found."},
    ]


async def test_pauses_have_an_end(talk: Talk) -> None:
    for _ in range(MOST_PAUSES - 1):
        talk.provider.play(head(), part(start()), part(text(0, "x")), part(stop("pause_turn")), END)
    error = await talk.failure(start(), text(0, "x"), stop("pause_turn"))
    assert (error.code, error.retryable) == ("MODEL_ERROR", False)
    assert len(talk.provider.requests) == MOST_PAUSES


# errors


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("kind", "code", "retryable"),
    [
        ("overloaded_error", "MODEL_OVERLOADED", True),
        ("rate_limit_error", "MODEL_RATE_LIMITED", True),
        ("api_error", "MODEL_ERROR", True),
        ("timeout_error", "MODEL_ERROR", True),
        ("invalid_request_error", "MODEL_REQUEST_REFUSED", False),
        ("authentication_error", "MODEL_UNAUTHORIZED", False),
        ("permission_error", "MODEL_UNAUTHORIZED", False),
        ("not_found_error", "MODEL_NOT_FOUND", False),
        ("request_too_large", "CONTEXT_TOO_LONG", False),
        ("billing_error", "MODEL_RATE_LIMITED", False),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
async def test_errors_by_their_type(
    talk: Talk, kind: str, code: str, retryable: bool, inside: bool
) -> None:
    """Inside a 200, as an event or as the whole body."""
    body = {"type": "error", "error": {"type": kind, "message": "Said so"}, "request_id": "r"}
    if inside:
        error = await talk.failure(start(), sse(body, "error"))
    else:
        talk.provider.play(*reply(200, body))
        with pytest.raises(ModelError) as caught:
            await talk.model.respond(ask("Hello"), talk.sink)
        error = caught.value
    assert (error.code, error.retryable) == (code, retryable)
    assert "Said so." in error.text


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "CONTEXT_TOO_LONG"),
        (400, "messages.1.content: bad", "MODEL_REQUEST_REFUSED"),
        (413, "Request exceeds the maximum size", "CONTEXT_TOO_LONG"),
        (404, "model: nope", "MODEL_NOT_FOUND"),
    ],
)
async def test_refused_requests(talk: Talk, status: int, said: str, code: str) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    talk.provider.play(*reply(status, error))
    with pytest.raises(ModelError) as caught:
        await talk.model.respond(ask("Hello"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == (code, False)
    assert said in caught.value.text


async def test_a_cut_after_the_stop_reason_does_not_spoil_the_answer(talk: Talk) -> None:
    delta = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
    talk.provider.play(head(), part(start()), part(text(0, "All")), part(delta), FIN)
    completion = await talk.model.respond(ask("Hello"), talk.sink)
    assert (completion.finish_reason, talk.sink.all_text) == ("stop", "All")


async def test_the_connection_is_used_again(talk: Talk) -> None:
    for _ in range(2):
        await talk.answer(start(), text(0, "Hi"), stop())
    assert [request.connection for request in talk.provider.requests] == [1, 1]


@pytest.mark.requirement("C2")
async def test_cancelling_in_a_tools_input_closes_the_connection_at_once(
    talk: Talk, nursery: trio.Nursery
) -> None:
    half = block(0, {"type": "tool_use", "id": "t", "name": "look", "input": {}},
                 {"type": "input_json_delta", "partial_json": '{"a'}, stop=False)  # fmt: skip
    talk.provider.play(head(), part(start()), part(half), HANG)
    scope = trio.CancelScope()

    async def respond() -> None:
        with scope:
            await talk.model.respond(ask("x"), talk.sink)

    nursery.start_soon(respond)
    exchange = await talk.provider.arrived()
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert talk.sink.calls["call-1"].fragments == ['{"a']
    scope.cancel(reason="the person stopped it")
    with trio.fail_after(1):
        await exchange.closed.wait()


# what servers like it do


async def test_a_server_that_ignores_stream(talk: Talk) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": 1}},
    ]
    whole = message(content=content, stop_reason="tool_use")
    talk.provider.play(*reply(200, whole))
    completion = await talk.model.respond(ask("Hello"), talk.sink)
    assert (talk.sink.all_reasoning, talk.sink.all_text) == ("Hm", "Hi")
    assert talk.sink.calls["call-1"].input_text == '{"q":1}'
    assert completion.finish_reason == "tool-calls"
    assert completion.state is not None
    assert completion.state.data == content


async def test_blocks_that_do_not_begin_or_do_not_end(talk: Talk) -> None:
    delta = {"type": "text_delta", "text": "Hi"}
    completion = await talk.answer(
        start(), event("content_block_delta", index=0, delta=delta), stop()
    )
    assert talk.sink.all_text == "Hi"
    assert completion.state is not None
    assert completion.state.data == [{"type": "text", "text": "Hi"}]


async def test_frames_without_event_lines_and_text_in_the_start(talk: Talk) -> None:
    begin = {"type": "text", "text": "Hello "}
    frames = [
        {"type": "message_start", "message": message()},
        {"type": "content_block_start", "index": 0, "content_block": begin},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "text_delta", "text": "there"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]  # fmt: skip
    completion = await talk.answer(*map(sse, frames), sse("[DONE]"))
    assert talk.sink.all_text == "Hello there"
    assert completion.state is not None
    assert completion.state.data == [{"type": "text", "text": "Hello there"}]


@pytest.mark.parametrize(
    "frame",
    [
        sse([1]),
        event("content_block_start", index=0, content_block={"type": "tool_use", "id": "t"}),
        event("content_block_delta", index=7, delta={"type": "input_json_delta"}),
    ],
)
async def test_what_is_no_part_of_an_answer_is_asked_for_again(talk: Talk, frame: bytes) -> None:
    error = await talk.failure(start(), frame, stop())
    assert (error.code, error.retryable) == ("MODEL_PROTOCOL", True)


async def test_a_pair_of_surrogates_cut_between_deltas_is_whole_in_what_goes_back(
    talk: Talk,
) -> None:
    completion = await talk.answer(
        start(), thinking(0, "\ud83d", "\ude00"), text(1, "a\ud83d", "\ude00", "\ud83d"), stop()
    )
    assert completion.state is not None
    assert [b.get("thinking") or b.get("text") for b in completion.state.data] == [
        "😀",
        "a😀\ufffd",
    ]
    assert talk.sink.all_text == "a😀\ufffd"
