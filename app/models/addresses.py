"""Addresses of providers."""

import ipaddress

import httpx2


def host_of(url: str) -> str:
    """The host in `url`, "?" where there is none."""
    try:
        return httpx2.URL(url).host or "?"
    except httpx2.InvalidURL:
        return "?"


def is_url(url: str) -> bool:
    """Whether `url` is an http(s) address with a host and a possible port, and no password."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        return False
    port_is_possible = parsed.port is None or 0 < parsed.port < 65536
    plain = not parsed.userinfo and not parsed.query and not parsed.fragment
    return parsed.scheme in ("http", "https") and bool(parsed.host) and port_is_possible and plain


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
