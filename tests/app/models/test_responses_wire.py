"""The fake server of background responses speaks the real wire: the official client agrees."""

from collections.abc import AsyncIterator

import openai
import pytest

from tests.app.models.fake_provider import FakeProvider
from tests.app.models.wire_responses import KeepingServer, Script

pytestmark = [
    pytest.mark.requirement("E3"),
    # The official client leaves its generators to the garbage collector.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]


@pytest.fixture
async def client(provider: FakeProvider) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        api_key="key-1234", base_url=provider.base_url, max_retries=0
    ) as client:
        yield client


@pytest.fixture
def server(provider: FakeProvider) -> KeepingServer:
    return KeepingServer(provider)


def everything() -> Script:
    script = Script().thought(("I wo", "nder"), ("Ah",)).text("Hel", "lo")
    return script.call("look", '{"q":', "1}").text("No", refusal=True).end()


async def test_a_stream(server: KeepingServer, client: openai.AsyncOpenAI) -> None:
    script = everything()
    server.keep(script)
    stream = await client.responses.create(model="fake", input="Hi", background=True, stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events] == [event["type"] for event in script.events]
    assert [event.sequence_number for event in events] == list(range(len(script.events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "Hello"
    kinds = [item.type for item in last.response.output]
    assert kinds == ["reasoning", "message", "function_call", "message"]
    assert last.response.usage is not None
    assert last.response.usage.input_tokens_details.cached_tokens == 2


async def test_every_event_is_what_the_specification_says(
    server: KeepingServer, client: openai.AsyncOpenAI
) -> None:
    """The client lets through what it does not know: so each event is checked against its class."""
    server.keep(everything())
    stream = await client.responses.create(model="fake", input="Hi", background=True, stream=True)
    async for event in stream:
        type(event).model_validate(event.model_dump(by_alias=True), strict=False)
        assert not event.model_extra, event.type


async def test_a_drop_and_the_rest(server: KeepingServer, client: openai.AsyncOpenAI) -> None:
    server.keep(everything(), 6)
    stream = await client.responses.create(model="fake", input="Hi", background=True, stream=True)
    seen = [await anext(stream) for _ in range(6)]
    with pytest.raises(openai.APIConnectionError):
        await anext(stream)
    rest = await client.responses.retrieve(
        "resp_1", stream=True, starting_after=5, include=["reasoning.encrypted_content"]
    )
    seen += [event async for event in rest]
    assert [event.sequence_number for event in seen] == list(range(len(everything().events)))


async def test_a_poll(server: KeepingServer, client: openai.AsyncOpenAI) -> None:
    server.keep(everything(), 3)
    server.statuses = ["queued", "in_progress"]
    await client.responses.create(model="fake", input="Hi", background=True, stream=True)
    states = [(await client.responses.retrieve("resp_1")).status for _ in range(3)]
    assert states == ["queued", "in_progress", "completed"]


async def test_what_is_too_old_or_gone(server: KeepingServer, client: openai.AsyncOpenAI) -> None:
    server.keep(everything(), 3)
    await client.responses.create(model="fake", input="Hi", background=True, stream=True)
    server.refuses = True
    with pytest.raises(openai.BadRequestError, match="more than 5 minutes old"):
        await client.responses.retrieve("resp_1", stream=True, starting_after=2)
    server.forgets = True
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve("resp_1")


async def test_a_cancel(server: KeepingServer, client: openai.AsyncOpenAI) -> None:
    kept = server.keep(everything(), 3)
    await client.responses.create(model="fake", input="Hi", background=True, stream=True)
    assert (await client.responses.cancel("resp_1")).status == "cancelled"
    assert kept.cancelled.is_set()
    assert (await client.responses.cancel("resp_1")).status == "cancelled"
