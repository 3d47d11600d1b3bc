"""Chat Completions as servers really stream it: one test per quirk (PROTOCOLS.md, B2)."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.events import Usage
from app.models import Completion, Http, ModelError
from app.models.chat_completions import ChatCompletions
from app.models.chat_reader import ChatReader
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import (
    DONE,
    END,
    FIN,
    STOP,
    FakeProvider,
    chunk,
    frame,
    head,
    part,
    reply,
    say,
    tool,
)
from tests.app.models.recorder import Recorder

pytestmark = pytest.mark.requirement("E3")


class Talk:
    """A model at the fake provider, and the sink its answer goes to."""

    def __init__(self, provider: FakeProvider, http: Http, sink: Recorder) -> None:
        self.provider = provider
        self.sink = sink
        self.model = ChatCompletions(
            name="fake", http=http, base_url=provider.base_url, model="fake", api_key="key-1234"
        )

    async def answer(self, *values: Any) -> Completion:
        """Let the provider stream these chunks, and ask."""
        self.provider.stream(*values)
        return await self.model.respond(ask("Hello"), self.sink)

    async def failure(self, *values: Any) -> ModelError:
        with pytest.raises(ModelError) as caught:
            await self.answer(*values)
        return caught.value

    @property
    def calls(self) -> list[tuple[str, str | None, Any]]:
        """Name, provider's id and input of each call."""
        return [
            (call.name, call.provider_id, json.loads(call.input_text or "{}"))
            for call in self.sink.calls.values()
        ]


@pytest.fixture
def talk(provider: FakeProvider, http: Http, sink: Recorder) -> Talk:
    return Talk(provider, http, sink)


# text


async def test_the_standard_stream(talk: Talk) -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    completion = await talk.answer(
        chunk({"role": "assistant", "content": ""}),
        say("Hel"),
        say("lo"),
        STOP,
        {**chunk(), "choices": [], "usage": usage},
        DONE,
    )
    assert talk.sink.text_deltas == ["Hel", "lo"]
    assert completion == Completion("stop", Usage(9, 2, 4))


@pytest.mark.requirement("M3")
@pytest.mark.parametrize(
    "deltas",
    [
        ["|", "|", "|", " a ", "|", "|\n", "|", "|\n|", "|"],
        ["same line\n"] * 5,
        ["a", "ab", "abc", "abcd"],
        ["👩", "\u200d", "🚀", "e", "\u0301", " ", " ", "\t\n"],
        ["line\u2028separator", "next\x85line", "\x0b"],
    ],
)
async def test_prefix_heavy_text_is_never_compared(talk: Talk, deltas: list[str]) -> None:
    await talk.answer(*map(say, deltas), STOP)
    assert talk.sink.text_deltas == deltas


@pytest.mark.requirement("M3")
async def test_raw_unicode_cut_at_every_byte(talk: Talk) -> None:
    text = "naïve 日本\u2028👩‍🚀"
    stream = b"".join(
        f"data: {json.dumps(c, ensure_ascii=False)}\n\n".encode() for c in (say(text), STOP)
    )
    talk.provider.play(head(), *(part(stream[n : n + 1]) for n in range(len(stream))), END)
    await talk.model.respond(ask("x"), talk.sink)
    assert talk.sink.text_deltas == [text]


@pytest.mark.requirement("M3")
async def test_a_surrogate_pair_cut_between_two_deltas_reaches_the_sink_in_halves(
    talk: Talk,
) -> None:
    # json.dumps writes the halves as escapes, as such servers do.
    await talk.answer(say("a\ud83d"), say("\ude00b"), STOP)
    joined = talk.sink.all_text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    assert joined == "a😀b"


async def test_content_as_a_list_of_parts(talk: Talk) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    text = {"type": "text", "text": "yes"}
    await talk.answer(chunk({"content": [thinking, text, {"type": "reference"}]}), STOP)
    assert (talk.sink.all_reasoning, talk.sink.all_text) == ("hm", "yes")


