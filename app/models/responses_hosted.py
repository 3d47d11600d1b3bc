"""Tools that OpenAI runs itself, if `options.tools` asks for them: as the person sees them.

The model sees them again by the items themselves, which are replayed as they came.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

# Type of the item -> its member that is the result, "" where none is worth showing (an image is
# megabytes of base64).
_RESULTS = {
    "web_search_call": "results",
    "file_search_call": "results",
    "code_interpreter_call": "outputs",
    "image_generation_call": "",
    "mcp_call": "output",
}


def name_of(item: Mapping[str, Any]) -> str | None:
    """The tool's name; None for an item that is no such call."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind not in _RESULTS:
        return None
    name = item.get("name")
    return name if isinstance(name, str) and name else kind.removesuffix("_call")


def input_of(item: Mapping[str, Any]) -> str:
    """The input, JSON text."""
    if isinstance(arguments := item.get("arguments"), str):
        return arguments
    if isinstance(action := item.get("action"), dict):
        return msgspec.json.encode(action).decode()
    given = {name: item[name] for name in ("queries", "code") if item.get(name)}
    return msgspec.json.encode(given).decode()


def output_of(item: Mapping[str, Any]) -> tuple[Any, bool]:
    """The result, and whether it is an error."""
    if error := item.get("error"):
        return error, True
    result = item.get(_RESULTS[str(item.get("type"))])
    return item.get("status") if result is None else result, item.get("status") == "failed"
