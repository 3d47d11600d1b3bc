"""The one way an adapter talks to a provider: httpx2 on Trio, no deadlines of its own.

`exchange` pushes what arrives into a reader, instead of handing out an iterator, so that no cancel
scope ever spans a `yield`. The deadlines are those of the caller (interface.py); here are only
bounds on what comes after the answer is complete, and on connecting.
"""

import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2
import msgspec
import structlog
import trio

from app.models.addresses import host_of, is_loopback
from app.models.body import pieces_of
from app.models.errors import ModelError
from app.models.faults import from_status
from app.models.interface import Sink
from app.models.transport import CONNECT_SECONDS, fault

log = structlog.get_logger()

CLOSE_SECONDS = 1.0
# After the answer is complete: how long usage and the end of the body may still take.
TRAILER_SECONDS = 2.0
# After the reader wants no more: time for the end of the body, so that the connection is reused.
END_SECONDS = 0.1
ERROR_BODY_SECONDS = 5.0
# What telling a provider that nobody listens any more may take. Nobody waits for it but the end of
# the program.
FAREWELL_SECONDS = 5.0
ERROR_BODY_BYTES = 64 * 1024
JSON_BODY_BYTES = 4 * 1024 * 1024
# Idle connections are worth a TLS handshake; proxies commonly drop them after 60 s.
KEEPALIVE_SECONDS = 50.0


@dataclass(frozen=True)
class Call:
    """One request. `secrets` are kept out of every error text."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = b""
    method: str = "POST"
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def who(self) -> str:
        """The host, as the person configured it."""
        return host_of(self.url)


class Reader(Protocol):
    """Takes one response's bytes and pushes what they mean into the sink."""

    @property
    def complete(self) -> bool:
        """Nothing that follows, and no way the connection may end, can spoil the answer."""

    @property
    def done(self) -> bool:
        """Nothing more is wanted."""

    def opened(self, headers: Mapping[str, str]) -> None:
        """A 2xx response begins. Raises ModelError if it cannot be what was asked for."""

    def feed(self, data: bytes) -> bool:
        """Returns whether a model event was in it. Raises ModelError."""


