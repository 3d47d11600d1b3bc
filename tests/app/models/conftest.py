"""What the tests of models share."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from app.models import Http, ModelRequest, UserEntry, open_http
from tests.app.models.fake_provider import FakeProvider
from tests.app.models.recorder import Recorder


@pytest.fixture
async def provider(nursery: trio.Nursery) -> FakeProvider:
    fake = FakeProvider()
    await nursery.start(fake.serve)
    return fake


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with open_http() as http:
        yield http


@pytest.fixture
def sink() -> Recorder:
    return Recorder()


def ask(text: str, **members: Any) -> ModelRequest:
    return ModelRequest([UserEntry([{"type": "text", "text": text}])], **members)


async def closed_port() -> int:
    """A port of this machine that nobody listens on."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    return port
