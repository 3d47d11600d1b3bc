"""The edge: our sockets, the transport on them, the application in it."""

from socket import socket

import trio

from app.config import Settings
from app.lifetime import Services
from web.guard import LOCAL_NAMES
from web.server import create_app
from web.transport import ListenError, Transport, listen


class WebEdge:
    """Implements app.lifetime.Edge."""

    def __init__(self) -> None:
        self._sockets: list[socket] = []

    def bind(self, settings: Settings) -> None:
        """Raises ListenError, also for an address that others could reach: nobody signs in yet."""
        if settings.host not in LOCAL_NAMES:
            raise ListenError(
                f"{settings.host} can be reached from other machines, and there is no sign-in yet: "
                "Unbroken listens on 127.0.0.1 only."
            )
        self._sockets = listen(settings.host, settings.port)

    async def serve(
        self,
        services: Services,
        *,
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Until `services.drain`, and the bounded time the transport needs to end."""
        transport = Transport(create_app(services), self._sockets)
        await transport.serve(services.drain, task_status=task_status)
