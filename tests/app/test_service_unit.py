"""The service: what is written, and what systemd is asked to do. systemd is a stand-in here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app import service_unit
from app.service_unit import Places, ServiceError
from app.unpacked import EXECUTABLE

SYSTEMCTL = """#!/bin/sh
shift # --user
echo "$*" >> "$LOG"
case $1 in
  is-system-running) echo "${SYSTEM:-running}"; [ "${SYSTEM:-running}" = running ] ;;
  is-active) echo "${ACTIVE:-active}" ;;
  is-enabled) echo enabled ;;
  restart) [ -z "${BROKEN:-}" ] || { echo 'Job failed. See "journalctl".' >&2; exit 1; } ;;
esac
"""


class Session:
    def __init__(self, folder: Path) -> None:
        config = folder / "config"
        self.places = Places(
            config / "systemd" / "user" / "unbroken.service", config / "unbroken" / "environment"
        )
        self.log = folder / "log"

    def calls(self) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line != "is-system-running"]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(SYSTEMCTL)
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv(EXECUTABLE, "/opt/my programs/unbroken")
    return Session(tmp_path)


def value(text: str, name: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name}=")]
    return line.partition("=")[2]


def test_install_writes_the_unit_and_starts_it_now_and_at_login(session: Session) -> None:
    report = service_unit.install(session.places, ["--port", "9000"], Path("/srv/ann"))
    text = session.places.unit.read_text()
    command = shlex.split(value(text, "ExecStart"))
    assert command == ["/opt/my programs/unbroken", "serve", "--port", "9000"]
    assert value(text, "WorkingDirectory") == "/srv/ann"
    assert value(text, "EnvironmentFile") == f"-{session.places.environment}"
    assert value(text, "WantedBy") == "default.target"
    assert session.calls() == [
        "daemon-reload", "enable unbroken.service", "restart unbroken.service",
    ]  # fmt: skip
    assert report.good
    assert any("journalctl --user" in line for line in report.lines)


def test_installing_again_restarts_it_with_the_new_unit(session: Session) -> None:
    service_unit.install(session.places, [], Path("/"))
    service_unit.install(session.places, ["--port", "9001"], Path("/"))
    assert "9001" in session.places.unit.read_text()
    assert session.calls()[-1] == "restart unbroken.service"


@pytest.mark.parametrize("state", ["offline", "stopping", ""])
def test_without_a_systemd_to_talk_to_it_says_what_to_do(
    session: Session, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """A container, a root shell, a system with another init: the unit is written all the same."""
    monkeypatch.setenv("SYSTEM", state or "unknown")
    report = service_unit.install(session.places, [], Path("/"))
    assert session.places.unit.exists()
    assert report.lines[-1] == "  systemctl --user enable --now unbroken.service"
    assert session.calls() == []
    monkeypatch.setenv("PATH", "/nowhere")
    assert service_unit.install(session.places, [], Path("/")).lines == report.lines


def test_what_systemd_refuses_is_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(ServiceError, match=r"restart unbroken\.service: Job failed"):
        service_unit.install(session.places, [], Path("/"))


def test_a_folder_that_cannot_be_written_is_told(session: Session) -> None:
    places = Places(Path("/dev/null/unbroken.service"), session.places.environment)
    with pytest.raises(ServiceError, match="cannot be written"):
        service_unit.install(places, [], Path("/"))


def test_uninstall_stops_it_and_removes_the_unit(session: Session) -> None:
    service_unit.install(session.places, [], Path("/"))
    report = service_unit.uninstall(session.places)
    assert report.good
    assert not session.places.unit.exists()
    assert session.calls()[-2:] == ["disable --now unbroken.service", "daemon-reload"]
    assert service_unit.uninstall(session.places).lines[0].startswith("There is no ")


@pytest.mark.parametrize(("state", "good"), [("active", True), ("failed", False)])
def test_status_is_good_only_if_it_runs(
    session: Session, monkeypatch: pytest.MonkeyPatch, state: str, good: bool
) -> None:
    assert not service_unit.status(session.places).good
    service_unit.install(session.places, [], Path("/"))
    monkeypatch.setenv("ACTIVE", state)
    report = service_unit.status(session.places)
    assert report.good is good
    assert f"State: {state}" in report.lines


# The command in the unit


def test_options_are_kept_and_their_paths_hold_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/srv/ann")
    given = {"port": 9000, "host": None, "data": "~/chat", "token_file": "token", "model": "a/b"}
    assert service_unit.arguments(Path("unbroken.toml"), given) == [
        "--config", f"{tmp_path}/unbroken.toml", "--port", "9000", "--data", "/srv/ann/chat",
        "--token-file", f"{tmp_path}/token", "--model", "a/b",
    ]  # fmt: skip
    assert service_unit.found(Path("unbroken.toml")) is None
    Path("unbroken.toml").touch()
    assert service_unit.found(Path("unbroken.toml")) == Path("unbroken.toml")


def test_an_installed_command_is_named_by_the_path_it_was_called_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link of uv or pipx stays where it is when the environment behind it is made anew."""
    monkeypatch.delenv(EXECUTABLE, raising=False)
    target = tmp_path / "environment" / "unbroken"
    target.parent.mkdir()
    target.write_text("#!/bin/sh\n")
    target.chmod(0o755)
    link = tmp_path / "bin" / "unbroken"
    link.parent.mkdir()
    link.symlink_to(target)
    monkeypatch.setattr(sys, "argv", [str(link), "service", "install"])
    assert service_unit.program() == [str(link)]
    monkeypatch.setattr(sys, "argv", ["/some/where/app/__main__.py"])
    assert service_unit.program() == [sys.executable, "-m", "app"]


def test_systemd_reads_words_as_they_were_meant() -> None:
    """By the rules of systemd.service(5): C-style escapes, $ and % doubled."""
    assert service_unit.quoted('a "b" \\ $HOME 100%') == '"a \\"b\\" \\\\ $$HOME 100%%"'


if shutil.which("systemd-analyze"):

    def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
        unit = tmp_path / "unbroken.service"
        command = [sys.executable, "-m", "app", "serve", "--data", "/a b/100%/$x"]
        unit.write_text(service_unit.render(command, tmp_path, tmp_path / "environment"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        complaints = [line for line in done.stderr.splitlines() if "unbroken.service" in line]
        assert complaints == []
