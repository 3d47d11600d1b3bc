"""Which program this is: its version, the commit it was made from, the libraries it runs on."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

PROJECT = "unbroken"
GIT_SECONDS = 5.0


def commit() -> str | None:
    """The commit, with "-changed" after it where the files differed from it; None: not known.

    Wheels and binaries hold it in a file that the build wrote; a checkout asks git.
    """
    baked = files("app") / "commit.txt"
    if baked.is_file():
        return baked.read_text("ascii").strip()
    root = Path(__file__).resolve().parents[1]
    return of_checkout(root) if (root / ".git").exists() else None


def of_checkout(root: Path) -> str | None:
    """The commit of a git checkout; None without git. The build asks here as well."""
    git = ["git", "-C", str(root)]
    try:
        head = _output([*git, "rev-parse", "--verify", "HEAD"])
        changed = _output([*git, "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head}-changed" if changed else head


def _output(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True, encoding="utf-8"
    )
    return done.stdout.strip()


def distributions() -> Iterator[Distribution]:
    """Ours first, then all that it needs and that is installed, by name.

    What a marker leaves out (another system, an extra nobody asked for) is not installed, or is
    there for a reason of its own: then it is listed too.
    """
    found: dict[str, Distribution] = {}
    wanted = [PROJECT]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        wanted += [_name(text) for text in found[name].requires or () if "extra ==" not in text]
    yield found.pop(PROJECT)
    yield from (found[name] for name in sorted(found))


def _name(requirement: str) -> str:
    """The normalised name at the start of a requirement (PEP 508, PEP 503)."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def text() -> str:
    """What `unbroken --version` prints."""
    import ssl

    from store.backup import SQLITE_VERSION

    ours, *others = distributions()
    python = ".".join(map(str, sys.version_info[:3]))
    openssl = ssl.OPENSSL_VERSION.split()[1]
    libraries = ", ".join(f"{found.name} {found.version}" for found in others)
    return (
        f"unbroken {ours.version}, commit {commit() or 'unknown'}\n"
        f"Python {python}, SQLite {SQLITE_VERSION}, OpenSSL {openssl}\n"
        f"{libraries}"
    )
