"""The record of a test run that `scripts/requirements` prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from requirement_table import mentioned, requirements

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("options", [[], ["--numprocesses=2"]])
def test_run_records_what_passed_tests_prove(tmp_path: Path, options: list[str]) -> None:
    done = run_marked(
        tmp_path,
        """
        @pytest.mark.requirement("T1", "T2")
        @pytest.mark.parametrize("case", [1, 2])
        def test_holds(case): pass

        @pytest.mark.requirement("T2", "T3")
        @pytest.mark.parametrize("case", [1, 2])
        def test_holds_not_always(case): assert case == 1

        @pytest.mark.requirement("T4")
        def test_breaks_at_the_end(request): request.addfinalizer(lambda: 1 / 0)
        """,
        *options,
    )
    assert done.returncode == 1
    proved = json.loads((tmp_path / "report.json").read_text())
    assert proved == {"T1": ["test_marked.py::test_holds"], "T2": ["test_marked.py::test_holds"]}


def test_unknown_requirement_is_refused(tmp_path: Path) -> None:
    done = run_marked(tmp_path, '@pytest.mark.requirement("T99")\ndef test_a(): pass')
    assert done.returncode != 0
    assert "no requirement 'T99'" in done.stdout + done.stderr


def run_marked(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests under our own conftest, in a folder of their own."""
    lines = [line.removeprefix(" " * 8) for line in text.splitlines()]
    (folder / "test_marked.py").write_text("import pytest\n" + "\n".join(lines))
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  requirement(*ids): rows\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--requirements-report=report.json", *options, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_ids_in_titles_are_words() -> None:
    known = requirements()
    assert mentioned("F3, O2: T1x is none, F3 counts once, nor is X9", known) == ["F3", "O2"]
