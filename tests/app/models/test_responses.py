"""What a stream of the Responses API becomes (PROTOCOLS.md, B1)."""

from dataclasses import dataclass
from typing import Any

import pytest

from app.events import Usage
from app.models import Completion, Http, ModelError
from app.models.responses import Responses
from app.models.responses_request import ENCRYPTED
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import END, FakeProvider, head, part, reply
from tests.app.models.recorder import Recorder
from tests.app.models.wire_responses import Script, frames, response

pytestmark = pytest.mark.requirement("E3")


@dataclass
class Talk:
    """A model, the server it talks to, and what came of it."""

    provider: FakeProvider
    model: Responses
    sink: Recorder

    async def hear(self, script: Script) -> Completion:
        return await self.hear_events(script.events)

    async def hear_events(self, events: list[dict[str, Any]]) -> Completion:
        self.provider.play(head(), *map(part, frames(events)), END)
        return await self.model.respond(ask("Hi"), self.sink)

    async def fail(self, script: Script) -> ModelError:
        with pytest.raises(ModelError) as caught:
            await self.hear(script)
        return caught.value


@pytest.fixture
def talk(provider: FakeProvider, http: Http, sink: Recorder) -> Talk:
    model = Responses(
        name="fake", http=http, base_url=provider.base_url, model="fake", api_key="key-12345678"
    )
    return Talk(provider, model, sink)


