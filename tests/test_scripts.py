"""The scripts: what they install when, what they pass on, what they say when something is missing.

Each test has a checkout of its own with the real scripts. In place of the installers and of Node it
has programs that only write down how they were called.
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import chromium
from requirement_table import requirements
from step import SetupError

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = [path.name for path in sorted((ROOT / "scripts").glob("[a-z]*")) if not path.suffix]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")

# Every stand-in writes its call into $LOG, and fails if a file says that it should.
RECORD = """#!/bin/sh
name=$(basename "$0")
echo "$name $*" >> "$LOG"
[ ! -e "$LOG.fail-$name" ] || exit 1
"""
PYTHON = (
    RECORD
    + """
if [ "$2" = venv ]; then
  mkdir -p "$3/bin"
  cp "$STANDINS/python" "$STANDINS/uv" "$STANDINS/unbroken" "$3/bin"
fi
"""
)
NPM = (
    RECORD
    + """
[ "$1" != ci ] || { rm -rf node_modules; mkdir node_modules; }
[ "$3" != build ] || { mkdir -p ../static/.vite; echo '{}' > ../static/.vite/manifest.json; }
"""
)
NODE = RECORD + "echo ${NODE_VERSION:-v20.19.0}\n"
UNBROKEN = '#!/bin/sh\necho "$$ [$*] bytecode=${PYTHONDONTWRITEBYTECODE:-written}"\n'

# Runs a script as its shebang would, on an interpreter that is a stand-in for all that it starts.
DRIVER = """
import os, runpy, sys
sys.executable = os.path.join(os.environ["STANDINS"], "python")
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Checkout:
    """A fresh clone, and the programs of its machine."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "clone"
        self.standins = folder / "standins"
        self.log = folder / "log"
        shutil.copytree(
            ROOT / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in (*LOCKS, "pyproject.toml", "docs/requirements.md"):
            self.write(name, (ROOT / name).read_text(encoding="utf-8"))
        for name in ("package.json", "package-lock.json", "src/main.js"):
            self.write(f"web/client/{name}", "{}")
        self.standins.mkdir()
        programs = {"python": PYTHON, "uv": RECORD, "npm": NPM, "node": NODE, "unbroken": UNBROKEN}
        for name, text in programs.items():
            self.add_program(name, text)

    def add_program(self, name: str, text: str) -> None:
        (self.standins / name).write_text(text)
        (self.standins / name).chmod(0o755)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def environment(self, **changes: str) -> dict[str, str]:
        # The folders of the shell's own programs, without any Node that may be beside them.
        clean = self.standins.parent / "system"
        clean.mkdir(exist_ok=True)
        for program in ("sh", "basename", "cp", "mkdir", "rm"):
            if not (clean / program).exists():
                (clean / program).symlink_to(shutil.which(program) or program)
        return {
            "PATH": f"{self.standins}{os.pathsep}{clean}",
            "STANDINS": str(self.standins),
            "LOG": str(self.log),
            "PYTHONDONTWRITEBYTECODE": "1",
            **changes,
        }

    def start(self, script: str, *arguments: str, **changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(self.root / "scripts" / script), *arguments],
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *arguments: str, **changes: str) -> Result:
        """Run a script to its end; the calls are those it made now."""
        self.log.write_text("")
        process = self.start(script, *arguments, **changes)
        out, err = process.communicate(timeout=60)
        return Result(process.returncode, out, err, self.log.read_text().splitlines())

    def fail(self, program: str, *, now: bool = True) -> None:
        marker = Path(f"{self.log}.fail-{program}")
        if now:
            marker.touch()
        else:
            marker.unlink()


class Result:
    def __init__(self, code: int, out: str, err: str, calls: list[str]) -> None:
        self.code = code
        self.out = out
        self.err = err
        self.calls = [call for call in calls if not call.startswith("node ")]

    def programs(self) -> list[str]:
        """The calls in short: program and what tells its calls apart."""
        kind = re.compile(r"(?<=-m )\w+|[\w-]+\.lock|--editable|(?<=^npm )ci|(?<=--silent )\w+")
        return [
            f"{call.split()[0]} {found[0] if (found := kind.search(call)) else call}"
            for call in self.calls
        ]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


EVERYTHING_FOR_RUN = [
    "python venv",
    "python pip",
    "uv requirements.lock",
    "uv --editable",
    "npm ci",
    "npm build",
]


# scripts/run


def test_run_makes_a_fresh_clone_ready_and_becomes_the_program(checkout: Checkout) -> None:
    checkout.log.write_text("")
    process = checkout.start("run", "--port", "9000", "--data", "a b")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    # The same process, so that signals reach the program; with its bytecode kept.
    assert out == f"{process.pid} [--port 9000 --data a b] bytecode=written\n"
    calls = checkout.log.read_text().splitlines()
    assert Result(0, "", "", calls).programs() == EVERYTHING_FOR_RUN


def test_everything_installed_is_pinned_by_hash_or_local(checkout: Checkout) -> None:
    for call in checkout.run("run").calls:
        if " install " in call:
            assert "--require-hashes" in call or "--no-deps --no-build-isolation" in call
        if " ci" in call:
            assert "--ignore-scripts" in call


def test_second_run_does_no_work(checkout: Checkout) -> None:
    checkout.run("run")
    again = checkout.run("run", "--help")
    assert (again.code, again.calls, again.err) == (0, [], "")
    assert "[--help]" in again.out


@pytest.mark.parametrize(
    ("change", "work"),
    [
        ("requirements.lock", ["uv requirements.lock"]),
        ("pyproject.toml", ["uv --editable"]),
        ("web/client/src/main.js", ["npm build"]),
        ("web/client/src/new/part.js", ["npm build"]),
        ("web/client/package-lock.json", ["npm ci", "npm build"]),
        ("requirements-build.lock", EVERYTHING_FOR_RUN[:4]),
    ],
)
def test_run_does_again_what_a_change_concerns(
    checkout: Checkout, change: str, work: list[str]
) -> None:
    checkout.run("run")
    checkout.write(change, "{ }" if change.endswith(".json") else "changed")
    assert checkout.run("run").programs() == work
    assert checkout.run("run").programs() == []


@pytest.mark.parametrize("program", ["python", "uv", "npm"])
def test_broken_off_installation_is_done_again(checkout: Checkout, program: str) -> None:
    checkout.fail(program)
    broken = checkout.run("run")
    assert broken.code == 1
    assert "failed" in broken.err
    assert broken.out == ""
    checkout.fail(program, now=False)
    repaired = checkout.run("run")
    assert repaired.code == 0
    expected = EVERYTHING_FOR_RUN[4:] if program == "npm" else EVERYTHING_FOR_RUN
    assert repaired.programs() == expected


def test_failed_update_leaves_an_environment_that_is_made_anew(checkout: Checkout) -> None:
    checkout.run("run")
    checkout.write("requirements.lock", "changed")
    checkout.fail("uv")
    assert checkout.run("run").code == 1
    checkout.fail("uv", now=False)
    assert checkout.run("run").programs() == EVERYTHING_FOR_RUN[:4]


@pytest.mark.parametrize("loss", [".venv/bin/python", ".venv", "web/static", ".cache"])
def test_what_was_lost_is_made_again(checkout: Checkout, loss: str) -> None:
    checkout.run("run")
    path = checkout.root / loss
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = checkout.run("run")
    assert again.code == 0
    assert again.calls != []
    assert checkout.run("run").calls == []


def test_moved_checkout_gets_an_environment_of_its_own(checkout: Checkout) -> None:
    checkout.run("run")
    checkout.root = checkout.root.rename(checkout.root.with_name("elsewhere"))
    assert checkout.run("run").programs() == EVERYTHING_FOR_RUN[:4]


def test_two_scripts_do_not_install_at_the_same_time(checkout: Checkout) -> None:
    (checkout.root / ".cache").mkdir()
    with (checkout.root / ".cache" / "prepare.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = checkout.start("run")
        assert process.stderr is not None
        assert "Waiting for another script" in process.stderr.readline()
        assert not checkout.log.exists()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_installer_that_outlives_its_script_keeps_the_next_one_waiting(checkout: Checkout) -> None:
    started, go_on = checkout.root / "started", checkout.root / "go-on"
    os.mkfifo(started)
    os.mkfifo(go_on)
    checkout.add_program("uv", f"#!/bin/sh\n: > {started}\nread line < {go_on}\n")
    process = checkout.start("run")
    started.read_text()  # waits for the installer
    process.kill()
    process.wait()
    with (checkout.root / ".cache" / "prepare.lock").open("w") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        go_on.write_text("now\n")
        fcntl.flock(lock, fcntl.LOCK_EX)
    process.communicate()


def test_missing_node_is_said_before_anything_is_installed(checkout: Checkout) -> None:
    (checkout.standins / "npm").unlink()
    result = checkout.run("run")
    assert result.code == 1
    assert result.err.startswith("run: Node.js with npm is missing, which builds the page.")
    assert result.calls == []


def test_built_page_needs_no_node(checkout: Checkout) -> None:
    checkout.run("run")
    (checkout.standins / "npm").unlink()
    assert checkout.run("run").code == 0


def test_old_node_is_named(checkout: Checkout) -> None:
    result = checkout.run("run", NODE_VERSION="v18.20.4")
    assert result.code == 1
    assert result.err == "run: Node 20.19 or newer builds the page; this is v18.20.4.\n"


def test_old_python_gets_a_sentence() -> None:
    text = (
        f"import sys; sys.version_info = (3, 9, 2); sys.path.insert(0, {str(ROOT / 'scripts')!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{text}; sys.argv = ['scripts/run']; import environment"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Unbroken needs Python 3.11 or newer; this is ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["environment.py", *COMMANDS])
def test_an_old_python_reads_as_far_as_that_sentence(name: str) -> None:
    """The oldest that distributions carry: nothing fails before it, by syntax or by import."""
    text = (ROOT / "scripts" / name).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 6))
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    first = "sys" if name == "environment.py" else "environment"
    assert ast.unparse(imports[0]) == f"import {first}"


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_can_be_started_by_their_name(name: str) -> None:
    path = ROOT / "scripts" / name
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
@pytest.mark.parametrize("wish", ["--help", "-h"])
def test_help_is_printed_and_nothing_done(checkout: Checkout, name: str, wish: str) -> None:
    """That of `run` is the program's own."""
    result = checkout.run(name, wish)
    assert (result.code, result.calls) == (0, [])
    doc = ast.get_docstring(ast.parse((ROOT / "scripts" / name).read_text(encoding="utf-8")))
    assert doc is not None
    assert doc.splitlines()[0] in result.out


