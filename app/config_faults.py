"""What is said of a wrong setting: what it is, what would be right, and what was perhaps meant."""

import difflib
from collections.abc import Iterable
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta

DURATION = "a duration; write 90, 90s, 10m, 2h or off"
# A value is shown so that it is recognised; one that is longer is recognised by its beginning.
SHOWN_CHARACTERS = 60


def fault(value: Any, hint: Any) -> str:
    """Why that value is none of the type `hint`, as `70000 is not a whole number from 0 to 65535`.

    Args:
        hint: a type of Settings or ModelConfig.
    """
    return f"{shown(value)} is not {_described(hint)}"


def shown(value: Any) -> str:
    """The value as a person wrote it, roughly; what stands in tables and lists is left out."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def meant(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`; did you mean port?`, "" where nothing known is near.

    Args:
        prefix: what stands before all of them, and so says nothing about which are near.
    """
    near = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(prefix + one for one in near)}?" if near else ""


def _described(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        kind, *metas = get_args(hint)
        return _described(kind) + "".join(_range(meta) for meta in metas)
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    alternatives = [one for one in get_args(hint) if one is not NoneType]
    if NoneType in get_args(hint) and len(alternatives) == 1:
        return _described(alternatives[0])
    return _WORDS[get_origin(hint) or hint]


_WORDS = {str: "a text", int: "a whole number", bool: "true or false", dict: "a table"}


def _range(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    return f" of {meta.ge} or more" if meta.ge is not None else ""
