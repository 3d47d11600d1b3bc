"""Finds what must not be in a tracked file: a package registry's address, a machine's path.

A lock or a page with such a thing in it works on one machine and fails on the next.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

# A class of one letter in each, so that none matches the text of this file.
_LEAK = re.compile(
    r"pyp[i]\.org|pythonhoste[d]|npmj[s]\.|yarnpk[g]\.|deb\.debia[n]|ubunt[u]\.com/"
    r"|/wor[k]/|/far[m]/|/roo[t]/|/hom[e]/\w|/User[s]/\w|/opt/whee[l]s"
)


def in_text(text: str) -> Iterator[tuple[int, str]]:
    """Each line with a leak: its number, from 1, and what was found."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in _LEAK.finditer(line):
            yield number, found[0]


def in_tracked_files(root: Path) -> list[str]:
    """`file:line: what` for each leak in the files that git tracks; none outside a git checkout."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\0")
    found = []
    for name in filter(None, names):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # a picture; or deleted and not yet committed
        found += [f"{name}:{number}: {what}" for number, what in in_text(text)]
    return found
