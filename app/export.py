"""A conversation as a file a person reads. Pure."""

import unicodedata

import msgspec

from app.message import Part, text_of
from app.threads import MessageView, Snapshot, TurnView

# File systems take 255 bytes, encrypted ones 143; a person reads half a line of it.
NAME_BYTES = 120
UNTITLED = "conversation"
# Of paths, of shells, and what Windows takes in no name.
_FORBIDDEN = frozenset('<>:"/\\|?*')
# Joiners are part of words and emoji; all other marks without a shape can only deceive.
_JOINERS = "\u200c\u200d"
_DEVICES = {"CON", "PRN", "AUX", "NUL"} | {f"{n}{i}" for n in ("COM", "LPT") for i in range(10)}


def file_name(title: str) -> str:
    """The title as a name that every file system takes, without an ending."""
    shapely = "".join(map(_plain, unicodedata.normalize("NFC", title)))
    cut = " ".join(shapely.split()).encode()[:NAME_BYTES].decode(errors="ignore")
    # Dots in front hide a file, at the end Windows drops them; a dash in front is an option.
    name = cut.strip(f" .{_JOINERS}").lstrip("-. ")
    if name.partition(".")[0].strip().upper() in _DEVICES:
        return f"_{name}"
    return name or UNTITLED


def _plain(character: str) -> str:
    kind = unicodedata.category(character)
    if character in _FORBIDDEN or kind in ("Cc", "Zl", "Zp"):
        return " "
    return "" if kind.startswith("C") and character not in _JOINERS else character


def as_markdown(snapshot: Snapshot) -> str:
    """The selected branch, oldest first; thinking is left out, tool calls are named."""
    blocks = [f"# {snapshot.thread.title}"]
    for message in branch(snapshot):
        if message.role == "user":
            blocks += ["## You", _question(message.parts)]
            continue
        turn = message.turn
        blocks.append(f"## {turn.model if turn else 'Answer'}")
        blocks += [_answer(part) for part in message.parts if part["type"] in ("text", "tool")]
        if turn is not None:
            blocks.append(_end(turn))
    return "\n\n".join(block for block in blocks if block) + "\n"


def branch(snapshot: Snapshot) -> list[MessageView]:
    """The messages from the root to the selected leaf."""
    by_id = {message.id: message for message in snapshot.messages}
    path: list[MessageView] = []
    message = by_id.get(snapshot.thread.leaf or "")
    while message is not None:
        path.append(message)
        message = by_id.get(message.parent or "")
    return path[::-1]


def _question(parts: list[Part]) -> str:
    files = [f"*Attached: {part['name']}*" for part in parts if part["type"] == "file"]
    return "\n\n".join([text_of(parts), *files])


def _answer(part: Part) -> str:
    if part["type"] == "text":
        return str(part["text"])
    state = _TOOL_STATES.get(part["state"], "failed")
    return _note(
        ": ".join(filter(None, (f"Tool {part['toolName']}", state, part.get("errorText"))))
    )


_TOOL_STATES = {
    "input-streaming": "not run",
    "input-available": "not run",
    "running": "running",
    "output-available": "done",
}


class _Outcome(msgspec.Struct):
    """What is said of an end; the rest of it is left aside."""

    outcome: str
    code: str
    text: str


def _end(turn: TurnView) -> str:
    """Why there is no more; "" for an answer that is complete."""
    if turn.outcome is None:
        return _note("Still being written." if turn.state == "running" else "Not answered yet.")
    end = msgspec.json.decode(bytes(turn.outcome), type=_Outcome)
    if end.outcome == "failed":
        return _note(f"The answer failed ({end.code}): {end.text}")
    return _note(end.text)


def _note(text: str) -> str:
    """Words about the conversation, which nobody in it said."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
