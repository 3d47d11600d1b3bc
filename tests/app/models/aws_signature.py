"""AWS's signature, version 4, computed once more from what a server received."""

import hashlib
import hmac
import re
from urllib.parse import quote

from tests.app.models.fake_provider import Exchange


def is_valid(exchange: Exchange, secret: str) -> bool:
    """Whether the request was signed with `secret`, exactly as it came over the wire."""
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=\w+/(\d{8})/([\w-]+)/(\w+)/aws4_request, "
        r"SignedHeaders=([\w;-]+), Signature=(\w{64})",
        exchange.headers.get("authorization", ""),
    )
    if match is None:
        return False
    day, region, service, signed, signature = match.groups()
    path, _, query = exchange.path.partition("?")
    canonical = [
        exchange.method,
        quote(path, safe="/-_.~"),
        query,
        *(f"{name}:{' '.join(exchange.headers[name].split())}" for name in signed.split(";")),
        "",
        signed,
        hashlib.sha256(exchange.body).hexdigest(),
    ]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", exchange.headers["x-amz-date"], scope, digest])
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.new(key, text.encode(), "sha256").hexdigest(), signature)
