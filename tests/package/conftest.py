"""What is built once a session."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("binary") / "unbroken"
    command = [sys.executable, str(ROOT / "scripts" / "build-binary"), "--output", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"unbroken: \d+\.\d MB, needs glibc 2\.\d+ or newer\n$", done.stderr)
    return file
