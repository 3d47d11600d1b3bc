"""Every command in the documentation is run, block by block, as a person would paste it.

`unbroken` and `scripts/run` are the real program; a server that a command starts is stopped as soon
as it says that it is ready. What cannot run in a test has a stand-in, which STAND_INS excuses.
"""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from app import config
from tests.crash.server import running_server

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md")),
]
SECONDS = 60

# Programs that are not run, and what proves instead that the lines with them are right.
STAND_INS = {
    "uv": "tests/package/test_wheel.py installs by it",
    "pipx": "not installed here; it does with a wheel what uv does",
    "podman": "tests/package/container.py builds and runs the image, where it is asked to",
    "systemctl": "tests/app/test_service_unit.py; there is no systemd in a test",
    "journalctl": "as systemctl",
    "loginctl": "as systemctl",
    "launchctl": "of macOS; its file is checked below",
    "ollama": "of others",
    "llama-server": "of others",
}
# Scripts that would run for minutes; that they exist and take these arguments is checked here.
LONG_SCRIPTS = ("test", "check", "lock", "requirements", "build-binary", "bench")

# A server is started for real, on any port, and stopped when it is ready.
UNBROKEN = """#!{python}
import os, re, signal, subprocess, sys, tempfile
arguments = sys.argv[1:]
commands = {{"send", "backup", "health", "licenses", "service"}}
program = [sys.executable, "-m", "app"]
if commands & set(arguments[:1]) or "--help" in arguments or "--version" in arguments:
    os.execv(sys.executable, [*program, *arguments])
variables = {{**os.environ, "BROWSER": "true"}}
variables["UNBROKEN_PORT"] = "0"
variables.setdefault("UNBROKEN_DATA", tempfile.mkdtemp(dir=os.environ["HOME"]))
if "--port" in arguments:
    arguments[arguments.index("--port") + 1] = "0"
server = subprocess.Popen([*program, *arguments], env=variables, stdout=subprocess.PIPE, text=True)
line = server.stdout.readline()
server.send_signal(signal.SIGTERM)
server.communicate()
ready = re.match("Unbroken is ready at http", line)
sys.exit(server.returncode if ready else f"it did not start: {{line!r}}")
"""
SYSTEMCTL = """#!/bin/sh
case $2 in is-system-running) echo running ;; is-active) echo active ;; esac
"""
SCRIPT = """#!{python}
import os, sys
name = os.path.basename(sys.argv[0])
root = {root!r}
if not os.access(os.path.join(root, "scripts", name), os.X_OK):
    sys.exit(f"there is no scripts/{{name}}")
for argument in sys.argv[1:]:
    path = argument.partition("::")[0]
    if path.startswith(("tests", "web")) and not os.path.exists(os.path.join(root, path)):
        sys.exit(f"there is no {{path}}")
if name == "build-binary":
    os.makedirs("dist", exist_ok=True)
    os.path.lexists("dist/unbroken") or os.symlink({unbroken!r}, "dist/unbroken")
"""


