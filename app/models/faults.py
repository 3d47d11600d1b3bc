"""From what a provider said to whose fault it is (PROTOCOLS.md, E4; REQUIREMENTS.md, S3).

Every adapter classifies here, so that the same words mean the same outcome on every wire.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from app.models.errors import ModelError

MESSAGE_CHARACTERS = 600

CONTEXT_ADVICE = (
    "The conversation is too long for this model. Start a new thread, shorten the message, or"
    " choose a model with a larger context window"
)


@dataclass(frozen=True)
class Verdict:
    """`lead` begins the sentence for the person; `{who}` in it is the provider."""

    code: str
    retryable: bool
    lead: str


_CONTEXT = Verdict("CONTEXT_TOO_LONG", False, CONTEXT_ADVICE)
_FILTERED = Verdict("CONTENT_FILTERED", False, "{who} refused the content")
_QUOTA = Verdict("MODEL_RATE_LIMITED", False, "The account at {who} has no quota or credit left")
_RATE = Verdict("MODEL_RATE_LIMITED", True, "{who} limits the rate of requests")
_OVERLOADED = Verdict("MODEL_OVERLOADED", True, "{who} is overloaded")
_SERVER = Verdict("MODEL_ERROR", True, "{who} failed")
_AUTH = Verdict("MODEL_UNAUTHORIZED", False, "{who} did not accept the key")
_NOT_FOUND = Verdict("MODEL_NOT_FOUND", False, "{who} does not know this model or address")
_REFUSED = Verdict("MODEL_REQUEST_REFUSED", False, "{who} refused the request")
_BUSY = Verdict("MODEL_ERROR", True, "{who} could not take the request now")
_REDIRECT = Verdict("MODEL_PROTOCOL", False, "{who} answered with a redirect, check base_url")

_STATUS = {
    401: _AUTH,
    402: _QUOTA,
    403: _AUTH,
    404: _NOT_FOUND,
    408: _BUSY,
    409: _BUSY,
    413: _CONTEXT,
    429: _RATE,
    503: _OVERLOADED,
    529: _OVERLOADED,
}

# Words of `error.code` and `error.type`, without case, "_", "-" and " ". What is specific comes
# first; it wins over the status (OpenAI says insufficient_quota with 429, which would be retried).
_SPECIFIC = {
    "contextlengthexceeded": _CONTEXT,
    "exceedcontextsizeerror": _CONTEXT,  # llama.cpp
    "modelcontextwindowexceeded": _CONTEXT,
    "requesttoolarge": _CONTEXT,
    "stringabovemaxlength": _CONTEXT,
    "insufficientquota": _QUOTA,
    "insufficientbalance": _QUOTA,
    "billinghardlimitreached": _QUOTA,
    "billingnotactive": _QUOTA,
    "billingerror": _QUOTA,
    "exceededcurrentquotaerror": _QUOTA,  # Moonshot
    "contentfilter": _FILTERED,
    "contentpolicyviolation": _FILTERED,
    "responsibleaipolicyviolation": _FILTERED,
    "imagecontentpolicyviolation": _FILTERED,
    "misalignmentpolicyviolation": _FILTERED,
    "biopolicy": _FILTERED,
    "invalidapikey": _AUTH,
    "modelnotfound": _NOT_FOUND,
    # AWS
    "throttlingexception": _RATE,
    "servicequotaexceededexception": _QUOTA,
    "expiredtokenexception": _AUTH,
    "accessdeniedexception": _AUTH,
    "resourcenotfoundexception": _NOT_FOUND,
    "modelnotreadyexception": _OVERLOADED,
    "modeltimeoutexception": _BUSY,
    "modelerrorexception": _SERVER,
}
_GENERAL = {
    "ratelimiterror": _RATE,
    "ratelimitexceeded": _RATE,
    "ratelimit": _RATE,
    "toomanyrequests": _RATE,
    "overloadederror": _OVERLOADED,
    "overloaded": _OVERLOADED,
    "serveroverloaded": _OVERLOADED,
    "engineoverloaded": _OVERLOADED,
    "serverisoverloaded": _OVERLOADED,
    "slowdown": _OVERLOADED,
    "unavailableerror": _OVERLOADED,
    "serviceunavailable": _OVERLOADED,
    "serviceunavailableexception": _OVERLOADED,
    "authenticationerror": _AUTH,
    "permissionerror": _AUTH,
    "permissiondeniederror": _AUTH,
    "notfounderror": _NOT_FOUND,
    "invalidrequesterror": _REFUSED,
    "badrequesterror": _REFUSED,
    "invalidprompt": _REFUSED,
    "validationexception": _REFUSED,
}

_CONTEXT_WORDS = re.compile(
    r"context (length|window|size)|prompt is too long|input is too long|too many (input )?tokens",
    re.IGNORECASE,
)
_KEYS = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|key)[-_][\w-]{12,}|(?<=Bearer )[\w.~+/=-]{8,}")


def from_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    who: str,
    now: float,
    secrets: Iterable[str] = (),
) -> ModelError:
    """The error that an HTTP status other than 2xx means.

    Args:
        headers: with case-insensitive names.
        body: as much of it as was read.
        who: the provider as the person knows it.
        now: seconds since 1970, for a `Retry-After` that is a date.
        secrets: what must not appear in the text.
    """
    message, words = _describe(_parse(body))
    # AWS says the kind in a header: `ThrottlingException:http://…`.
    words += _words({"type": headers.get("x-amzn-errortype", "").partition(":")[0]})
    verdict = _status_verdict(status)
    if status < 500:
        verdict = _by_words(words, _SPECIFIC) or _by_message(message) or verdict
    retryable = verdict.retryable
    if (said := headers.get("x-should-retry", "").lower()) in ("true", "false"):
        retryable = said == "true"
    return ModelError(
        _sentence(verdict, who, f" (HTTP {status})", message or _plain(body), secrets),
        code=verdict.code,
        retryable=retryable,
        retry_after=retry_after(headers, now),
        status=status,
    )


def from_object(error: Any, *, who: str, secrets: Iterable[str] = ()) -> ModelError:
    """The error that an error object inside a successful response means.

    What says nothing about its kind is retryable: the request had been accepted, so it is the
    provider that failed.
    """
    message, words = _describe(error)
    numbers = [int(word) for word in words if re.fullmatch(r"[3-5]\d\d", word)]
    verdict = (
        _by_words(words, _SPECIFIC)
        or _by_message(message)
        or (_status_verdict(numbers[0]) if numbers else None)
        or _by_words(words, _GENERAL)
        or _SERVER
    )
    return ModelError(
        _sentence(verdict, who, "", message, secrets),
        code=verdict.code,
        retryable=verdict.retryable,
    )


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the provider asks to wait: `retry-after-ms`, else `retry-after` (number or date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - now)


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """The text on one line, without keys, trimmed to what a person reads."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[key]")
    text = " ".join(_KEYS.sub("[key]", text).split())
    if len(text) > MESSAGE_CHARACTERS:
        text = text[: MESSAGE_CHARACTERS - 1] + "…"
    return text


# verdicts


def _status_verdict(status: int) -> Verdict:
    if status in _STATUS:
        return _STATUS[status]
    if status >= 500:
        return _SERVER
    return _REDIRECT if status < 400 else _REFUSED


def _by_words(words: list[str], table: dict[str, Verdict]) -> Verdict | None:
    return next((table[word] for word in words if word in table), None)


def _by_message(message: str) -> Verdict | None:
    return _CONTEXT if _CONTEXT_WORDS.search(message) else None


# what was said


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _describe(error: Any) -> tuple[str, list[str]]:
    """The message for the person and the normalised words that tell the kind.

    Understands `{"error": {...}}`, `{"error": "…"}`, the bare object, FastAPI's `detail`, Gemini's
    list around it, and OpenRouter's `metadata.raw`, which holds the message behind the message.
    """
    if isinstance(error, list):
        return _describe(error[0]) if error else ("", [])
    if isinstance(error, str):
        return error, []
    if not isinstance(error, dict):
        return "", []
    inner = error.get("error")
    if inner and isinstance(inner, dict | str):
        message, words = _describe(inner)
        # Ollama and others put the kind beside a plain string.
        return message, words + _words(error)
    message = next(
        (error[key] for key in ("message", "msg", "detail", "title") if error.get(key)), ""
    )
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):
        behind, words = _describe(_parse(raw.encode()) or raw)
        return f"{message}: {behind}", words + _words(error)
    if not isinstance(message, str):
        message = _describe(message)[0]
    return message, _words(error)


def _words(error: dict[str, Any]) -> list[str]:
    found = [error.get("code"), error.get("type"), error.get("status")]
    if isinstance(kind := error.get("__type"), str):  # AWS: "com.amazon…#ExpiredTokenException"
        found.append(kind.rpartition("#")[2])
    inner = error.get("innererror")  # Azure's content filter
    if isinstance(inner, dict):
        found.append(inner.get("code"))
    return [
        re.sub(r"[_\- ]", "", str(word)).lower()
        for word in found
        if isinstance(word, str | int) and not isinstance(word, bool)
    ]


def _plain(body: bytes) -> str:
    """A body that is no JSON, as far as it helps the person."""
    text = body.decode("utf-8", "replace")
    if "<" in text[:100]:
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return title[1] if title else ""
    return text


def _sentence(verdict: Verdict, who: str, where: str, message: str, secrets: Iterable[str]) -> str:
    lead = verdict.lead.format(who=who) + where
    said = scrub(message, secrets)
    if not said:
        return f"{lead}."
    return f"{lead}: {said}" if said.endswith((".", "!", "?", "…")) else f"{lead}: {said}."
