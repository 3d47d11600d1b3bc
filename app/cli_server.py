"""The server that was started with the same settings, as a command on its machine reaches it."""

import ssl
from pathlib import Path

from app.access import load_token
from app.config import Settings
from app.models.addresses import is_loopback
from app.remote import trusting

# Addresses to listen on all, and one that leads to such a server.
WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


def own_url(settings: Settings) -> str:
    host = _host(settings)
    host = f"[{host}]" if ":" in host else host
    base = settings.base_path.strip("/")
    scheme = "https" if settings.cert else "http"
    return f"{scheme}://{host}:{settings.port}/{base and f'{base}/'}"


def own_token(settings: Settings) -> str | None:
    """Its access token; None where there is none yet."""
    path = Path(settings.token_file).expanduser() if settings.token_file else None
    path = path or settings.folder / "access-token"
    return load_token(path).token if path.exists() else None


def own_certificate(settings: Settings) -> ssl.SSLContext | None:
    """What to trust in it: the certificate it was given, by this machine's own addresses too, which
    no certificate names. None: it has none. Raises InvalidError."""
    if not settings.cert:
        return None
    return trusting(Path(settings.cert), any_name=is_loopback(_host(settings)))


def _host(settings: Settings) -> str:
    return WILDCARDS.get(settings.host, settings.host).strip("[]")
