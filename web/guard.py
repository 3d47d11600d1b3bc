"""Who may talk to us at all: our own page, programs, and nobody's other web site.

A browser sends requests of any site to a loopback address, and DNS rebinding makes them look like
ours; so the host name must be one of ours, and the origin, where there is one, the same (A2).
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from app.errors import AppError

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
# What a navigation to our page may come from; other sites may link to us, not call us.
SAFE_SITES = frozenset({"same-origin", "none", ""})

# A Host header: a name or an address (RFC 9110, 7.2). Nothing else of a URL may be in it.
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]*)?")


class ForbiddenError(AppError):
    """HOST_FORBIDDEN or ORIGIN_FORBIDDEN."""


class Guard:
    """Checks the Host, Origin and Sec-Fetch-Site headers of each request."""

    def __init__(self, hosts: Iterable[str], *, any_host: bool = False) -> None:
        """`hosts`: names we are reached by, besides this machine's own for itself.

        `any_host`: whatever the name, something else keeps strangers out.
        """
        self._hosts = LOCAL_NAMES | {host.lower() for host in hosts}
        self._any_host = any_host

    def check(self, host: str, origin: str | None, site: str | None, *, page: bool) -> None:
        """Args:
        host: the Host header. `origin`, `site`: Origin and Sec-Fetch-Site; None: not sent.
        page: a page is asked for, not data: links from elsewhere may lead to it.

        Raises ForbiddenError.
        """
        name = _name(host)
        known = self._any_host or name in self._hosts or _is_loopback(name)
        if not name or not known:
            raise ForbiddenError(
                "This server does not answer under that name", code="HOST_FORBIDDEN"
            )
        if origin is not None and _host_of(origin) != host.lower():
            raise _other_site()
        if not page and (site or "").lower() not in SAFE_SITES:
            raise _other_site()


def _other_site() -> ForbiddenError:
    return ForbiddenError("Requests from other sites are refused", code="ORIGIN_FORBIDDEN")


def _name(host: str) -> str:
    """The name without its port, as in a list of names; "" if it is none."""
    match = HOST.fullmatch(host)
    return (match[1] or match[2]).lower().removesuffix(".") if match else ""


def _host_of(origin: str) -> str:
    """What the Host header of the origin's own requests would be; "" for `null` and the like."""
    scheme, _, host = origin.lower().partition("://")
    return host if scheme in ("http", "https") else ""


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
