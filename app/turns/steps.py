"""What the model sees: the thread's history and the turn's own steps. Pure.

Append-only and built from records kept verbatim, so that the same prefix gives the same bytes in
each request, also after a recovery.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import structlog

from app import events as ev
from app.message import Part
from app.models.interface import (
    AssistantStep,
    Entry,
    ToolCall,
    ToolResult,
    ToolResults,
    UserEntry,
)
from store.attachments import AttachmentRow
from store.messages import MessageRow

log = structlog.get_logger()

UNKNOWN_RESULT = "Interrupted. It is not known whether this call had its effect."


class StepRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One complete model response as the `step` table keeps it."""

    step: AssistantStep
    finish_reason: ev.FinishReason
    usage: ev.Usage | None = None


def encode_step(record: StepRecord) -> bytes:
    return msgspec.json.encode(record)


def decode_step(data: bytes) -> StepRecord:
    return msgspec.json.decode(data, type=StepRecord)


def history(
    path: Sequence[MessageRow],
    steps: dict[str, list[bytes]],
    files: dict[str, AttachmentRow],
) -> list[Entry]:
    """The entries of a branch, oldest first.

    Args:
        path: the messages of the branch, up to the question.
        steps: step records by turn id.
        files: what is attached on this branch, by id.
    """
    entries: list[Entry] = []
    for row in path:
        parts: list[Part] = json.loads(row.parts)
        if row.role == "user":
            entries.append(UserEntry([_with_data(part, files) for part in parts]))
        else:
            entries += answer_entries(_readable(steps.get(row.id, [])), parts)
    return entries


def _readable(steps: Iterable[bytes]) -> list[StepRecord]:
    """The records up to the first that cannot be read: what an earlier answer loses by that must
    not be lost to all later ones too; its text is told as that of a cut one."""
    records: list[StepRecord] = []
    try:
        for data in steps:
            records.append(decode_step(data))
    except msgspec.DecodeError as error:
        log.error("a step of an earlier answer cannot be read", error=str(error))
    return records


def attached(path: Sequence[MessageRow]) -> list[str]:
    """Ids of the attachments of a branch."""
    parts = (part for row in path if row.role == "user" for part in json.loads(row.parts))
    return [part["attachment"] for part in parts if part["type"] == "file"]


def _with_data(part: Part, files: dict[str, AttachmentRow]) -> Part:
    """A file part with its bytes as `data`; a text part as it is."""
    row = files.get(part.get("attachment", ""))
    return part if row is None else {**part, "data": row.data}


def answer_entries(records: Sequence[StepRecord], parts: Sequence[Part]) -> list[Entry]:
    """An earlier answer: its complete steps, the results of its tools, and what was cut short."""
    results = tool_results(parts)
    entries = step_entries(records, results)
    rest = _after_step(parts, len(records))
    text = "".join(part["text"] for part in rest if part["type"] == "text")
    if text:
        entries.append(AssistantStep(text, interrupted=True))
    return entries


def step_entries(records: Sequence[StepRecord], results: dict[str, ToolResult]) -> list[Entry]:
    """Steps, each with the results of its calls; a call without one is told as unknown."""
    entries: list[Entry] = []
    for record in records:
        entries.append(record.step)
        if record.step.calls:
            found = [results.get(call.id) or _unknown(call) for call in record.step.calls]
            by_call = zip(found, record.step.calls, strict=True)
            entries.append(ToolResults([ToolResult(c, r.output, r.is_error) for r, c in by_call]))
    return entries


def tool_results(parts: Iterable[Part]) -> dict[str, ToolResult]:
    """Results by call id, for every call that is settled, also with an error."""
    found: dict[str, ToolResult] = {}
    for part in parts:
        if part["type"] != "tool":
            continue
        call = ToolCall(part["toolCallId"], part["toolName"], part.get("input"))
        output: Any
        if part["state"] == "output-available":
            found[call.id] = ToolResult(call, part.get("output"))
        elif part["state"] in ("output-error", "input-error"):
            output = UNKNOWN_RESULT if part.get("unknown") else part.get("errorText", "")
            found[call.id] = ToolResult(call, output, is_error=True)
    return found


def _after_step(parts: Sequence[Part], complete: int) -> list[Part]:
    """The parts that follow the `complete`-th step."""
    seen = 0
    for index, part in enumerate(parts):
        if part["type"] == "step-start":
            seen += 1
            if seen > complete:
                return list(parts[index:])
    return []


def last_step(parts: Sequence[Part]) -> list[Part]:
    """The parts after the last step-start."""
    starts = [index for index, part in enumerate(parts) if part["type"] == "step-start"]
    return list(parts[starts[-1] + 1 :]) if starts else []


def _unknown(call: ToolCall) -> ToolResult:
    return ToolResult(call, UNKNOWN_RESULT, is_error=True)
