"""Whether a server accepts work, asked from outside: the health check of containers."""

import http.client
import ssl
from urllib.parse import urlsplit

from app.errors import UnavailableError

SECONDS = 5.0


def ask(url: str) -> None:
    """Raises UnavailableError unless the server at `url` says within SECONDS that it is ready."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        # To ourselves, by an address that is in no certificate.
        context = ssl._create_unverified_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        connection.request("GET", f"{parts.path}readyz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        if isinstance(error, http.client.BadStatusLine) and parts.scheme == "http":
            reason = f"{reason}. Perhaps it speaks https: then it needs the settings cert and key"
        raise _unavailable(f"No server answers at {url}: {reason}") from None
    finally:
        connection.close()
    if status != 200:
        raise _unavailable(f"The server at {url} is not ready: it answered {status}")


def _unavailable(text: str) -> UnavailableError:
    return UnavailableError(text, code="UNHEALTHY")
