"""What the scripts' steps are made of: the checkout's places, stamps, processes, words."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CLIENT = ROOT / "web" / "client"
PAGE = ROOT / "web" / "static"
CACHE = ROOT / ".cache"

# What a full test run proved, written by pytest and by vitest for `scripts/requirements`.
PYTHON_REPORTS = CACHE / "requirements-rooms.json", CACHE / "requirements.json"
JAVASCRIPT_REPORT = CACHE / "vitest.json"


class SetupError(Exception):
    """Something is missing or failed; its text is a sentence for the person at the terminal."""


def say(text: str) -> None:
    """A line of progress. On stderr: stdout belongs to the program."""
    print(text, file=sys.stderr, flush=True)


class Stamp:
    """A file that says for which inputs a piece of work was done."""

    def __init__(self, path: Path, value: str) -> None:
        self.path = path
        self.value = value

    def holds(self) -> bool:
        try:
            return self.path.read_text(encoding="ascii") == self.value
        except FileNotFoundError:
            return False

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.value, encoding="ascii")


def digest(*parts: str | Path) -> str:
    """One digest over texts and the contents of files; a folder stands for all that is in it."""
    total = hashlib.sha256()
    for part in parts:
        for name, content in _contents(part):
            total.update(f"{len(name)}:{len(content)}:{name}:".encode())
            total.update(content)
    return total.hexdigest()


def _contents(part: str | Path) -> Iterator[tuple[str, bytes]]:
    if isinstance(part, str):
        yield "", part.encode()
    elif part.is_dir():
        for folder, folders, files in os.walk(part):
            folders[:] = sorted(name for name in folders if name != "node_modules")
            for name in sorted(files):
                path = Path(folder, name)
                yield str(path.relative_to(part)), path.read_bytes()
    else:
        yield part.name, part.read_bytes()


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    stdout: int | None = None,
) -> None:
    """Run a step of the preparation.

    Raises:
        SetupError: It failed; what it had to say is on the terminal already.
    """
    child = env or child_environment()
    # What may be inherited is: the lock of the preparation (environment.py).
    done = subprocess.run(command, cwd=cwd, env=child, stdout=stdout, close_fds=False, check=False)
    if done.returncode != 0:
        raise SetupError(f"{' '.join(map(str, command[:4]))} … failed ({done.returncode})")


def child_environment() -> dict[str, str]:
    """Our variables for a program of the environment.

    Bytecode is written even where the machine forbids it: otherwise each start compiles everything.
    """
    child = {**os.environ, "VIRTUAL_ENV": str(VENV)}
    child["PATH"] = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    child.pop("PYTHONDONTWRITEBYTECODE", None)
    child.pop("PYTHONHOME", None)
    return child
