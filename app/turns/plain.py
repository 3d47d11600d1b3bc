"""What comes from outside, made fit for the log: it can be encoded, stored, copied and shown.

Everything a model, a provider or a tool hands over passes here before it is appended: the log
encodes its events where no turn could be told of an error any more.
"""

from typing import Any

import msgspec

# Far more than a tool's input needs. What is deeper fails in the readers' own parsers, each at a
# depth of its own (Python's copy at about 480).
DEPTH_LIMIT = 100


def whole(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced: it can always be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(value: Any) -> Any:
    """The value as JSON gives it back: null, booleans, numbers, whole texts, lists, objects.

    Raises ValueError, with words that go on "the value …", for what JSON cannot hold.
    """
    try:
        result = msgspec.json.decode(_encode(value))
    except TypeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"is nested deeper than {DEPTH_LIMIT} levels") from None
    if _is_deep(result):
        raise ValueError(f"is nested deeper than {DEPTH_LIMIT} levels")
    return result


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_joined(value))


def _joined(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {_joined(key): _joined(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_joined(one) for one in value]
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [one for container in level for one in _inside(container)]
    return any(isinstance(one, dict | list) for one in level)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