def without(events: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """The events of a server that leaves out some."""
    return [event for event in events if not event["type"].endswith(kinds)]


# what is shown


async def test_a_whole_response(talk: Talk) -> None:
    script = Script().thought(("I wo", "nder"), ("Ah",)).text("Hel", "lo ")
    done = await talk.hear(script.call("look", '{"q":', "1}", call_id="call_a").end())
    assert [(one.kind, one.text) for one in talk.sink.parts] == [
        ("reasoning", "I wonder"),
        ("reasoning", "Ah"),
        ("text", "Hello "),
        ("tool", "call-1"),
    ]
    look = talk.sink.calls["call-1"]
    assert (look.name, look.provider_id) == ("look", "call_a")
    assert (look.fragments, look.input_text) == (['{"q":', "1}"], '{"q":1}')
    assert (done.finish_reason, done.usage) == ("tool-calls", Usage(7, 3, 2))
    assert done.state is not None
    assert (done.state.provider, done.state.model) == ("responses", "fake")
    assert done.state.data == {"output": script.output}
    assert not any(one.open for one in talk.sink.parts)
    [request] = talk.provider.requests
    assert (request.method, request.path) == ("POST", "/v1/responses")
    assert request.headers["authorization"] == "Bearer key-12345678"
    assert request.json["include"] == [ENCRYPTED]


async def test_a_refusal_is_what_the_model_says(talk: Talk) -> None:
    done = await talk.hear(Script().text("I ", "won't", refusal=True).end())
    assert (talk.sink.texts, done.finish_reason) == (["I won't"], "stop")


async def test_the_thoughts_of_open_models(talk: Talk) -> None:
    script = Script()
    at = {"item_id": "rs_0", "output_index": 0, "content_index": 0}
    script.add("response.reasoning_text.delta", **at, delta="Hm")
    script.add("response.reasoning_text.delta", **at, delta="m")
    script.add("response.reasoning_text.done", **at, text="Hmm")
    await talk.hear(script.end())
    assert [(one.kind, one.text) for one in talk.sink.parts] == [("reasoning", "Hmm")]


@pytest.mark.requirement("M1")
async def test_the_done_event_has_the_canonical_text(talk: Talk) -> None:
    script = Script().text("Hel", "lo")
    for event in script.events:
        if event["type"] == "response.output_text.done":
            event["text"] = "Hello!"
    await talk.hear(script.end())
    assert talk.sink.texts == ["Hello!"]


@pytest.mark.requirement("M1")
async def test_deltas_that_come_after_it_are_dropped(talk: Talk) -> None:
    script = Script().text("Hel", "lo")
    late = {"item_id": "msg_0", "output_index": 0, "content_index": 0, "delta": "lo"}
    script.add("response.output_text.delta", **late)
    await talk.hear(script.end())
    assert talk.sink.texts == ["Hello"]


@pytest.mark.requirement("M1")
async def test_texts_are_told_apart_by_their_place(talk: Talk) -> None:
    """Not by when they come: two messages at once keep their own words, and lose none."""
    script = Script()
    for index, delta in ((0, "a"), (1, "x"), (0, "b"), (1, "y")):
        at = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
        script.add("response.output_text.delta", **at, delta=delta)
    for index, text in ((0, "abc"), (1, "xy")):
        at = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
        script.add("response.output_text.done", **at, text=text)
    await talk.hear(script.end())
    assert talk.sink.texts == ["a", "x", "b", "y", "c"]


async def test_what_comes_by_no_event_of_its_own_is_shown_with_its_item(talk: Talk) -> None:
    script = Script().thought(("Hm",)).text("Hel", "lo").call("look", "{", "}").end()
    done = await talk.hear_events(without(script.events, ".delta", "text.done"))
    assert [one.kind for one in talk.sink.parts] == ["reasoning", "text", "tool"]
    assert (talk.sink.all_reasoning, talk.sink.texts) == ("Hm", ["Hello"])
    assert talk.sink.calls["call-1"].input_text == "{}"
    assert done.finish_reason == "tool-calls"


async def test_or_with_the_whole_response(talk: Talk) -> None:
    script = Script().text("Hello").call("look", "{}").end()
    await talk.hear_events([script.events[0], script.events[-1]])
    assert talk.sink.texts == ["Hello"]
    assert talk.sink.calls["call-1"].input_text == "{}"


async def test_a_server_that_does_not_stream(talk: Talk) -> None:
    script = Script().text("Hello").end()
    talk.provider.play(*reply(200, script.events[-1]["response"]))
    done = await talk.model.respond(ask("Hi"), talk.sink)
    assert (talk.sink.texts, done.finish_reason) == (["Hello"], "stop")


async def test_items_that_the_response_counts_in_another_way_are_shown_once(talk: Talk) -> None:
    script = Script().text("Hello").call("look", "{}")
    script.end(output=[{"type": "reasoning", "id": "rs_9", "summary": []}, *script.output])
    await talk.hear(script)
    assert (talk.sink.texts, len(talk.sink.calls)) == (["Hello"], 1)


async def test_unknown_events_and_items_are_passed_over(talk: Talk) -> None:
    script = Script()
    script.add("response.hologram.delta", output_index=0, delta="?")
    script.add("response.output_item.done", output_index=0, item={"type": "hologram", "id": "h_0"})
    script.output.append({"type": "hologram", "id": "h_0"})
    done = await talk.hear(script.text("Hello").end())
    assert talk.sink.texts == ["Hello"]
    assert done.state is not None
    assert [item["type"] for item in done.state.data["output"]] == ["hologram", "message"]
    assert talk.sink.count("progress") > 0


# tools that run at the provider


async def test_a_search_of_the_provider_is_shown_and_settled(talk: Talk) -> None:
    script = Script()
    item = {"type": "web_search_call", "id": "ws_0", "status": "in_progress"}
    script.add("response.output_item.added", output_index=0, item=item)
    script.add("response.web_search_call.searching", output_index=0, item_id="ws_0")
    done = {**item, "status": "completed", "action": {"type": "search", "query": "cats"}}
    script.add("response.output_item.done", output_index=0, item=done)
    script.output.append(done)
    completion = await talk.hear(script.text("Cats.").end())
    search = talk.sink.calls["call-1"]
    assert (search.name, search.input_text) == ("web_search", '{"type":"search","query":"cats"}')
    assert search.settled == ("completed", False)
    assert completion.finish_reason == "stop"
    assert completion.state is not None
    assert completion.state.data["output"][0] == done


@pytest.mark.parametrize(
    ("item", "name", "input_text", "settled"),
    [
        (
            {"type": "mcp_call", "name": "roll", "arguments": '{"n":6}', "output": "4"},
            "roll",
            '{"n":6}',
            ("4", False),
        ),
        (
            {"type": "mcp_call", "name": "roll", "arguments": "{}", "error": "no dice"},
            "roll",
            "{}",
            ("no dice", True),
        ),
        (
            {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"logs": "2"}]},
            "code_interpreter",
            '{"code":"1+1"}',
            ([{"logs": "2"}], False),
        ),
        (
            {"type": "file_search_call", "queries": ["q"], "status": "failed"},
            "file_search",
            '{"queries":["q"]}',
            ("failed", True),
        ),
        (
            {"type": "image_generation_call", "result": "iVBORw==", "status": "completed"},
            "image_generation",
            "{}",
            ("completed", False),
        ),
    ],
)
async def test_all_kinds_of_them(
    talk: Talk, item: dict[str, Any], name: str, input_text: str, settled: object
) -> None:
    script = Script()
    script.add("response.output_item.done", output_index=0, item={"id": "x_0", **item})
    await talk.hear(script.end())
    call = talk.sink.calls["call-1"]
    assert (call.name, call.input_text, call.settled) == (name, input_text, settled)


# ends


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content-filter"),
        ("steered", "other"),
    ],
)
async def test_an_answer_that_was_cut_by_the_provider(talk: Talk, reason: str, finish: str) -> None:
    script = Script().text("Hel", done=False)
    done = await talk.hear(script.end("incomplete", incomplete_details={"reason": reason}))
    assert (talk.sink.texts, done.finish_reason) == (["Hel"], finish)