async def test_a_refusal_is_shown_as_text(talk: Talk) -> None:
    await talk.answer(chunk({"refusal": "I will not."}), STOP)
    assert talk.sink.all_text == "I will not."


async def test_only_the_first_choice_is_the_answer(talk: Talk) -> None:
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": None}
    both = chunk({"content": "mine"})
    both["choices"].append(other)
    await talk.answer(both, chunk(choices=[other]), STOP)
    assert talk.sink.all_text == "mine"


# the end


async def test_no_done_marker_is_fine(talk: Talk) -> None:
    assert (await talk.answer(say("x"), STOP)).finish_reason == "stop"


async def test_a_connection_closed_instead_of_chunked(talk: Talk) -> None:
    body = "".join(f"data: {json.dumps(c)}\n\n" for c in (say("x"), STOP)).encode()
    talk.provider.play(head(chunked=False), body, FIN)
    assert (await talk.model.respond(ask("x"), talk.sink)).finish_reason == "stop"


@pytest.mark.requirement("S3")
@pytest.mark.parametrize("last", [[], [DONE], [chunk()], [chunk(finish="")]])
async def test_an_end_without_finish_reason_is_never_success(talk: Talk, last: list[Any]) -> None:
    error = await talk.failure(say("half an ans"), *last)
    assert (error.code, error.retryable) == ("MODEL_EOF", True)
    assert talk.sink.all_text == "half an ans"


async def test_an_empty_finish_reason_is_no_finish(talk: Talk) -> None:
    completion = await talk.answer(chunk({"content": "a"}, finish=""), say("b"), STOP)
    assert (talk.sink.all_text, completion.finish_reason) == ("ab", "stop")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("eos", "stop"),
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("something new", "other"),
        ("tool_calls", "stop"),  # without any call
    ],
)
async def test_finish_reasons(talk: Talk, said: str, meant: str) -> None:
    assert (await talk.answer(say("x"), chunk(finish=said))).finish_reason == meant


async def test_the_last_event_may_lack_its_empty_line(talk: Talk) -> None:
    talk.provider.play(head(), frame(say("x")), part(f"data: {json.dumps(STOP)}".encode()), END)
    assert (await talk.model.respond(ask("x"), talk.sink)).finish_reason == "stop"


@pytest.mark.requirement("S3")
async def test_an_event_cut_short_at_a_clean_end_is_no_answer(talk: Talk) -> None:
    talk.provider.play(head(), frame(say("x")), part(b'data: {"choices":[{"finish_re'), END)
    with pytest.raises(ModelError) as caught:
        await talk.model.respond(ask("x"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_EOF", True)


async def test_what_comes_after_the_finish_cannot_spoil_it(talk: Talk) -> None:
    talk.provider.play(head(), frame(say("x")), frame(STOP), part(b"data: {broken\n\n"), END)
    assert (await talk.model.respond(ask("x"), talk.sink)).finish_reason == "stop"


async def test_a_server_that_does_not_stream_at_all(talk: Talk) -> None:
    message = {"role": "assistant", "content": "whole"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    talk.provider.play(*reply(200, {"choices": [choice], "usage": {"prompt_tokens": 3}}))
    completion = await talk.model.respond(ask("x"), talk.sink)
    assert talk.sink.all_text == "whole"
    assert completion == Completion("stop", Usage(3))


# frames that say nothing


@pytest.mark.requirement("S2")
async def test_comments_and_empty_frames_are_life_but_no_progress(talk: Talk) -> None:
    talk.provider.play(
        head(), part(b": ping\n\n"), part(b"data:\n\n"), part(b": OPENROUTER PROCESSING\n\n"),
        frame(say("x")), frame(STOP), END,
    )  # fmt: skip
    await talk.model.respond(ask("x"), talk.sink)
    kinds = talk.sink.kinds
    assert kinds[: kinds.index("text")] == ["alive"]


@pytest.mark.parametrize(
    "empty",
    [
        {"choices": None},
        {"choices": []},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None}}]},
        {"choices": [{"index": 0, "delta": {"content": "", "reasoning": ""}}]},
        {"choices": [], "usage": None},
        {"prompt_filter_results": []},
    ],
)
async def test_chunks_without_content_are_progress(talk: Talk, empty: dict[str, Any]) -> None:
    await talk.answer(empty, say("x"), STOP)
    assert talk.sink.kinds == ["progress", "text", "progress"]


