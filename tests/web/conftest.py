"""Fixtures of the web tests."""

import ssl
from collections.abc import AsyncIterator

import pytest
import trio
import trustme
from hypercorn.typing import ASGIFramework

from tests.web.serving import Serve, Server, Streams
from web.transport import Transport, listen


@pytest.fixture
async def serve(nursery: trio.Nursery) -> AsyncIterator[Serve]:
    """`server = await serve(app)` starts it on a free port; it is stopped with the test."""
    servers: list[Server] = []

    async def start(app: ASGIFramework, *, tls: ssl.SSLContext | None = None) -> Server:
        sockets = listen("127.0.0.1", 0)
        server = Server(Transport(app, sockets, tls=tls), sockets[0].getsockname()[1])
        await nursery.start(server.run)
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.close_clients()
        await server.stop()


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
