"""The folder that a single-file Unbroken was unpacked into (scripts/launcher.py).

A process holds a lock on its folder while it runs: the folder is kept, also by systemd-tmpfiles,
which respects such locks. Folders of other versions, long unused, are removed.

A new folder is named for its content and for the boot of the machine, which a power cut ends. Once
all of it is on the disk, a link named for the content alone leads to it, and it is good for ever.
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
_NAMES = re.compile(r"(?P<content>[0-9a-f]{16})(-(?P<boot>[0-9a-f-]{36}))?|\.(new|old)-[\w-]+")
_BOOT = Path("/proc/sys/kernel/random/boot_id")

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
    own = _own()
    if own is None:
        return
    try:
        handle = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
        _held.append(handle)
        fcntl.flock(handle, fcntl.LOCK_SH)
        os.utime(own)
        sweep(own, time.time(), _BOOT.read_text("ascii").strip())
    except OSError:
        pass


def secure() -> None:
    """Have our folder on the disk, so that it outlives this boot. Blocks for as long as that takes.

    Never raises: what is not secured is unpacked again after the next boot.
    """
    own = _own()
    name = own and _NAMES.fullmatch(own.name)
    if not own or not name or not name["boot"]:
        return
    link = own.with_name(name["content"])
    if link.exists():
        return
    try:
        for path in [*own.rglob("*"), own, own.parent]:
            _sync(path)
        link.symlink_to(own.name)
    except OSError:
        pass


def sweep(own: Path, now: float, boot: str) -> None:
    """Remove the neighbours of `own` that nobody holds and that are of no more use.

    Args:
        now: seconds since 1970.
        boot: the id of this one; what was unpacked in another and not secured cannot be relied on.
    """
    links = [path for path in own.parent.iterdir() if path.is_symlink()]
    secured = {path.readlink().name for path in links}
    for folder in own.parent.iterdir():
        name = _NAMES.fullmatch(folder.name)
        if folder == own or folder.is_symlink() or not name:
            continue
        limit = UNFINISHED_SECONDS if folder.name.startswith(".") else KEEP_SECONDS
        lost = name["boot"] not in (None, boot) and folder.name not in secured
        if lost or now - folder.stat().st_mtime > limit:
            _remove(folder)
    for link in links:
        if not link.exists():
            link.unlink(missing_ok=True)


def _own() -> Path | None:
    """None: no launcher unpacked us."""
    return Path(sys.executable).resolve().parent if EXECUTABLE in os.environ else None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