async def test_the_last_usage_wins(talk: Talk) -> None:
    def with_usage(tokens: int) -> dict[str, Any]:
        return {**say("x"), "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}

    completion = await talk.answer(with_usage(1), with_usage(2), STOP)
    assert completion.usage == Usage(5, 2)


@pytest.mark.parametrize(
    "usage",
    [
        {"usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 3}},
        {"x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 1,
                              "prompt_tokens_details": {"cached_tokens": 3}}}},
    ],
)  # fmt: skip
async def test_usage_of_other_shapes(talk: Talk, usage: dict[str, Any]) -> None:
    assert (await talk.answer(say("x"), {**STOP, **usage})).usage == Usage(5, 1, 3)


# reasoning


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_reasoning_by_either_name_is_kept_for_the_next_request(talk: Talk, key: str) -> None:
    completion = await talk.answer(chunk({key: "I th"}), chunk({key: "ink"}), say("so"), STOP)
    assert talk.sink.kinds == ["reasoning", "text", "progress"]
    assert talk.sink.all_reasoning == "I think"
    assert completion.state is not None
    assert completion.state.data == {key: "I think"}


async def test_a_thought_under_two_names_is_shown_once(talk: Talk) -> None:
    detail = {"type": "reasoning.text", "text": "hm", "index": 0}
    delta = {"reasoning_content": "hm", "reasoning": "hm", "reasoning_details": [detail]}
    await talk.answer(chunk(delta), STOP)
    assert talk.sink.all_reasoning == "hm"


async def test_reasoning_details_are_put_together_and_kept_verbatim(talk: Talk) -> None:
    def piece(**members: Any) -> dict[str, Any]:
        return chunk({"reasoning_details": [members]})

    completion = await talk.answer(
        piece(type="reasoning.text", text="Let ", index=0, format="a", signature=None),
        piece(type="reasoning.text", text="me", index=0, format="a", signature="sig"),
        piece(type="reasoning.summary", summary="short", index=1),
        piece(type="reasoning.encrypted", data="xyz", id="r1", index=2),
        say("ok"),
        STOP,
    )
    assert talk.sink.all_reasoning == "Let meshort"
    assert completion.state is not None
    assert completion.state.data["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Let me", "index": 0, "format": "a", "signature": "sig"},
        {"type": "reasoning.summary", "summary": "short", "index": 1},
        {"type": "reasoning.encrypted", "data": "xyz", "id": "r1", "index": 2},
    ]


# tool calls


async def test_the_standard_tool_calls(talk: Talk) -> None:
    completion = await talk.answer(
        say("Let me look."),
        tool(0, "call_1", "search", ""),
        tool(0, None, None, '{"q":'),
        tool(0, None, None, ' "x"}'),
        tool(1, "call_2", "read", ""),
        tool(1, None, None, "{}"),
        chunk(finish="tool_calls"),
        DONE,
    )
    assert talk.calls == [("search", "call_1", {"q": "x"}), ("read", "call_2", {})]
    assert talk.sink.calls["call-1"].fragments == ['{"q":', ' "x"}']
    assert completion.finish_reason == "tool-calls"


async def test_tool_calls_interleaved_by_index(talk: Talk) -> None:
    await talk.answer(
        tool(0, "a", "one", '{"n"'),
        tool(1, "b", "two", '{"m"'),
        tool(0, None, None, ":1}"),
        tool(1, None, None, ":2}"),
        chunk(finish="tool_calls"),
    )
    assert talk.calls == [("one", "a", {"n": 1}), ("two", "b", {"m": 2})]


