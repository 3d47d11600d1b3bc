"""What the tests send as Anthropic is Anthropic's wire: the official client understands it."""

from collections.abc import AsyncIterator

import anthropic
import pytest

from app.models import Http, ModelRequest, ToolSpec, UserEntry
from tests.app.models.conftest import ask
from tests.app.models.fake_provider import END, FakeProvider, head, part, reply
from tests.app.models.recorder import Recorder
from tests.app.models.wire import Call
from tests.app.models.wire_anthropic import AnthropicWire, block, call, start, stop, text

# The official client leaves its generators to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

WIRE = AnthropicWire()


@pytest.fixture
async def client(provider: FakeProvider) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        api_key="key-1234", base_url=provider.url, max_retries=0
    ) as client:
        yield client


async def received(client: anthropic.AsyncAnthropic) -> anthropic.types.Message:
    async with client.messages.stream(
        model="fake", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        return await stream.get_final_message()


async def test_an_answer_of_the_tests_of_all_wires(
    provider: FakeProvider, client: anthropic.AsyncAnthropic
) -> None:
    provider.play(*WIRE.answer("Let me ", "see. ", Call("look", ('{"q":', " 1}"))))
    message = await received(client)
    assert [block.type for block in message.content] == ["text", "tool_use"]
    said, made = message.content
    assert said.type == "text"
    assert said.text == "Let me see. "
    assert made.type == "tool_use"
    assert (made.name, made.input) == ("look", {"q": 1})
    assert message.stop_reason == "tool_use"
    assert message.usage.output_tokens == 3


async def test_the_official_client_and_ours_put_together_the_same_blocks(
    provider: FakeProvider, client: anthropic.AsyncAnthropic, http: Http
) -> None:
    frames = [
        start(),
        block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Let me "},
            {"type": "thinking_delta", "thinking": "see."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        block(1, {"type": "redacted_thinking", "data": "b3BhcXVl"}),
        text(2, "It ", "is."),
        call(3, "toolu_1", "look", '{"q": [1, ', '{"é": null}]}'),
        call(4, "toolu_2", "stop"),
        stop("tool_use"),
    ]
    for _ in range(2):
        provider.play(head(), *map(part, frames), END)
    theirs = [
        block.model_dump(mode="json", exclude_unset=True)
        for block in (await received(client)).content
    ]
    ours = await WIRE.model(http, provider.url).respond(ask("Hi"), Recorder())
    assert ours.state is not None
    for known in theirs:
        known.pop("parsed_output", None)
    assert ours.state.data == theirs


async def test_the_official_client_and_ours_ask_alike(
    provider: FakeProvider, client: anthropic.AsyncAnthropic, http: Http
) -> None:
    """Path and body; the client's newer version of the wire changes neither."""
    for _ in range(2):
        provider.play(*WIRE.answer("Hi"))
    schema = {"type": "object"}
    async with client.messages.stream(
        model="fake",
        max_tokens=16_384,
        system="Be kind.",
        messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        tools=[{"name": "look", "description": "Looks.", "input_schema": schema}],
    ) as stream:
        await stream.get_final_message()
    entries = [UserEntry([{"type": "text", "text": "Hi"}])]
    request = ModelRequest(entries, "Be kind.", [ToolSpec("look", "Looks.", schema)])
    await WIRE.model(http, provider.url).respond(request, Recorder())
    theirs, ours = provider.requests
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert ours.json == theirs.json
    assert ours.headers["content-type"] == theirs.headers["content-type"]


async def test_an_error_inside_a_200(
    provider: FakeProvider, client: anthropic.AsyncAnthropic
) -> None:
    provider.play(*WIRE.begun("half"), part(WIRE.overloaded()), END)
    with pytest.raises(anthropic.APIStatusError, match="Overloaded, sorry"):
        await received(client)


async def test_a_status(provider: FakeProvider, client: anthropic.AsyncAnthropic) -> None:
    provider.play(*reply(529, WIRE.refusal("too much"), retry_after="7"))
    with pytest.raises(anthropic.APIStatusError, match="too much") as caught:
        await received(client)
    assert caught.value.status_code == 529