# scripts/test


def test_full_test_runs_javascript_then_python_and_sums_up(checkout: Checkout) -> None:
    result = checkout.run("test", CHROME_BIN="/bin/true")
    assert result.code == 0, result.err
    programs = ["npm types", "npm test", "python pytest", "python pytest"]
    assert result.programs()[-4:] == programs
    assert "uv requirements-dev.lock" in result.programs()
    assert "--outputFile.json=" in result.calls[-3]
    reports = [re.findall(r"--requirements-report=(\S+)", call) for call in result.calls[-2:]]
    assert len({report for (report,) in reports}) == 2
    closing = result.err.splitlines()[-4:]
    assert [line.split()[-3] for line in closing] == ["passed"] * 4


def test_full_test_runs_every_python_test_once(checkout: Checkout) -> None:
    """Some in parallel, the others after them."""
    calls = checkout.run("test", CHROME_BIN="/bin/true").calls[-2:]
    parallel, others = (call.split()[3:] for call in calls)
    paths = [word for word in parallel if not word.startswith("-")]
    assert paths
    assert [f"--ignore={path}" for path in paths] == [
        word for word in others if not word.startswith("--requirements-report=")
    ]
    assert all((ROOT / path).is_dir() for path in paths)


@pytest.mark.parametrize(
    ("arguments", "calls"),
    [
        (
            ["tests/app/test_x.py", "-k", "a name"],
            ["python -m pytest tests/app/test_x.py -k a name"],
        ),
        (["-x"], ["python -m pytest -x"]),
        (["--js"], ["npm run --silent types", "npm run --silent test --"]),
        (["--js", "-t", "F3"], ["npm run --silent types", "npm run --silent test -- -t F3"]),
        (
            ["web/client/tests/fold.test.js"],
            ["npm run --silent types", "npm run --silent test -- tests/fold.test.js"],
        ),
    ],
)
def test_arguments_choose_the_tests(
    checkout: Checkout, arguments: list[str], calls: list[str]
) -> None:
    checkout.run("test", CHROME_BIN="/bin/true")
    result = checkout.run("test", *arguments, CHROME_BIN="/bin/true")
    assert [call.rstrip() for call in result.calls] == calls