class Http:
    """The connection pools, shared by all models for the life of the program.

    Made and closed by `open_http`. Loopback addresses are never asked through a proxy.
    """

    def __init__(self, farewells: trio.Nursery) -> None:
        self._farewells = farewells
        # Set when the program ends: no farewell begins any more.
        self._leaving = False
        # Made when first needed: loading the certificates takes 50 ms, a local model needs none.
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._making = trio.Lock()

    async def exchange(self, call: Call, sink: Sink, reader: Reader) -> None:
        """Make the request and feed the reader until it is done or the body ends.

        Whether the answer was complete is for the caller to judge when this returns. Cancelling
        closes the connection at once.

        Raises ModelError: for what the transport, the status or the reader say, unless the answer
        was complete by then.
        """
        with _translated(call, "MODEL_UNREACHABLE", "could not be reached"):
            response = await self._send(call)
        try:
            if not response.is_success:
                raise await self._refusal(call, response)
            reader.opened(response.headers)
            with _translated(call, "MODEL_EOF", "broke off the answer", lambda: reader.complete):
                await _pump(response, sink, reader)
        finally:
            # Unread responses are closed, not drained: their connection is not used again.
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await response.aclose()

    async def get_json(self, url: str, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON document at `url`. The caller has a deadline. Raises ModelError."""
        call = Call(url, {"accept": "application/json", **(headers or {})}, method="GET")
        return await self.ask(call)

    async def ask(self, call: Call, *, limit: int = JSON_BODY_BYTES) -> Any:
        """The JSON that answers a request; None where the answer is empty.

        The caller has a deadline. Raises ModelError, with its `status` where it was one; also for
        an answer of more than `limit` bytes.
        """
        with _translated(call, "MODEL_UNREACHABLE", "could not be reached"):
            response = await self._send(call)
            try:
                if not response.is_success:
                    raise await self._refusal(call, response)
                body = await _read(response, limit)
            finally:
                with trio.move_on_after(CLOSE_SECONDS, shield=True):
                    await response.aclose()
        try:
            return msgspec.json.decode(body) if body else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            text = f"{call.who} did not answer with JSON."
            raise ModelError(text, code="MODEL_PROTOCOL", retryable=False) from None

    def farewell(self, call: Call) -> None:
        """Make a request whose answer nobody waits for: that a response is not wanted any more.

        It returns at once, so it can be called where a cancellation passes (C2). The request goes
        on beside, for FAREWELL_SECONDS at most, also while the program ends; whether it succeeds is
        not told.
        """
        if not self._leaving:
            self._farewells.start_soon(self._say_farewell, call, name=f"farewell to {call.who}")

    def stop_farewells(self) -> None:
        """The program ends: no other begins."""
        self._leaving = True

    async def _say_farewell(self, call: Call) -> None:
        with trio.move_on_after(FAREWELL_SECONDS, shield=True):
            try:
                await self.ask(call)
            except ModelError:
                pass  # the provider goes on by itself then; the turn has its outcome already
            except Exception as error:  # noqa: BLE001 - would end the program: recorded instead
                log.warning("a provider was not told", host=call.who, error=type(error).__name__)

    async def _send(self, call: Call) -> httpx2.Response:
        client = await self._client(httpx2.URL(call.url))
        request = client.build_request(
            call.method, call.url, headers=dict(call.headers), content=call.body or None
        )
        return await client.send(request, stream=True)

    async def _client(self, url: httpx2.URL) -> httpx2.AsyncClient:
        local = is_loopback(url.host)
        kind = "plain" if local and url.scheme == "http" else "direct" if local else "proxied"
        async with self._making:
            if kind not in self._clients:
                # No certificates for "plain": it never speaks TLS, redirects are not followed.
                self._clients[kind] = await _make_client(kind)
        return self._clients[kind]

    async def aclose(self) -> None:
        """Close all connections, also those in use. Idempotent."""
        while self._clients:
            await self._clients.popitem()[1].aclose()

    async def _refusal(self, call: Call, response: httpx2.Response) -> ModelError:
        body = b""
        with trio.move_on_after(ERROR_BODY_SECONDS):
            try:
                body = await _read(response, ERROR_BODY_BYTES)
            except httpx2.HTTPError:
                pass  # the status alone has to do
        return from_status(
            response.status_code,
            response.headers,
            body,
            who=call.who,
            now=time.time(),
            secrets=call.secrets,
        )


@asynccontextmanager
async def open_http() -> AsyncIterator[Http]:
    """The pools for the life of the program.

    Leaving waits for the farewells, FAREWELL_SECONDS at most, and closes what is still connected.
    """
    stack = AsyncExitStack()
    http = Http(await stack.enter_async_context(trio.open_nursery()))
    try:
        yield http
    finally:
        http.stop_farewells()
        # Not by `async with`: the nursery would wrap what is raised in a group of exceptions,
        # though no farewell ever raises.
        await stack.aclose()
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await http.aclose()


async def _make_client(kind: str) -> httpx2.AsyncClient:
    """Raises ModelError where proxies or certificates of the environment are unusable."""
    try:
        # No certificates for "plain": it never speaks TLS, and redirects are not followed.
        verify: ssl.SSLContext | bool = False
        if kind != "plain":
            verify = await trio.to_thread.run_sync(
                lambda: httpx2.create_ssl_context(), abandon_on_cancel=True
            )
        return httpx2.AsyncClient(
            verify=verify,
            trust_env=kind == "proxied",
            follow_redirects=False,  # would carry the key elsewhere
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            # As many connections as there are turns: the service limits those, not this pool.
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=20,
                keepalive_expiry=KEEPALIVE_SECONDS,
            ),
            # Compressed streams arrive late and in lumps.
            headers={"user-agent": "unbroken", "accept-encoding": "identity"},
        )
    except (ImportError, ValueError, OSError):
        # An unknown scheme in HTTPS_PROXY, a SOCKS proxy, a missing SSL_CERT_FILE. Not quoted:
        # proxy addresses hold passwords.
        text = "The proxy or certificate settings of the environment cannot be used."
        raise ModelError(text, code="MODEL_UNREACHABLE", retryable=False) from None


async def _pump(response: httpx2.Response, sink: Sink, reader: Reader) -> None:
    async with pieces_of(response) as pieces:
        with trio.CancelScope() as trailer:
            async for piece in pieces:
                event = reader.feed(piece)
                if not event:
                    sink.alive()
                await sink.room()
                if reader.done:
                    break
                if reader.complete and (event or trailer.deadline == float("inf")):
                    trailer.deadline = trio.current_time() + TRAILER_SECONDS
        if reader.done:
            with trio.move_on_after(END_SECONDS):
                await anext(pieces, b"")


async def _read(response: httpx2.Response, limit: int) -> bytes:
    body = bytearray()
    async with pieces_of(response) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) >= limit:
                break
    return bytes(body[:limit])


@contextmanager
def _translated(
    call: Call, code: str, what: str, complete: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """httpx2's errors as ModelError; none if the answer is complete by then."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        if complete():
            return
        # `from None`: a traceback in a log must not quote the key.
        raise fault(exc, who=call.who, code=code, what=what, secrets=call.secrets) from None
