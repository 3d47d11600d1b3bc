"""What every wire tells a model of a conversation, in the same words.

Append-only: what was said once is said in the same bytes in every later request, so that what a
provider has cached or signed stays valid.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import msgspec

from app.models.interface import ProviderState, ToolCall, ToolSpec

# Told in the next message of the person: in the answer itself, models would imitate it.
INTERRUPTED = "[Your previous answer was interrupted before it was complete.]"
NOTHING_SAID = "[Your previous answer was interrupted before it began.]"
NO_RESULT = "Error: no result of this call was recorded; it may or may not have happened."

# What providers take as an image; everything else that is attached is text.
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def replayed(state: ProviderState | None, provider: str, model: str) -> Any:
    """The data of a state that is this model's own; None for any other."""
    if state is None or (state.provider, state.model) != (provider, model):
        return None
    return state.data


def wire_ids(calls: Sequence[ToolCall]) -> dict[str, str]:
    """The provider's own ids where it gave each call one, ours where it left out or repeated."""
    given = [call.provider_id for call in calls]
    return {
        call.id: call.provider_id
        if call.provider_id and given.count(call.provider_id) == 1
        else call.id
        for call in calls
    }


def call_input(call: ToolCall) -> dict[str, Any]:
    """The input as the object that providers expect; anything else the model made up."""
    return call.input if isinstance(call.input, dict) else {"input": call.input}


def output_text(output: Any) -> str:
    """A tool's result as text: itself, else JSON."""
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()


def image_of(part: Mapping[str, Any]) -> tuple[str, bytes] | None:
    """Media type and bytes, if the part is an image that providers take."""
    data, kind = part.get("data"), part.get("mediaType")
    if part.get("type") == "file" and kind in IMAGES and isinstance(data, bytes):
        return str(kind), data
    return None


def part_text(part: Mapping[str, Any]) -> str:
    """What a part says in words: its text, or a text file with its name around it."""
    if part.get("type") == "text":
        return str(part["text"])
    name = part.get("name") or part.get("mediaType") or part.get("type")
    data = part.get("data")
    if isinstance(data, bytes) and str(part.get("mediaType", "")).startswith("text/"):
        text = data.decode("utf-8", "replace")
        return f'<file name="{escape(str(name))}">\n{text}\n</file>'
    return f"[An attachment that this model cannot see: {name}]"


def declared(tools: Sequence[ToolSpec], called: Sequence[ToolCall]) -> list[ToolSpec]:
    """The tools, or, where there are none any more, those that the conversation shows.

    Some providers refuse a conversation with calls in it if the request declares no tools.
    """
    if tools:
        return [*tools]
    names = dict.fromkeys(tool_name(call.name) for call in called)
    return [ToolSpec(name, "Not available any more.", {"type": "object"}) for name in names]


def tool_name(name: str) -> str:
    """A name as every provider takes it back: models make up others."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "_"