def fences(page: str) -> list[tuple[str, str]]:
    """Language and content of each block of code."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
            if inside:
                found.append((line.removeprefix("```"), []))
        elif inside:
            found[-1][1].append(f"{line}\n")
    assert not inside, page
    return [(language, "".join(lines)) for language, lines in found]


def blocks(page: str, language: str) -> list[str]:
    return [text for found, text in fences(page) if found == language]


class Desk:
    """A person's machine: a home, a checkout to stand in, programs, a server that runs."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.checkout = folder / "checkout"
        self.programs = folder / "programs"
        for path in (self.home, self.checkout / "scripts", self.programs):
            path.mkdir(parents=True)
        unbroken = self.programs / "unbroken"
        self._add(unbroken, UNBROKEN.format(python=sys.executable))
        self._add(self.checkout / "scripts" / "run", UNBROKEN.format(python=sys.executable))
        script = SCRIPT.format(python=sys.executable, root=str(ROOT), unbroken=str(unbroken))
        for name in LONG_SCRIPTS:
            self._add(self.checkout / "scripts" / name, script)
        for name in STAND_INS:
            self._add(self.programs / name, SYSTEMCTL if name == "systemctl" else "#!/bin/sh\n")
        self.port = ""

    @property
    def data(self) -> Path:
        return self.home / ".local" / "share"

    def _add(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def paste(self, block: str) -> str:
        """Returns what it printed. Raises AssertionError with all of it if a command fails."""
        done = subprocess.run(
            ["sh", "-eu", "-c", block],
            cwd=self.checkout,
            env={
                "HOME": str(self.home),
                "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "UNBROKEN_PORT": self.port,
            },
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    desk = Desk(folder)
    certificate = trustme.CA().issue_cert("unbroken.test")
    certificate.cert_chain_pems[0].write_to_path(desk.checkout / "cert.pem")
    certificate.private_key_pem.write_to_path(desk.checkout / "key.pem")
    desk.data.mkdir(parents=True)
    # A model that says its answer at once.
    with running_server(desk.data, model="bench") as server:
        # Where a server without --data has its own.
        (desk.data / "unbroken").symlink_to(server.data)
        desk.port = server.url.rpartition(":")[2].strip("/")
        yield desk


# A timeout of its own for a page with many servers to start.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_every_command_works_as_written(desk: Desk, page: str) -> None:
    for block in blocks(page, "sh"):
        desk.paste(block)


def test_there_are_commands_to_run() -> None:
    """Nothing above is proved by an empty list."""
    text = "\n".join(block for page in PAGES for block in blocks(page, "sh"))
    for command in ("scripts/run", "scripts/test", "unbroken backup", "unbroken send", "podman"):
        assert command in text
    assert len(text.splitlines()) > 40


def test_shell_commands_are_marked_as_such() -> None:
    """A block of another kind would escape the test."""
    known = {"sh", "toml", "mermaid", "xml", "nginx", "json", ""}
    for page in PAGES:
        assert {language for language, _ in fences(page)} <= known, page
        for block in blocks(page, ""):
            assert not re.search(r"^(\$ |unbroken |scripts/|podman )", block, re.MULTILINE), page


def test_a_wrong_command_is_noticed(desk: Desk) -> None:
    for block in ("unbroken --prot 9000", "unbroken backup", "scripts/tset", "unbroken --model x",
                  "scripts/test tests/none.py", "nosuchprogram"):  # fmt: skip
        with pytest.raises(AssertionError):
            desk.paste(block)


def test_what_is_restored_from_the_backup_is_what_was_there(desk: Desk) -> None:
    desk.paste("unbroken send 'echo remember me'\nunbroken backup ~/one.db\n")
    desk.paste("mkdir -p ~/one\ncp ~/one.db ~/one/unbroken.db\nunbroken --data ~/one\n")
    content = (desk.home / "one" / "unbroken.db").read_bytes()
    assert b"remember me" in content


@pytest.mark.parametrize("page", PAGES)
def test_settings_files_are_valid(page: str, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        file = tmp_path / "unbroken.toml"
        file.write_text(block)
        if "[tool" not in block and "[project" not in block:
            settings = config.load({}, {}, file)
            assert len(settings.model_configs()) == len(tomllib.loads(block).get("models", {}))


def test_the_file_for_launchd_is_one() -> None:
    (text,) = blocks("docs/install.md", "xml")
    job = plistlib.loads(text.encode())
    assert job["ProgramArguments"][1:] == ["serve"]
    assert job["KeepAlive"] == {"SuccessfulExit": False}


def test_what_the_readme_explains_is_what_the_program_says() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for room in ("app", "store", "web")
        for path in (ROOT / room).rglob("*.py")
    )
    for text in ("is already in use", "is in use by", "Open the link that the server printed",
                 "could not be reached", "did not accept the key", "Perhaps it speaks https",
                 "SHUTTING_DOWN"):  # fmt: skip
        assert text in (ROOT / "README.md").read_text(encoding="utf-8")
        assert text in source


def test_stand_ins_are_used() -> None:
    text = "\n".join(block for page in PAGES for block in blocks(page, "sh"))
    for name in STAND_INS:
        assert re.search(rf"^{name}\b", text, re.MULTILINE), name
    assert shutil.which("sh")
