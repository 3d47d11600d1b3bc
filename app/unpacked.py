"""The folder that a single-file Unbroken was unpacked into (scripts/launcher.py).

A process holds a lock on its folder while it runs: the folder is kept, also by systemd-tmpfiles,
which respects such locks. Folders of other versions, long unused, are removed.
"""

import fcntl
import os
import re
import shutil
import sys
import time
from pathlib import Path

# Set by the launcher: the file that the person has.
EXECUTABLE = "UNBROKEN_EXECUTABLE"
# An older version may be started again; its folder is made anew within a second.
KEEP_SECONDS = 30 * 24 * 3600.0
# No unpacking takes nearly as long.
UNFINISHED_SECONDS = 3600.0

# Of the launcher's folders: complete, being unpacked, being removed.
_NAMES = re.compile(r"[0-9a-f]{16}|\.(new|old)-\w+")

_held: list[int] = []  # open to the end of the process


def settle() -> None:
    """What a frozen program does first; a program that is not frozen has nothing to do."""
    if getattr(sys, "frozen", False):
        _free_children()
        hold()


def _free_children() -> None:
    """Programs that we start use the system's libraries, not those we brought for ourselves."""
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before


def hold() -> None:
    """Keep our folder, remove old ones; without a launcher there is none to keep.

    Never raises: what cannot be removed now can be removed by the next start.
    """
    if EXECUTABLE not in os.environ:
        return
    own = Path(sys.executable).parent
    try:
        handle = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
        _held.append(handle)
        fcntl.flock(handle, fcntl.LOCK_SH)
        os.utime(own)
        sweep(own, time.time())
    except OSError:
        pass


def sweep(own: Path, now: float) -> None:
    """Remove the neighbours of `own` that nobody holds and that are old, by their time of use.

    Args:
        now: seconds since 1970.
    """
    for folder in own.parent.iterdir():
        if folder == own or not _NAMES.fullmatch(folder.name):
            continue
        limit = UNFINISHED_SECONDS if folder.name.startswith(".") else KEEP_SECONDS
        if now - folder.stat().st_mtime > limit:
            _remove(folder)


def _remove(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Renamed first: a start from now on finds none and unpacks, instead of half of one.
        gone = folder.with_name(f".old-{folder.name.lstrip('.')}")
        folder.rename(gone)
        shutil.rmtree(gone)
    except BlockingIOError:
        pass  # a process runs from it
    finally:
        os.close(handle)
