"""A conversation as a file a person reads. Pure."""

from app.message import Part, text_of
from app.threads import MessageView, Snapshot


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
        if turn is not None and turn.state not in ("finished", "running", "queued"):
            blocks.append(f"*({turn.state})*")
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
    return f"*Tool {part['toolName']}: {part['state']}*"