@pytest.mark.parametrize("program", ["npm", "python"])
def test_any_failure_fails_the_run_but_all_suites_run(checkout: Checkout, program: str) -> None:
    checkout.run("test", CHROME_BIN="/bin/true")
    checkout.fail(program)
    result = checkout.run("test", CHROME_BIN="/bin/true")
    assert result.code == 1
    assert len(result.calls) == 4
    assert "FAILED" in result.err


def test_browser_tests_without_a_browser_say_what_to_do(checkout: Checkout) -> None:
    result = checkout.run("test")
    assert result.code == 1
    assert "the browser tests need Chromium or Chrome, and none is here." in result.err
    assert checkout.run("test", "-m", "not browser").code == 0
    assert checkout.run("test", "tests/app").code == 0


def test_chromium_is_found_by_its_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    browser = tmp_path / "google-chrome-stable"
    browser.touch(mode=0o755)
    monkeypatch.delenv("CHROME_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chromium.path() == str(browser)


def test_chromium_is_installed_by_root(monkeypatch: pytest.MonkeyPatch, checkout: Checkout) -> None:
    monkeypatch.delenv("CHROME_BIN", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name, value in checkout.environment().items():
        monkeypatch.setenv(name, value)
    browser = checkout.standins / "chromium"
    checkout.add_program("apt-get", RECORD + f'[ "$2" = update ] || cp "$0" "{browser}"\n')
    assert chromium.path() == str(browser)
    assert len(checkout.log.read_text().splitlines()) == 2
    browser.unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match="sudo apt install chromium"):
        chromium.path()


# scripts/requirements


def test_requirements_are_printed_with_their_tests(checkout: Checkout) -> None:
    checkout.write(".cache/requirements.json", json.dumps({"T1": ["tests/test_a.py::test_b"]}))
    of_rooms = {"T1": ["tests/app/test_c.py::test_d"], "T3": ["tests/app/test_c.py::test_d"]}
    checkout.write(".cache/requirements-rooms.json", json.dumps(of_rooms))
    tests = [
        {"fullName": "link F3: resumes after the last applied event", "status": "passed"},
        {"fullName": "link F2: notices a dead connection", "status": "failed"},
    ]
    file = {"name": str(checkout.root / "web/client/tests/link.test.js"), "assertionResults": tests}
    checkout.write(".cache/vitest.json", json.dumps({"testResults": [file]}))
    result = checkout.run("requirements")
    assert result.code == 0, result.err
    assert "T1   A turn runs in a server-side nursery" in result.out
    assert "       tests/test_a.py::test_b" in result.out
    assert "       tests/app/test_c.py::test_d" in result.out
    assert "web/client/tests/link.test.js: link F3: resumes" in result.out
    total = len(requirements())
    assert f"3 of {total} requirements have a passing test." in result.out
    without = result.out.splitlines()[-1]
    assert without.startswith("Without one: T2 ")
    assert " F2 " in without
    assert " F3 " not in without
