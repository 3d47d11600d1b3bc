"""The fake provider speaks the real wire: the official client understands it."""

from collections.abc import AsyncIterator

import openai
import pytest
import trio

from tests.app.models.fake_provider import (
    DONE,
    FIN,
    HANG,
    STOP,
    FakeProvider,
    chunk,
    frame,
    head,
    reply,
    say,
    tool,
)

# The official client leaves its generators to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


@pytest.fixture
async def client(provider: FakeProvider) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        api_key="key-1234", base_url=provider.base_url, max_retries=0
    ) as client:
        yield client


async def test_a_stream_with_text_tools_and_usage(
    provider: FakeProvider, client: openai.AsyncOpenAI
) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    provider.stream(
        chunk({"role": "assistant", "content": ""}),
        say("Hel"),
        say("lo"),
        tool(0, "call_1", "look", ""),
        tool(0, None, None, '{"q":1}'),
        chunk(finish="tool_calls"),
        {**chunk(), "choices": [], "usage": usage},
        DONE,
    )
    stream = await client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    text, arguments, total = "", "", 0
    async with stream:
        async for part in stream:
            total = part.usage.total_tokens if part.usage else total
            for choice in part.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or []:
                    assert call.function is not None
                    arguments += call.function.arguments or ""
    assert (text, arguments, total) == ("Hello", '{"q":1}', 5)
    assert provider.requests[0].json["messages"] == [{"role": "user", "content": "Hi"}]


async def test_the_list_of_models(provider: FakeProvider, client: openai.AsyncOpenAI) -> None:
    model = {"id": "one", "object": "model", "created": 1, "owned_by": "us"}
    provider.play(*reply(200, {"object": "list", "data": [model]}))
    assert [model.id async for model in client.models.list()] == ["one"]


async def test_errors(provider: FakeProvider, client: openai.AsyncOpenAI) -> None:
    provider.play(*reply(429, {"error": {"message": "slow down"}}, retry_after="7"))
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        await client.models.list()
    assert caught.value.response.headers["retry-after"] == "7"


async def test_a_cut_stream(provider: FakeProvider, client: openai.AsyncOpenAI) -> None:
    provider.play(head(), frame(say("half")), FIN)
    stream = await client.chat.completions.create(model="fake", messages=[], stream=True)
    with pytest.raises(openai.APIConnectionError):
        async for _ in stream:
            pass


async def test_the_provider_sees_a_client_leave(
    provider: FakeProvider, client: openai.AsyncOpenAI
) -> None:
    provider.play(head(), frame(STOP), HANG)
    async with await client.chat.completions.create(model="fake", messages=[], stream=True) as s:
        assert await anext(aiter(s))
    with trio.fail_after(1):
        await provider.requests[0].closed.wait()
