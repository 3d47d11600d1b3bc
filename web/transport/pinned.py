"""What we rely on inside Hypercorn and Quart-Trio, checked at import.

The classes below are not public API. A version that moves them must be measured again before it
serves anyone, so it is refused loudly instead of misbehaving under load.
"""

import inspect
from importlib import metadata
from typing import Any

from hypercorn.protocol.h11 import H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.task_group import TaskGroup
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection, TrioASGIWebsocketConnection

HYPERCORN = "0.18."

_ADVICE = (
    "web/transport was measured against Hypercorn 0.18 and its tests (tests/web/test_transport_*) "
    "say what must hold. Install `hypercorn==0.18.*`, or adapt web/transport and this list."
)

# Everything that is overridden or called, with its parameters.
_RELIED_ON: list[tuple[type, str, str]] = [
    (
        H11Protocol,
        "__init__",
        "self app config context task_group connection_state ssl client server send",
    ),
    (H11Protocol, "handle", "self event"),
    (H11Protocol, "stream_send", "self event"),
    (H11Protocol, "_create_stream", "self request"),
    (H11Protocol, "_check_protocol", "self event"),
    (H11Protocol, "_send_h11_event", "self event"),
    (H11Protocol, "_send_error_response", "self status_code"),
    (H11Protocol, "_maybe_recycle", "self"),
    (H11WSConnection, "send", "self event"),
    (HTTPStream, "app_send", "self message"),
    (WSStream, "app_send", "self message"),
    (TaskGroup, "spawn", "self func args"),
    (TaskGroup, "spawn_app", "self app config scope send"),
    (QuartTrio, "handle_websocket_exception", "self error"),
    (TrioASGIHTTPConnection, "handle_messages", "self nursery request receive"),
    (TrioASGIWebsocketConnection, "handle_messages", "self nursery receive"),
]


def check() -> None:
    """Raises ImportError, naming the difference, when the installed packages are not the pinned."""
    for problem in (*_version_problems(), *_shape_problems(_RELIED_ON)):
        raise ImportError(f"{problem}. {_ADVICE}")


def _version_problems() -> list[str]:
    try:
        version = metadata.version("hypercorn")
    except metadata.PackageNotFoundError:
        return []  # a frozen executable carries no metadata: the shapes must do
    if version.startswith(HYPERCORN):
        return []
    return [f"Hypercorn {version} is installed, not {HYPERCORN}*"]


def _shape_problems(relied_on: list[tuple[Any, str, str]]) -> list[str]:
    problems = []
    for owner, name, expected in relied_on:
        method = getattr(owner, name, None)
        found = " ".join(inspect.signature(method).parameters) if method else "nothing"
        if found != expected:
            place = f"{owner.__module__}.{owner.__qualname__}.{name}"
            problems.append(f"{place} takes ({found}), not ({expected})")
    return problems
