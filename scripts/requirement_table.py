"""The ids of docs/requirements.md, the one list of what the product must do.

Read by the tests' conftest, which refuses ids that are not in it, and by `scripts/requirements`.
"""

import re
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "docs" / "requirements.md"

_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", re.MULTILINE)

# An id as a word of a test's title: "F3: resumes after the last event it applied (O2)".
_MENTION = re.compile(r"\b[A-Z]\d+\b")


def requirements(table: Path = TABLE) -> dict[str, str]:
    """Each id with its behaviour, in the order of the table."""
    return dict(_ROW.findall(table.read_text(encoding="utf-8")))


def mentioned(title: str, known: dict[str, str]) -> list[str]:
    """The known ids that a test's title names, each once."""
    return [name for name in dict.fromkeys(_MENTION.findall(title)) if name in known]
