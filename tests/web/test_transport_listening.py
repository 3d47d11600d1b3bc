"""Our listening sockets, the pinned internals, and what no module of ours may use."""

import ast
import errno
import socket
from pathlib import Path
from typing import NoReturn

import pytest
import trio
from hypercorn.protocol.h11 import H11Protocol

from tests.web.serving import PATIENCE_SECONDS, Serve
from web.transport import AddressInUseError, App, ListenError, Transport, listen, pinned
from web.transport.listening import (
    KEEPALIVE_IDLE_SECONDS,
    USER_TIMEOUT_SECONDS,
    Listener,
)

ROOT = Path(__file__).parents[2]


# Sockets


async def test_accepted_sockets_give_up_on_dead_peers() -> None:
    """Fault 3: the options of the listener are inherited by what it accepts."""
    [bound] = listen("127.0.0.1", 0)
    listener = Listener(bound)
    client = await trio.open_tcp_stream("127.0.0.1", bound.getsockname()[1])
    async with await listener.accept() as accepted, client, listener:
        raw = accepted.raw
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            timeout = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert timeout == USER_TIMEOUT_SECONDS * 1000
        if hasattr(socket, "TCP_KEEPIDLE"):
            idle = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            assert idle == KEEPALIVE_IDLE_SECONDS


def test_a_taken_port_is_said_so() -> None:
    [first] = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    with pytest.raises(AddressInUseError, match=f"Port {port} of 127.0.0.1 is already in use"):
        listen("127.0.0.1", port)
    first.close()


def test_a_port_can_be_taken_again_at_once() -> None:
    """A restart does not wait for the old connections' TIME_WAIT."""
    [first] = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    first.setblocking(True)
    accepted, _ = first.accept()
    accepted.close()  # the side that closes first is the one that waits
    client.close()
    first.close()
    [again] = listen("127.0.0.1", port)
    again.close()


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("no-such-host.invalid", "The host name no-such-host.invalid is not known here"),
        ("192.0.2.1", "192.0.2.1 is not an address of this machine"),  # RFC 5737: nobody's
    ],
)
def test_an_address_that_cannot_be_had_is_explained(host: str, sentence: str) -> None:
    with pytest.raises(ListenError, match=sentence):
        listen(host, 0)


def test_all_addresses_of_a_name_get_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
            for address in ("127.0.0.1", "192.0.2.1", "127.0.0.2")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    sockets = listen("some-name", 0)
    names = [bound.getsockname() for bound in sockets]
    assert [host for host, _ in names] == ["127.0.0.1", "127.0.0.2"]
    assert len({port for _, port in names}) == 1
    for bound in sockets:
        bound.close()


async def test_serve_takes_the_sockets_over(nursery: trio.Nursery) -> None:
    sockets = listen("127.0.0.1", 0)
    transport = Transport(App("empty"), sockets)
    draining = trio.Event()
    urls = await nursery.start(transport.serve, draining)
    assert urls == [f"http://127.0.0.1:{sockets[0].getsockname()[1]}"]
    draining.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sockets[0].fileno() == -1


# The pin


def test_another_hypercorn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.19.0")
    with pytest.raises(ImportError, match=r"Hypercorn 0\.19\.0 is installed, not 0\.18\.\*"):
        pinned.check()


def test_moved_internals_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(self: object, event: object, more: object) -> None: ...

    monkeypatch.setattr(H11Protocol, "handle", handle)
    monkeypatch.delattr(H11Protocol, "_maybe_recycle")
    with pytest.raises(ImportError, match=r"H11Protocol\.handle takes \(self event more\)"):
        pinned.check()
    monkeypatch.setattr(H11Protocol, "handle", lambda self, event: None)
    with pytest.raises(ImportError, match=r"_maybe_recycle takes \(nothing\)"):
        pinned.check()


# Quart's own life (fault 7)

UNUSED_OF_QUART = {
    "add_background_task",
    "before_serving",
    "after_serving",
    "while_serving",
    "test_client",
}


def uses_of_quarts_life(source: str) -> set[str]:
    """Names of Quart's lifespan in it: none of them runs here, or survives a crash."""
    attributes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    nurseries = {
        f"{ast.unparse(node.value)}.nursery"
        for node in attributes
        if node.attr == "nursery" and ast.unparse(node.value).split(".")[-1] in APPLICATIONS
    }
    return nurseries | {node.attr for node in attributes if node.attr in UNUSED_OF_QUART}


APPLICATIONS = {"app", "_app", "current_app"}


def test_quarts_nursery_is_not_used() -> None:
    for room in ("app", "web"):
        for path in (ROOT / room).rglob("*.py"):
            assert uses_of_quarts_life(path.read_text()) == set(), path


def test_the_search_for_quarts_nursery_finds_it() -> None:
    source = "current_app.nursery.start_soon(f)\nself.app.nursery\napp.add_background_task(f)\n"
    found = {"current_app.nursery", "self.app.nursery", "add_background_task"}
    assert uses_of_quarts_life(source) == found
    assert uses_of_quarts_life("self.nursery.start_soon(f)") == set()


async def test_exhausted_descriptors_are_told_once_and_waited_for(
    serve: Serve, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `ulimit -n`: those who are connected are served, others are accepted later."""
    app = App("exhausted")

    @app.get("/")
    async def hello() -> str:
        return "hello"

    server = await serve(app)
    first = await server.connect()
    await first.get("/")
    await first.read_until(b"hello")
    refusals = 0

    def refused(_self: socket.socket) -> NoReturn:
        nonlocal refusals
        refusals += 1
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch, trio.fail_after(PATIENCE_SECONDS):
        patch.setattr(socket.socket, "accept", refused)
        late = await server.connect()
        await late.get("/")
        while refusals < 3:
            await trio.lowlevel.checkpoint()
        await first.get("/")
        await first.read_until(b"hello")
    await late.read_until(b"hello")
    told = [record for record in caplog.records if "have to wait" in record.message]
    assert len(told) == 1
    assert told[0].exc_info is None
