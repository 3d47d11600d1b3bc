"""The single file: a shell script, and after its last line the program as two tar.gz.

PyInstaller's own single file unpacks into a new temporary folder at each start and keeps a second
process to remove it. Killed, that process leaves the folder (51 MB) and an orphan that serves on.
This one unpacks once, into a folder named for the content, and becomes the program. Inflating takes
most of that, so it is done by two processes, a half each; waiting for the disk is left to the
server, once it answers.
"""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# app/unpacked.py knows the names of the folders and the variable.
SCRIPT = r"""#!/bin/sh
# Unbroken @VERSION@ for Linux on @MACHINE@, glibc 2.@GLIBC@ or newer: this script, and after its
# last line the program as two tar.gz. The first start unpacks them, below ~/.cache or
# XDG_CACHE_HOME; each start becomes the program in there: one process, so signals reach it.
set -u
key=@KEY@
first_line=@FIRST_LINE@
half=@HALF@ # bytes of the first tar.gz

fail() {
  echo "unbroken: $*" >&2
  exit 1
}

# What the system says of a C library that is too old helps nobody.
check_system() {
  [ "$(uname -s)" = Linux ] && [ "$(uname -m)" = @MACHINE@ ] ||
    fail "this file is for Linux on @MACHINE@; this is $(uname -s) on $(uname -m)."
  command -v getconf >/dev/null || return 0
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || glibc=
  minor=${glibc#glibc 2.}
  case ${minor%%.*} in
    '' | *[!0-9]*) fail "this system has no glibc, which this file needs. $instead" ;;
  esac
  [ "${minor%%.*}" -ge @GLIBC@ ] ||
    fail "this file needs glibc 2.@GLIBC@ or newer; this system has $glibc. $instead"
}
newline="
"
instead="Install Unbroken with uv or pipx instead, see the README."

# A folder of our own. In one that all may write to, somebody else may have made it first.
ours() {
  [ -d "$1" ] && [ -O "$1" ] && [ ! -L "$1" ]
}

halves() { # of what is packed, at the same time, into $1
  {
    tail -n "+$first_line" -- "$self" | head -c "$half" | tar -xzf - -C "$1" && echo complete
  } | {
    tail -n "+$first_line" -- "$self" | tail -c "+$((half + 1))" | tar -xzf - -C "$1" &&
      read -r first && [ "$first" = complete ]
  }
}

unpack() { # into $1/$unpacked; says why not in $problem
  mkdir -p "$1" 2>/dev/null && chmod 700 "$1" 2>/dev/null && ours "$1" &&
    new=$(mktemp -d "$1/.new-XXXXXX" 2>/dev/null) || {
    problem="$1 is not a folder that we can write to"
    return 1
  }
  trap 'rm -rf "$new"' EXIT
  trap 'exit 1' HUP INT TERM
  if ! problem=$(halves "$new" 2>&1); then
    problem=${problem#"$newline"} # gzip begins with one
    problem="is the disk full, or this file incomplete? ${problem%%"$newline"*}"
  elif [ ! -x "$new/unbroken/unbroken" ]; then
    problem="$1 is on a file system that runs no programs"
  else
    [ -n "$boot" ] || sync
    # Where another start was faster, this fails: a file named as our folder is in its folder.
    mv "$new/unbroken" "$1/$unpacked" 2>/dev/null
    problem=
  fi
  rm -rf "$new"
  trap - EXIT HUP INT TERM
  [ -z "$problem" ]
}

case $0 in
  /*) self=$0 ;;
  */*) self=$PWD/$0 ;;
  *) self=$(command -v -- "$0") || fail "call this file by its path." ;;
esac
# After a power cut a file may be empty that was whole before. So what is unpacked is named for the
# boot as well, until the program has it on the disk and adds the name $key (app/unpacked.py).
boot=
{ read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
unpacked=$key${boot:+-$boot}
problems=
checked=
for folder in "${XDG_CACHE_HOME:-${HOME:-}/.cache}/unbroken" "${TMPDIR:-/tmp}/unbroken-$(id -u)"; do
  if ours "$folder" && [ -x "$folder/$key/unbroken" ]; then
    name=$key
  else
    name=$unpacked
    if ! ours "$folder" || [ ! -x "$folder/$name/unbroken" ]; then
      [ -n "$checked" ] || check_system
      checked=yes
      unpack "$folder" || {
        problems="$problems$folder: $problem. "
        continue
      }
    fi
  fi
  UNBROKEN_EXECUTABLE=$self
  export UNBROKEN_EXECUTABLE
  exec "$folder/$name/unbroken" "$@"
done
fail "cannot unpack itself. ${problems}XDG_CACHE_HOME names another place."
"""
TOP = "unbroken"


@dataclass(frozen=True)
class Target:
    """What the program inside runs on. `glibc`: 35 for 2.35."""

    version: str
    machine: str
    glibc: int


def pack(folder: Path, file: Path, target: Target) -> None:
    """Write the single file that carries `folder`, in which is the program `unbroken`.

    The same folder gives the same file, byte for byte.
    """
    halves = [gzip.compress(_archive(folder, paths), 9, mtime=0) for paths in _halves(folder)]
    payload = b"".join(halves)
    values = {
        "VERSION": target.version,
        "MACHINE": target.machine,
        "GLIBC": str(target.glibc),
        "KEY": hashlib.sha256(payload).hexdigest()[:16],
        "FIRST_LINE": str(SCRIPT.count("\n") + 1),
        "HALF": str(len(halves[0])),
    }
    script = SCRIPT
    for name, value in values.items():
        script = script.replace(f"@{name}@", value)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.write_bytes(script.encode() + payload)
    unfinished.chmod(0o755)
    unfinished.replace(file)


def _halves(folder: Path) -> tuple[list[Path], list[Path]]:
    """All that is in the folder, in two parts that take about as long to unpack."""
    paths = sorted(folder.rglob("*"))
    folders = [folder, *(path for path in paths if path.is_dir() and not path.is_symlink())]
    files = [path for path in paths if path not in set(folders)]
    halves, sizes = (list(folders), list(folders)), [0, 0]
    for file in sorted(files, key=lambda path: (-path.lstat().st_size, path)):
        smaller = sizes.index(min(sizes))
        halves[smaller].append(file)
        sizes[smaller] += file.lstat().st_size
    return halves


def _archive(folder: Path, paths: Iterable[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in paths:
            name = Path(TOP, path.relative_to(folder))
            archive.add(path, str(name), recursive=False, filter=_anonymous)
    return buffer.getvalue()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what differs from one build to the next, or tells of the machine."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry
