"""Our own listening sockets: with the options that end half-open connections, and clear errors."""

import errno
import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import trio

# The kernel gives up on a peer that acknowledges nothing for so long. Twice the client's own limit
# for a silent connection (12 s) and above our write deadline; the only cure for half-open peers.
USER_TIMEOUT_SECONDS = 30
# Idle connections carry nothing that could time out: the kernel asks after 30 s, then every 10 s.
KEEPALIVE_IDLE_SECONDS = 30
KEEPALIVE_INTERVAL_SECONDS = 10

BACKLOG = 1024

# What is missing comes back by itself when connections end; until then new ones wait.
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
EXHAUSTED_SECONDS = 0.1

log = logging.getLogger("web.transport")


class ListenError(OSError):
    """The address cannot be listened on. The text is a sentence for the person."""


class AddressInUseError(ListenError):
    """Another program (or another one of us) listens there."""


def listen(host: str, port: int, backlog: int = BACKLOG) -> list[socket.socket]:
    """Bind and listen, so that connections queue from now on; nothing is accepted yet.

    Args:
        host: a name or an address; a name that has several gets a socket for each.
        port: 0 lets the system choose one (the same for all addresses).
        backlog: connections that may wait to be accepted; the system may lower it.

    Returns:
        Non-blocking sockets; the caller owns them until `Transport.serve` takes them.

    Raises:
        AddressInUseError, ListenError: nothing is left open.
    """
    sockets: list[socket.socket] = []
    refused: OSError | None = None
    for family, address in _resolve(host, port):
        try:
            bound = port or (sockets[0].getsockname()[1] if sockets else 0)
            sockets.append(_bind(family, (address, bound), backlog))
        except OSError as error:
            # "localhost" may name an address this machine does not have (no IPv6): not a fault
            # as long as another one works. A taken address is one, always.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _close(sockets)
                raise _explain(error, host, port) from error
            refused = error
    if refused is not None and not sockets:
        raise _explain(refused, host, port) from refused
    return sockets


def _resolve(host: str, port: int) -> list[tuple[int, str]]:
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise ListenError(f"The host name {host} is not known here: {error.strerror}.") from error
    inet = [(family, str(address[0])) for family, *_, address in found]
    return list(dict.fromkeys(inet))


def _bind(family: int, address: tuple[str, int], backlog: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        for level, option, value in _options(family):
            listener.setsockopt(level, option, value)
        listener.bind(address)
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _options(family: int) -> list[tuple[int, int, int]]:
    """Set on the listener, inherited by what it accepts (tested on Linux)."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if os.name == "posix":
        # Elsewhere this option would let another program take our port.
        options.append((socket.SOL_SOCKET, socket.SO_REUSEADDR, 1))
    if family == socket.AF_INET6:
        options.append((socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1))
    for name, value in (
        ("TCP_USER_TIMEOUT", USER_TIMEOUT_SECONDS * 1000),
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPALIVE", KEEPALIVE_IDLE_SECONDS),  # what macOS calls KEEPIDLE
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
    ):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def _explain(error: OSError, host: str, port: int) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        return AddressInUseError(f"Port {port} of {host} is already in use by another program.")
    if error.errno == errno.EACCES:
        return ListenError(f"Port {port} of {host} may not be opened by this user.")
    if error.errno == errno.EADDRNOTAVAIL:
        return ListenError(f"{host} is not an address of this machine.")
    return ListenError(f"Port {port} of {host} cannot be opened: {error.strerror}.")


def _close(sockets: Iterable[socket.socket]) -> None:
    for bound in sockets:
        bound.close()


@dataclass
class Accepted(trio.abc.AsyncResource):
    """A new connection: as Trio's stream, and as the socket itself, for sends that do not wait."""

    stream: trio.SocketStream
    raw: socket.socket

    async def aclose(self) -> None:
        await self.stream.aclose()


class Listener(trio.abc.Listener[Accepted]):
    """Accepts from one of our sockets and owns it. Trio's own listener hides the raw socket."""

    def __init__(self, listener: socket.socket) -> None:
        self._socket = listener
        self._exhausted = False  # set while descriptors or memory are missing: that is told once

    async def accept(self) -> Accepted:
        """Waits while descriptors or memory have run out, and says so once. Trio would say it ten
        times a second, with a traceback. Raises OSError when the socket itself fails."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                raw, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue  # it went away before we came
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                if not self._exhausted:
                    log.warning("New connections have to wait: %s", error.strerror)
                self._exhausted = True
                await trio.sleep(EXHAUSTED_SECONDS)
                continue
            if self._exhausted:
                log.info("Connections are accepted again")
            self._exhausted = False
            return Accepted(trio.SocketStream(trio.socket.from_stdlib_socket(raw)), raw)

    async def aclose(self) -> None:
        """Idempotent."""
        self._socket.close()
        await trio.lowlevel.checkpoint()
