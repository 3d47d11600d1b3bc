"""Unbroken as a service of the person's own systemd: starts at login, started again if it fails."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import AppError
from app.unpacked import EXECUTABLE

NAME = "unbroken.service"
SYSTEMCTL_SECONDS = 60.0
# What a living systemd says of itself; degraded: some other unit failed.
ALIVE = ("running", "degraded", "starting", "initializing")
# Options of `unbroken serve` that name a file or folder.
PATHS = ("config", "data", "token_file", "cert", "key")
NOT_REACHED = "systemd cannot be reached from here."
# Above the default grace of turns and the time the edge and the store take at most.
STOP_SECONDS = 60

UNIT = """\
# Written by `unbroken service install`; `unbroken service uninstall` removes it.
[Unit]
Description=Unbroken, a chat server for AI agents
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
ExecStart={command}
WorkingDirectory={folder}
# Keys of models, as NAME=value lines: the variables of a shell do not reach a service.
EnvironmentFile=-{environment}
Restart=on-failure
RestartSec=2
TimeoutStopSec={stop}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


class ServiceError(AppError):
    """The service cannot be installed or removed; the text says why."""

    code = "SERVICE_FAILED"


@dataclass(frozen=True)
class Report:
    """What was done or found: lines for the person, and whether all is well."""

    lines: list[str]
    good: bool = True


@dataclass(frozen=True)
class Places:
    """Where systemd looks for a person's units, and where the service's variables are."""

    unit: Path
    environment: Path

    @classmethod
    def of_user(cls) -> "Places":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return cls(config / "systemd" / "user" / NAME, config / "unbroken" / "environment")


def program() -> list[str]:
    """The command that starts this program again, as it was installed."""
    if file := os.environ.get(EXECUTABLE):
        return [file]
    if getattr(sys, "frozen", False):
        return [sys.executable]
    script = Path(sys.argv[0])
    if script.name == "unbroken" and (found := shutil.which(script)):
        # Not resolved: the link of pipx or uv outlives the version that it leads to now.
        return [os.path.abspath(found)]
    return [sys.executable, "-m", "app"]


def arguments(config: Path | None, given: Mapping[str, Any]) -> list[str]:
    """The options of `unbroken serve` once more, as words that hold in any folder.

    Args:
        given: by parameter name; None: not given.
    """
    given = {"config": config, **given}
    words: list[str] = []
    for name, value in given.items():
        if value is not None:
            path = os.path.abspath(os.path.expanduser(value)) if name in PATHS else str(value)
            words += [f"--{name.replace('_', '-')}", path]
    return words


def found(config: Path) -> Path | None:
    """The file, if it is there: a service starts in another folder and would not see it."""
    return config if config.is_file() else None


def render(command: Sequence[str], folder: Path, environment: Path) -> str:
    """The unit's text."""
    return UNIT.format(
        command=" ".join(map(quoted, command)),
        folder=_without_specifiers(str(folder)),
        environment=_without_specifiers(str(environment)),
        stop=STOP_SECONDS,
    )


def quoted(word: str) -> str:
    """A word of a command line as systemd reads it (systemd.service(5), "Command lines")."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_without_specifiers(escaped)}"'


def _without_specifiers(text: str) -> str:
    return text.replace("%", "%%")


# The three commands


def install(places: Places, arguments: Sequence[str], folder: Path) -> Report:
    """Write the unit and, where systemd can be reached, start it, now and at each login.

    Args:
        arguments: of `unbroken serve`.
        folder: in which the service runs; unbroken.toml is looked for there.

    Raises ServiceError.
    """
    command = [*program(), "serve", *arguments]
    text = render(command, folder, places.environment)
    try:
        places.unit.parent.mkdir(parents=True, exist_ok=True)
        places.unit.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ServiceError(f"{places.unit} cannot be written: {error.strerror}") from None
    lines = [f"Written: {places.unit}"]
    if not _reachable():
        todo = ["  systemctl --user daemon-reload", f"  systemctl --user enable --now {NAME}"]
        return Report(
            [*lines, "systemd cannot be reached from here. In a session of yours:", *todo]
        )
    _systemctl("daemon-reload")
    _systemctl("enable", NAME)
    _systemctl("restart", NAME)  # also one that ran with an older unit
    return Report(
        [
            *lines,
            "Started, and from now on at each login.",
            "  see it:            unbroken service status",
            f"  its log:           journalctl --user --unit {NAME}",
            "  without a login:   loginctl enable-linger",
            f"  keys of models:    {places.environment}",
        ]
    )


def uninstall(places: Places) -> Report:
    """Stop the service and remove its unit. The data stays. Raises ServiceError."""
    if not places.unit.exists():
        return Report([f"There is no {places.unit}: nothing to remove."])
    reachable = _reachable()
    if reachable:
        _systemctl("disable", "--now", NAME)
    try:
        places.unit.unlink()
    except OSError as error:
        raise ServiceError(f"{places.unit} cannot be removed: {error.strerror}") from None
    if reachable:
        _systemctl("daemon-reload")
    return Report([f"Removed: {places.unit}", "Your data is still there."])


def status(places: Places) -> Report:
    """Whether it is installed and running; good only if both."""
    if not places.unit.exists():
        return Report(["Not installed: `unbroken service install` does it."], good=False)
    lines = [f"Installed: {places.unit}"]
    if not _reachable():
        return Report(
            [*lines, "Whether it runs is not known: systemd cannot be reached."], good=False
        )
    state = _ask("is-active", NAME)
    return Report(
        [*lines, f"State: {state}", f"At login: {_ask('is-enabled', NAME)}"], state == "active"
    )


# systemd


def _reachable() -> bool:
    """Whether there is a systemd of this person's to talk to."""
    if shutil.which("systemctl") is None:
        return False
    return _ask("is-system-running") in ALIVE


def _ask(*arguments: str) -> str:
    done = _run(*arguments)
    return done.stdout.strip() or "unknown"


def _systemctl(*arguments: str) -> None:
    done = _run(*arguments)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
        raise ServiceError(f"systemctl --user {' '.join(arguments)}: {said}")


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["systemctl", "--user", *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SYSTEMCTL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"systemctl does not answer: {error}") from None