@pytest.mark.requirement("S5")
async def test_a_call_that_was_cut_is_no_call(talk: Talk) -> None:
    script = Script().call("look", '{"q":', done=False)
    cut = {"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "look"}
    cut = {**cut, "arguments": '{"q":', "status": "incomplete"}
    script.add("response.output_item.done", output_index=0, item=cut)
    reason = {"reason": "max_output_tokens"}
    done = await talk.hear(script.end("incomplete", incomplete_details=reason, output=[cut]))
    assert talk.sink.calls["call-1"].input_text is None
    assert (done.finish_reason, done.state) == ("length", None)


async def test_a_call_without_a_name_or_input(talk: Talk) -> None:
    script = Script()
    script.add("response.output_item.added", output_index=0, item={"type": "function_call"})
    assert (await talk.fail(script)).code == "MODEL_PROTOCOL"
    script = Script()
    item = {"type": "function_call", "name": "look"}
    script.add("response.output_item.done", output_index=0, item=item)
    error = await talk.fail(script)
    assert (error.code, error.retryable) == ("MODEL_PROTOCOL", True)


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("code", "verdict", "retryable"),
    [
        ("server_error", "MODEL_ERROR", True),
        ("rate_limit_exceeded", "MODEL_RATE_LIMITED", True),
        ("server_is_overloaded", "MODEL_OVERLOADED", True),
        ("vector_store_timeout", "MODEL_ERROR", True),
        ("context_length_exceeded", "CONTEXT_TOO_LONG", False),
        ("image_content_policy_violation", "CONTENT_FILTERED", False),
        ("bio_policy", "CONTENT_FILTERED", False),
        ("invalid_image_url", "MODEL_REQUEST_REFUSED", False),
        ("invalid_prompt", "MODEL_REQUEST_REFUSED", False),
    ],
)
async def test_a_response_that_failed(talk: Talk, code: str, verdict: str, retryable: bool) -> None:
    script = Script().text("half ", done=False)
    error = await talk.fail(script.end("failed", error={"code": code, "message": "It broke"}))
    assert (error.code, error.retryable) == (verdict, retryable)
    assert error.text.endswith(": It broke.")


async def test_a_response_that_was_cancelled_elsewhere(talk: Talk) -> None:
    talk.provider.play(*reply(200, response("cancelled")))
    with pytest.raises(ModelError, match="cancelled there") as caught:
        await talk.model.respond(ask("Hi"), talk.sink)
    assert not caught.value.retryable


async def test_an_error_in_place_of_a_response(talk: Talk) -> None:
    talk.provider.play(*reply(200, {"error": {"message": "No", "type": "rate_limit_error"}}))
    with pytest.raises(ModelError, match="No") as caught:
        await talk.model.respond(ask("Hi"), talk.sink)
    assert caught.value.code == "MODEL_RATE_LIMITED"


# models and keys


async def test_models_without_reasoning_are_asked_once_more(talk: Talk) -> None:
    """And from then on in the way they understand."""
    said = {"message": "Encrypted content is not supported with this model.", "param": "include"}
    talk.provider.play(*reply(400, {"error": said}))
    await talk.hear(Script().text("Hello").end())
    await talk.hear(Script().text("Again").end())
    assert talk.sink.texts == ["Hello", "Again"]
    asked = [request.json.get("include") for request in talk.provider.requests]
    assert asked == [[ENCRYPTED], None, None]


async def test_the_first_model_that_is_listed(
    provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    model = Responses(name="fake", http=http, base_url=provider.base_url, model="")
    provider.play(*reply(200, {"data": [{"id": "one"}, {"id": "two"}]}))
    provider.play(head(), *map(part, frames(Script().text("Hello").end().events)), END)
    await model.respond(ask("Hi"), sink)
    assert provider.requests[1].json["model"] == "one"
    assert "authorization" not in provider.requests[1].headers


async def test_no_model_is_listed(provider: FakeProvider, http: Http, sink: Recorder) -> None:
    model = Responses(name="fake", http=http, base_url=provider.base_url, model="")
    provider.play(*reply(200, {"data": []}))
    with pytest.raises(ModelError, match="lists no models"):
        await model.respond(ask("Hi"), sink)


async def test_a_key_that_is_not_there(provider: FakeProvider, http: Http, sink: Recorder) -> None:
    model = Responses(
        name="fake", http=http, base_url=provider.base_url, model="fake", missing="No key."
    )
    with pytest.raises(ModelError, match=r"No key\.") as caught:
        await model.respond(ask("Hi"), sink)
    assert (caught.value.code, provider.requests) == ("MODEL_UNAUTHORIZED", [])


async def test_a_probe(talk: Talk, provider: FakeProvider, http: Http) -> None:
    provider.play(*reply(200, {"data": [{"id": "one"}]}))
    await talk.model.probe()
    [asked] = provider.requests
    assert (asked.method, asked.path) == ("GET", "/v1/models")
    other = Responses(
        name="b", http=http, base_url=provider.base_url, model="b", api_key="key-12345678"
    )
    assert talk.model.place == other.place