async def test_stop_although_tools_were_called(talk: Talk) -> None:
    completion = await talk.answer(tool(0, "a", "one", "{}"), STOP)
    assert completion.finish_reason == "tool-calls"


async def test_a_call_cut_by_the_length_limit_stays_length(talk: Talk) -> None:
    completion = await talk.answer(tool(0, "a", "one", '{"n'), chunk(finish="length"))
    assert completion.finish_reason == "length"
    assert talk.sink.calls["call-1"].input_text == '{"n'


async def test_a_whole_call_in_one_delta_makes_no_deltas(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", '{"n": {"m": 1}}'), STOP)
    assert talk.calls == [("one", "a", {"n": {"m": 1}})]
    assert talk.sink.count("tool_delta") == 0


async def test_a_call_that_only_looked_whole_goes_on(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", "{}"), tool(0, None, None, " \n"), STOP)
    assert talk.sink.calls["call-1"].fragments == ["{}", " \n"]
    assert talk.sink.calls["call-1"].input_text == "{} \n"


@pytest.mark.requirement("S7")
async def test_index_always_0_with_new_ids(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", '{"n":1}'), tool(0, "b", "one", '{"n":2}'), STOP)
    assert talk.calls == [("one", "a", {"n": 1}), ("one", "b", {"n": 2})]


@pytest.mark.requirement("S7")
@pytest.mark.parametrize("id_", [None, ""])
async def test_index_always_0_and_no_ids(talk: Talk, id_: str | None) -> None:
    await talk.answer(tool(0, id_, "one", '{"n":1}'), tool(0, id_, "one", '{"n":1}'), STOP)
    assert talk.calls == [("one", None, {"n": 1})] * 2


async def test_whole_calls_without_index(talk: Talk) -> None:
    await talk.answer(tool(None, None, "one", {"n": 1}), tool(None, None, "two", {"n": 2}), STOP)
    assert talk.calls == [("one", None, {"n": 1}), ("two", None, {"n": 2})]


async def test_streamed_calls_without_index_are_told_apart_by_id(talk: Talk) -> None:
    await talk.answer(
        tool(None, "a", "one", '{"n"'),
        tool(None, None, None, ":1}"),
        tool(None, "b", "two", ""),
        tool(None, "b", None, '{"m":2}'),
        STOP,
    )
    assert talk.calls == [("one", "a", {"n": 1}), ("two", "b", {"m": 2})]


async def test_index_that_starts_at_1(talk: Talk) -> None:
    await talk.answer(tool(1, "a", "one", "{}"), tool(2, "b", "two", "{}"), STOP)
    assert [name for name, *_ in talk.calls] == ["one", "two"]


async def test_the_id_in_every_piece(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", '{"n"'), tool(0, "a", None, ":1}"), STOP)
    assert talk.calls == [("one", "a", {"n": 1})]


async def test_an_empty_id_after_the_first(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", '{"n"'), tool(0, "", "", ":1}"), STOP)
    assert talk.calls == [("one", "a", {"n": 1})]


async def test_another_random_id_in_every_piece_without_a_name(talk: Talk) -> None:
    await talk.answer(tool(0, "r1", "one", '{"n"'), tool(0, "r2", None, ":1}"), STOP)
    assert talk.calls == [("one", "r1", {"n": 1})]


async def test_the_id_comes_late(talk: Talk) -> None:
    await talk.answer(tool(0, None, "one", '{"n"'), tool(0, "late", None, ":1}"), STOP)
    assert [(name, value) for name, _, value in talk.calls] == [("one", {"n": 1})]


async def test_the_name_in_every_piece(talk: Talk) -> None:
    await talk.answer(
        tool(0, "a", "one", ""), tool(0, "a", "one", '{"n"'), tool(0, "a", "one", ":1}"), STOP
    )
    assert talk.calls == [("one", "a", {"n": 1})]


async def test_the_name_in_every_piece_without_ids(talk: Talk) -> None:
    await talk.answer(tool(0, None, "one", '{"n"'), tool(0, None, "one", ":1}"), STOP)
    assert talk.calls == [("one", None, {"n": 1})]


async def test_the_name_comes_late(talk: Talk) -> None:
    await talk.answer(tool(0, "a", None, '{"n"'), tool(0, None, "one", ":1}"), STOP)
    assert talk.calls == [("one", "a", {"n": 1})]
    assert talk.sink.calls["call-1"].fragments == ['{"n"', ":1}"]


async def test_arguments_as_an_object(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", {"n": [1, "é"]}), STOP)
    assert talk.calls == [("one", "a", {"n": [1, "é"]})]


async def test_no_arguments_at_all(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", None), STOP)
    assert talk.sink.calls["call-1"].input_text == ""


async def test_a_surrogate_pair_cut_between_two_argument_pieces(talk: Talk) -> None:
    await talk.answer(tool(0, "a", "one", '{"n":"\ud83d'), tool(0, None, None, '\ude00"}'), STOP)
    assert talk.calls == [("one", "a", {"n": "😀"})]


async def test_a_call_without_a_name_is_an_error(talk: Talk) -> None:
    error = await talk.failure(tool(0, "a", None, "{}"), STOP)
    assert (error.code, error.retryable) == ("MODEL_PROTOCOL", True)


# errors inside a 200


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("value", "code", "retryable", "text"),
    [
        # OpenRouter: numeric code, and a finish reason beside it
        (
            {"error": {"code": 502, "message": "Provider went away"}, **chunk(finish="error")},
            "MODEL_ERROR", True, "Provider went away",
        ),
        ({"error": {"code": 429, "message": "slow"}}, "MODEL_RATE_LIMITED", True, "slow"),
        # DeepSeek, OpenAI
        (
            {"error": {"message": "busy", "type": "server_error", "code": None}},
            "MODEL_ERROR", True, "busy",
        ),
        (
            {"error": {"message": "no more", "code": "insufficient_quota"}},
            "MODEL_RATE_LIMITED", False, "no quota",
        ),
        (
            {"error": {"message": "m", "type": "invalid_request_error"}},
            "MODEL_REQUEST_REFUSED", False, "refused",
        ),
        ({"error": {"message": "m", "type": "overloaded_error"}}, "MODEL_OVERLOADED", True, "m"),
        # llama.cpp since late 2025
        (
            {"error": {"code": 500, "message": "bug", "type": "server_error"}},
            "MODEL_ERROR", True, "bug",
        ),
        (
            {"error": {"code": 400, "message": "the request exceeds the available context size",
                       "type": "exceed_context_size_error"}},
            "CONTEXT_TOO_LONG", False, "Start a new thread",
        ),
        # Ollama
        ({"error": "unexpected EOF"}, "MODEL_ERROR", True, "unexpected EOF"),
        # vLLM
        (
            {"object": "error", "message": "engine died", "type": "InternalServerError",
             "code": 500},
            "MODEL_ERROR", True, "engine died",
        ),
        (
            {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400},
            "MODEL_REQUEST_REFUSED", False, "bad",
        ),
        # OpenRouter's variant inside the choice
        (
            {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error",
                          "error": {"code": 503, "message": "gone"}}]},
            "MODEL_OVERLOADED", True, "gone",
        ),
        (chunk(finish="error"), "MODEL_ERROR", True, "error"),
        (chunk(finish="insufficient_system_resource"), "MODEL_OVERLOADED", True, "resource"),
    ],
)  # fmt: skip
async def test_errors_inside_a_200(
    talk: Talk, value: dict[str, Any], code: str, retryable: bool, text: str
) -> None:
    error = await talk.failure(say("x"), value, DONE)
    assert (error.code, error.retryable) == (code, retryable)
    assert text in error.text


async def test_a_field_line_that_is_an_error(talk: Talk) -> None:
    line = b'error: {"code":500,"message":"old llama","type":"server_error"}\n\n'
    talk.provider.play(head(), frame(say("x")), part(line), END)
    with pytest.raises(ModelError, match="old llama"):
        await talk.model.respond(ask("x"), talk.sink)


async def test_an_event_named_error(talk: Talk) -> None:
    line = b'event: error\ndata: {"message":"LM says no","code":"model_not_found"}\n\n'
    talk.provider.play(head(), part(line), END)
    with pytest.raises(ModelError, match="LM says no") as caught:
        await talk.model.respond(ask("x"), talk.sink)
    assert caught.value.code == "MODEL_NOT_FOUND"


async def test_bare_json_with_an_error_in_an_event_stream(talk: Talk) -> None:
    talk.provider.play(head(), part(b'{"error": {"message": "bare", "code": 401}}\n'), END)
    with pytest.raises(ModelError, match="bare") as caught:
        await talk.model.respond(ask("x"), talk.sink)
    assert caught.value.code == "MODEL_UNAUTHORIZED"


async def test_an_error_as_plain_json_with_200(talk: Talk) -> None:
    talk.provider.play(*reply(200, {"error": {"message": "nope", "code": "invalid_api_key"}}))
    with pytest.raises(ModelError, match="nope") as caught:
        await talk.model.respond(ask("x"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNAUTHORIZED", False)


@pytest.mark.requirement("S3")
@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "text/event-stream", "text/plain"])
async def test_a_web_page_with_200_is_a_wrong_address(talk: Talk, kind: str) -> None:
    talk.provider.play(*reply(200, "<!DOCTYPE html>\n<html>Hello: world</html>\n", kind=kind))
    with pytest.raises(ModelError, match="base_url") as caught:
        await talk.model.respond(ask("x"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_PROTOCOL", False)


async def test_another_protocol_with_200_is_a_wrong_address(talk: Talk) -> None:
    lines = b'{"response":"native","done":false}\n{"done":true}\n'
    talk.provider.play(head(200, "application/x-ndjson"), part(lines), END)
    with pytest.raises(ModelError, match="base_url") as caught:
        await talk.model.respond(ask("x"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_PROTOCOL", False)


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    "data", [b"{broken", b"[1]", b'"text"', b'{"choices":[5]}', b'{"a":"\xff\xfe"}', b"[" * 5000]
)
async def test_a_frame_that_makes_no_sense_is_retryable(talk: Talk, data: bytes) -> None:
    talk.provider.play(head(), frame(say("x")), part(b"data: " + data + b"\n\n"), END)
    with pytest.raises(ModelError) as caught:
        await talk.model.respond(ask("x"), talk.sink)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_PROTOCOL", True)


async def test_a_ten_megabyte_event(talk: Talk) -> None:
    await talk.answer(say("x" * 10_000_000), STOP)
    assert [len(delta) for delta in talk.sink.text_deltas] == [10_000_000]


NAMES = st.sampled_from(
    ["choices", "delta", "content", "tool_calls", "index", "id", "function", "name", "arguments",
     "finish_reason", "usage", "error", "object", "type", "message", "reasoning_details", "text",
     "reasoning", "code", "metadata", "raw", "prompt_tokens_details", "x_groq"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 600) | st.text(max_size=4) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
CHUNKS = JSON | st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"delta": JSON, "finish_reason": JSON}))}
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CHUNKS, max_size=5))
def test_no_json_whatever_breaks_the_reader(values: list[Any]) -> None:
    """Each stream of JSON ends as an answer or as a ModelError, nothing else."""
    reader = ChatReader(Recorder(), who="fake")
    reader.opened({})
    failed = False
    try:
        for value in values:
            reader.feed(f"data: {json.dumps(value)}\n\n".encode())
        reader.end()
    except ModelError:
        failed = True
    assert failed or reader.complete
