"""The transport as a service: accepts, serves, and ends in a bounded time."""

import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from socket import AF_INET6, socket
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    Scope,
)

from web.transport.connection import Connection
from web.transport.listening import Accepted, Listener
from web.transport.sender import Stream, WritePatience

log = logging.getLogger("web.transport")

# At a drain: what is blocked on a peer that does not read is cut after this ...
CUT_SECONDS = 1.0
# ... and every request that still runs is cancelled after this. Streams end by themselves before.
GRACE_SECONDS = 2.0

# Also the time a client has to send the head of its request. Browsers keep connections for longer
# and open a new one when they find it closed.
KEEP_ALIVE_SECONDS = 60.0
# Hypercorn's 1000 would put `Connection: close` on a stream (and kill the others, on HTTP/2).
KEEP_ALIVE_REQUESTS = 10**9
PING_SECONDS = 20.0
MESSAGE_BYTES = 2**20


class Transport:
    """Serves an ASGI application on our sockets.

    The application's lifespan is not run; there is no HTTP/2, no access log, no compression.
    """

    def __init__(
        self,
        app: ASGIFramework,
        sockets: Sequence[socket],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Args:
        sockets: from `listen`; `serve` takes them over and closes them.
        tls: a server context with its certificate loaded; None serves plain HTTP. Its ALPN is set
            to http/1.1.
        """
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])
        self._app = app
        self._sockets = list(sockets)
        self._tls = tls
        self._config = _config()
        self._context = WorkerContext(max_requests=None)
        self._patience = WritePatience()
        self._connections: set[Connection] = set()

    @property
    def urls(self) -> list[str]:
        """One for each socket, without a slash at the end."""
        return [_url("https" if self._tls else "http", bound) for bound in self._sockets]

    async def serve(
        self,
        draining: trio.Event,
        *,
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve until `draining` is set, then end everything within GRACE_SECONDS.

        Reports `urls` as started when it accepts. At the drain: no connection is accepted any more,
        idle ones end at once, WebSockets are closed with 1012, sends that wait for a peer are cut
        after CUT_SECONDS. Generators of streams should watch `draining` themselves and end; what is
        left after GRACE_SECONDS is cancelled. Cancelling `serve` ends everything at once.

        May be called once. Raises OSError when a listening socket fails.
        """
        urls = self.urls
        async with trio.open_nursery() as connections:
            try:
                await self._accept(connections, draining, urls, task_status)
            finally:
                # Also when we are cancelled: sends are shielded, and must not outlive us.
                patience = CUT_SECONDS if draining.is_set() else 0.0
                self._patience.cut_at = trio.current_time() + patience
                for connection in self._connections:
                    connection.drain()
            await self._context.terminated.set()
            for connection in self._connections:
                if connection.holds_websocket:
                    connections.start_soon(self._supervise, connection.restart)
            connections.cancel_scope.deadline = trio.current_time() + GRACE_SECONDS

    async def _accept(
        self,
        connections: trio.Nursery,
        draining: trio.Event,
        urls: list[str],
        task_status: trio.TaskStatus[list[str]],
    ) -> None:
        listeners = [Listener(bound) for bound in self._sockets]
        async with trio.open_nursery() as accepting:
            await accepting.start(
                partial(trio.serve_listeners, handler_nursery=connections),
                self._serve_connection,
                listeners,
            )
            task_status.started(urls)
            await draining.wait()
            accepting.cancel_scope.cancel("draining")

    async def _serve_connection(self, accepted: Accepted) -> None:
        connection = self._connection(accepted)
        self._connections.add(connection)
        try:
            await self._supervise(connection.run)
        finally:
            self._connections.discard(connection)

    def _connection(self, accepted: Accepted) -> Connection:
        stream: Stream = accepted.stream
        if self._tls is not None:
            stream = trio.SSLStream(
                accepted.stream, self._tls, server_side=True, https_compatible=True
            )
        return Connection(
            stream,
            accepted.raw if self._tls is None else None,
            app=self._run_app,
            config=self._config,
            context=self._context,
            patience=self._patience,
        )

    async def _supervise(self, work: Callable[[], Any]) -> None:
        """A fault in one connection (of Hypercorn, h11, wsproto or ours) must not end the others,
        let alone the turns that run beside the server. Requests' own faults never come here."""
        try:
            await work()
        except* Exception:
            log.exception("A connection was ended by a fault of its protocol")

    async def _run_app(
        self,
        scope: Scope,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
        sync_spawn: Callable[..., Any],
        call_soon: Callable[..., Any],
    ) -> None:
        """Hypercorn's shape of an application, round one of ASGI's."""
        if scope["type"] == "websocket":
            send = _with_checkpoint(send)
        await self._app(scope, receive, send)


def _with_checkpoint(send: ASGISendCallable) -> ASGISendCallable:
    """After a WebSocket's end Hypercorn's send does nothing and awaits nothing: a loop of sends
    would freeze the process. With a checkpoint it is cancelled at its next send (fault 5)."""

    async def checked(message: ASGISendEvent) -> None:
        await trio.lowlevel.checkpoint()
        await send(message)

    return checked


def _config() -> Config:
    config = Config()
    config.accesslog = None  # ids are in paths, and do not belong into logs
    config.errorlog = log
    config.include_server_header = False
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = KEEP_ALIVE_REQUESTS
    config.websocket_ping_interval = PING_SECONDS
    config.websocket_max_message_size = MESSAGE_BYTES
    return config


def _url(scheme: str, bound: socket) -> str:
    host, port = bound.getsockname()[:2]
    return (
        f"{scheme}://[{host}]:{port}" if bound.family == AF_INET6 else f"{scheme}://{host}:{port}"
    )
