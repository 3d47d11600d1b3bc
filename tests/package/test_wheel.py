"""Wheels and source archives: installed as the README says, without Node, they serve the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.package.serving import answer, demo, served

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive of this checkout."""
    folder = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_uv_tool_install_gives_a_command_that_serves_the_page(
    packages: Path, tmp_path: Path, kind: str
) -> None:
    (package,) = packages.glob(kind)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    # The machine's own settings for indexes; nothing else of it, above all no Node.
    variables = {
        name: value for name, value in os.environ.items() if name.startswith(("UV_", "SSL_"))
    }
    variables |= {
        "PATH": str(programs),
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": cache_of_uv(),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(programs),
    }
    command = [str(UV), "tool", "install", "--python", sys.executable, str(package)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "tools").rglob("*nodejs*"))
    program = programs / "unbroken"
    with served([str(program), *demo()], variables, folder=tmp_path) as server:
        page = server.get("/").decode()
        paths = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
        assert any(path.endswith(".js") for path in paths)
        for path in paths:
            assert server.get(f"/{path}")
        assert answer(server, "thread-1", "echo hello") == "hello"
        assert server.stop() == 0
    licences = subprocess.run(
        [program, "licenses"], env=variables, capture_output=True, text=True, check=True
    ).stdout
    assert "\npreact " in licences


def cache_of_uv() -> str:
    """So that nothing is downloaded twice."""
    done = subprocess.run([UV, "cache", "dir"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_commit_of_the_checkout_is_in_the_wheel(packages: Path) -> None:
    (package,) = packages.glob("*.whl")
    text = subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(package), str(packages / "unpacked")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert text.returncode == 0
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    baked = (packages / "unpacked" / "app" / "commit.txt").read_text().strip()
    assert baked.removesuffix("-changed") == commit
    shutil.rmtree(packages / "unpacked")
