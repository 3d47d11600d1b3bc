"""The edge: our sockets, the transport on them, the application in it."""

import ssl
from pathlib import Path
from socket import AF_INET, AF_INET6, SOCK_DGRAM, socket

import trio

from app.access import AccessToken, load_token
from app.config import Settings
from app.lifetime import Services
from web.admission import Admission
from web.guard import LOCAL_NAMES
from web.mount import root_of
from web.server import create_app
from web.transport import AddressInUseError, ListenError, Transport, listen

WILDCARDS = {"0.0.0.0": AF_INET, "::": AF_INET6, "": AF_INET}
# Any address outside: connecting a datagram socket sends nothing, it only picks the way there.
OUTSIDE = {AF_INET: "192.0.2.1", AF_INET6: "2001:db8::1"}


class WebEdge:
    """Implements app.lifetime.Edge."""

    def __init__(self) -> None:
        self._sockets: list[socket] = []
        self._token: AccessToken | None = None
        self._tls: ssl.SSLContext | None = None

    def bind(self, settings: Settings) -> None:
        """Raises ListenError, InvalidError (CONFIG_INVALID) for the token's or TLS's files."""
        if settings.host not in LOCAL_NAMES or settings.token_file:
            file = Path(settings.token_file).expanduser() if settings.token_file else None
            self._token = load_token(file or settings.folder / "access-token")
        self._tls = _tls(settings)
        try:
            self._sockets = listen(settings.host, settings.port)
        except AddressInUseError as error:
            raise AddressInUseError(f"{error} --port takes another, 0 any that is free.") from error

    async def serve(
        self,
        services: Services,
        *,
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Until `services.drain`, and the bounded time the transport needs to end."""
        port = self._sockets[0].getsockname()[1]
        admission = None
        if self._token is not None:
            base = f"{root_of(services.settings.base_path)}/"
            admission = Admission(self._token, port=port, secure=self._tls is not None, base=base)
        app = create_app(services, admission=admission)
        transport = Transport(app, self._sockets, tls=self._tls)
        await transport.serve(services.drain, task_status=task_status)

    def link(self, settings: Settings, url: str) -> str:
        """What a person opens, for one of the reported addresses: with the token where one is asked
        for, and an address other machines know where we listen on all."""
        if settings.host in WILDCARDS:
            scheme, _, rest = url.partition("://")
            url = f"{scheme}://{_own_address(WILDCARDS[settings.host])}:{rest.rpartition(':')[2]}"
        if root := root_of(settings.base_path):
            url += f"{root}/"
        return url if self._token is None else f"{url.rstrip('/')}/?token={self._token.token}"


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.cert and not settings.key:
        return None
    if not settings.cert:
        raise ListenError("A key without its certificate: give both, --cert and --key.")
    cert, key = settings.cert, settings.key or settings.cert
    for what, file in (("certificate", cert), ("private key", key)):
        try:
            with open(file, "rb"):
                pass
        except OSError as error:
            raise ListenError(f"The {what} {file} cannot be read: {error.strerror}.") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        reason = _tls_reason(getattr(error, "reason", None))
        if not settings.key:
            text = f"The certificate {cert} is alone: --key names the file of its private key."
            raise ListenError(text) from error
        text = f"The certificate {cert} and its key {key} cannot be used together: {reason}."
        raise ListenError(text) from error
    return context


def _tls_reason(reason: str | None) -> str:
    """What OpenSSL found, as people say it."""
    if reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of this certificate"
    return reason.replace("_", " ").lower() if reason else "they are not both PEM files"


def _own_address(family: int) -> str:
    """The address other machines of this network most likely reach us by."""
    with socket(family, SOCK_DGRAM) as probe:
        try:
            probe.connect((OUTSIDE[AF_INET6 if family == AF_INET6 else AF_INET], 9))
        except OSError:  # no network at all
            return "[::1]" if family == AF_INET6 else "127.0.0.1"
        address = str(probe.getsockname()[0])
    return f"[{address}]" if family == AF_INET6 else address
