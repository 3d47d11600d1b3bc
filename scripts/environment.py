"""Makes a working checkout of a fresh clone: the environment, the packages, the page.

Shared by the scripts beside it. It runs on the system's own Python before anything is installed, so
it uses the standard library alone. Each piece of work has a stamp: a file, written last, with a
digest of all that the work depends on. A start with nothing to do reads a few files and costs
milliseconds; work that was broken off is done again.
"""

import sys

# Before anything that an older Python cannot read; this file itself keeps to an old syntax.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        f"Unbroken needs Python 3.11 or newer; this is {sys.version.split()[0]}.\n"
        f"Start it with a newer one, for example: python3.12 {sys.argv[0]}"
    )

import contextlib
import fcntl
import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import page
from step import CACHE, ROOT, VENV, SetupError, Stamp, child_environment, digest, run, say

# The tools that install and build (uv, hatchling), then what the program imports, then what its
# tests and checks need besides. `scripts/lock` writes all three.
BUILD_LOCK = ROOT / "requirements-build.lock"
RUNTIME_LOCK = ROOT / "requirements.lock"
DEVELOPMENT_LOCK = ROOT / "requirements-dev.lock"

# Stands in the environment while it changes. An environment in which it is found is made anew: an
# installer that was killed leaves packages that look complete.
UNFINISHED = ".unfinished"


# The command line


def main(command: Callable[[list[str]], int], *, own_help: bool = False) -> NoReturn:
    """Run a script's body with the command line's arguments and exit with what it returns.

    Args:
        own_help: The body knows what to do with `--help`; else it prints the script's docstring.
    """
    arguments = sys.argv[1:]
    if not own_help and arguments[:1] in (["--help"], ["-h"]):
        print(sys.modules["__main__"].__doc__)
        sys.exit(0)
    try:
        sys.exit(command(arguments))
    except SetupError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT, as a shell reports it


def become(program: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a program of the environment, so that signals reach it."""
    path = VENV / "bin" / program
    os.execve(path, [str(path), *arguments], child_environment())


# Making ready


def prepare(packages: Path | None, *, with_client: bool = False, with_page: bool = False) -> None:
    """Install and build what is not up to date.

    Args:
        packages: The lock of the Python packages that are needed; None: no Python at all.
        with_client: With the JavaScript packages of the page.
        with_page: With the page, for which Node must be there unless it is built already.

    Raises:
        SetupError: A tool is missing or an installation failed.
    """
    if not _todo(packages, with_client, with_page):
        return
    with _exclusive():
        started = time.monotonic()
        for step in _todo(packages, with_client, with_page):  # another script may have done some
            step()
        say(f"Ready after {time.monotonic() - started:.0f} s.")


def _todo(packages: Path | None, with_client: bool, with_page: bool) -> list[Callable[[], None]]:
    """The steps that are not done, in their order."""
    client = with_client and not page.client_stamp().holds()
    build = with_page and not page.is_built()
    steps: list[Callable[[], None]] = []
    if client or build:
        steps.append(page.check_node)  # before the long part
    if packages is not None and not _environment_is_ready(packages):
        steps.append(lambda: _install(packages))
    if client:
        steps.append(page.install_client)
    if build:
        steps.append(page.build)
    return steps


@contextlib.contextmanager
def _exclusive() -> Iterator[None]:
    """One script at a time changes the checkout.

    The installers that `run` starts inherit the lock, so it ends when the last of them has ended,
    also if this process is killed and they go on.
    """
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "prepare.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another script to finish its installation.")
            fcntl.flock(file, fcntl.LOCK_EX)
        os.set_inheritable(file.fileno(), True)
        yield


# Python


def python() -> Path:
    """The environment's interpreter."""
    return VENV / "bin" / "python"


def _environment_is_ready(packages: Path) -> bool:
    return _is_usable() and _packages_stamp(packages).holds() and _project_stamp().holds()


def _is_usable() -> bool:
    # The interpreter is a link: an upgrade of the system's Python can take away what it leads to.
    return python().exists() and not (VENV / UNFINISHED).exists() and _tools_stamp().holds()


def _tools_stamp() -> Stamp:
    return Stamp(VENV / ".stamp-tools", digest(str(ROOT), BUILD_LOCK))  # ROOT: it cannot be moved


def _packages_stamp(packages: Path) -> Stamp:
    return Stamp(VENV / f".stamp-{packages.stem}", digest(packages))


def _project_stamp() -> Stamp:
    return Stamp(VENV / ".stamp-project", digest(ROOT / "pyproject.toml"))


def _install(packages: Path) -> None:
    if not _is_usable():
        _create_environment()
    (VENV / UNFINISHED).touch()
    stamp = _packages_stamp(packages)
    if not stamp.holds():
        say(f"Installing the packages of {packages.name}")
        _uv_install("--require-hashes", "--requirements", packages)
        stamp.write()
    stamp = _project_stamp()
    if not stamp.holds():
        # Without isolation: the build backend is the one of the lock, nothing unhashed is fetched.
        _uv_install("--no-deps", "--no-build-isolation", "--editable", ROOT)
        stamp.write()
    (VENV / UNFINISHED).unlink()


def _create_environment() -> None:
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        raise SetupError(
            f"this Python ({sys.executable}) cannot create environments: its venv or ensurepip "
            "module is missing. On Debian and Ubuntu: apt install python3-venv"
        )
    say(f"Creating .venv with Python {sys.version_info[0]}.{sys.version_info[1]}")
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", VENV])
    # Twice quiet: errors only, not the state of this machine's indexes.
    pip: list[str | Path] = [python(), "-m", "pip", "-qq", "--disable-pip-version-check"]
    run([*pip, "install", "--require-hashes", "--requirement", BUILD_LOCK])
    _tools_stamp().write()


def _uv_install(*arguments: str | Path) -> None:
    # Compiled now: compiling at each start costs a second where PYTHONDONTWRITEBYTECODE is set.
    uv: list[str | Path] = [VENV / "bin" / "uv", "pip", "install", "--quiet"]
    run([*uv, "--python", python(), "--compile-bytecode", *arguments])
