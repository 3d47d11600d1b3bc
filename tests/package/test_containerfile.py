"""What goes into the build of the image; tests/package/container.py builds and runs it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def entering() -> set[str]:
    lines = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


def test_docker_and_podman_leave_out_the_same() -> None:
    """Above all .venv and .cache: what was built for this machine is not for the image."""
    ignore = (ROOT / ".containerignore").read_text(encoding="utf-8")
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8") == ignore
    assert "*" in ignore.splitlines()
    assert not {".venv", ".cache", ".git", "dist"} & entering()


def test_all_that_the_build_reads_goes_in() -> None:
    assert {"app", "store", "web", "scripts", "pyproject.toml", "*.lock"} <= entering()
    # Of the wheel: pyproject.toml names them.
    assert {"README.md", "LICENSE"} <= entering()
