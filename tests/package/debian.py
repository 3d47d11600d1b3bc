"""The single file on Debians of several ages, made by debootstrap.

Not among the tests of a full run, since each Debian takes half a minute the first time:
`scripts/test tests/package/debian.py`, as root.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.package.machines import VARIABLES, debian_root, inside
from tests.package.serving import answer, demo, served

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_it_serves_on_a_debian_without_python(binary: Path, suite: str) -> None:
    root = debian_root(suite)
    assert not list(root.glob("usr/bin/python*"))
    shutil.copy(binary, root / "unbroken")
    command = inside(root, "/unbroken", *demo("--data", "/data"))
    with served(command, VARIABLES) as server:
        assert answer(server, "thread-1", "echo hello") == "hello"
        assert b"<script" in server.get("/")
        assert server.stop() == 0


def test_a_debian_that_is_too_old_is_told_so(binary: Path) -> None:
    root = debian_root("bullseye")
    shutil.copy(binary, root / "unbroken")
    done = subprocess.run(
        inside(root, "/unbroken", "--version"), env=VARIABLES, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"unbroken: this file needs glibc 2\.\d+ or newer; this system has glibc 2\.31\. "
        r"Install Unbroken with uv or pipx instead, see the README\.\n",
        done.stderr,
    )
