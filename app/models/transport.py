"""What httpx2 raises, as ModelError (PROTOCOLS.md, E4)."""

import errno
import os
import socket
import ssl
from collections.abc import Iterable, Iterator

import httpx2

from app.models.errors import ModelError
from app.models.faults import scrub

# A host that drops packets: well above a slow TLS handshake, well below `header_timeout`, so that
# a second try still fits in it.
CONNECT_SECONDS = 10.0


def fault(
    exc: Exception, *, who: str, code: str, what: str, secrets: Iterable[str] = ()
) -> ModelError:
    """The error that an exception of httpx2 means.

    Args:
        who: the provider as the person knows it.
        code: the code of what is nobody's fault but the network's.
        what: goes on after `who` in the sentence for that case.
        secrets: what must not appear in the text: httpx2 quotes headers it dislikes.
    """
    chain = list(_chain(exc))
    tls = [e for e in chain if isinstance(e, ssl.SSLError)]
    broken_tls = ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    if tls and not isinstance(tls[0], broken_tls):
        reason = getattr(tls[0], "verify_message", "") or tls[0].reason or "TLS failed"
        text = f"The connection to {who} is not secure: {scrub(str(reason), secrets)}."
        return ModelError(text, code="MODEL_UNREACHABLE", retryable=False)
    if isinstance(exc, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL):
        text = f"The request to {who} cannot be made: check base_url and the key."
        return ModelError(text, code="MODEL_REQUEST_REFUSED", retryable=False)
    if isinstance(exc, httpx2.DecodingError):
        code, what = "MODEL_PROTOCOL", "sent a body that cannot be decoded"
    reason = scrub(_reason(exc, chain), secrets)
    text = f"{who} {what}" + (f": {reason}." if reason else ".")
    return ModelError(text, code=code, retryable=True)


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception, its causes, and what is in groups of them, outermost first."""
    seen: list[BaseException] = [exc]
    for e in seen:
        yield e
        inner = [e.__cause__, e.__context__]
        if isinstance(e, BaseExceptionGroup):
            inner += e.exceptions
        seen += [i for i in inner if i is not None and i not in seen]


def _reason(exc: Exception, chain: list[BaseException]) -> str:
    if isinstance(exc, httpx2.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS:.0f} seconds"
    for e in chain:
        if isinstance(e, socket.gaierror):
            return "the name is not known"
        if isinstance(e, OSError) and e.errno is not None and e.errno in errno.errorcode:
            return os.strerror(e.errno)
    return str(exc).rstrip(".")
