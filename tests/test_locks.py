"""The locks fit the project, and nothing of a machine is in what git tracks."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import build_hook
import leaks

ROOT = Path(__file__).resolve().parent.parent
LOCKS = tuple(path.name for path in sorted(ROOT.glob("*.lock")) if path.name != "uv.lock")


def locked(name: str) -> dict[str, list[Version]]:
    """The versions of each package of a lock, with the markers left aside."""
    versions: dict[str, list[Version]] = {}
    for line in (ROOT / name).read_text(encoding="ascii").splitlines():
        if found := re.match(r"([a-z0-9-]+)==([^ ]+)", line):
            versions.setdefault(found[1], []).append(Version(found[2]))
    return versions


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", lambda project: project["project"]["dependencies"]),
        ("requirements-dev.lock", lambda project: project["project"]["dependencies"]),
        ("requirements-dev.lock", lambda project: project["dependency-groups"]["dev"]),
        ("requirements-build.lock", lambda project: project["dependency-groups"]["build"]),
        ("requirements-binary.lock", lambda project: project["project"]["dependencies"]),
        ("requirements-binary.lock", lambda project: project["dependency-groups"]["binary"]),
        ("requirements-node.lock", lambda project: project["dependency-groups"]["node"]),
    ],
)
def test_locks_satisfy_what_the_project_asks_for(
    lock: str, wanted: Callable[[dict[str, Any]], list[str]]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    versions = locked(lock)
    for requirement in map(Requirement, wanted(project)):
        assert versions[requirement.name], f"{requirement}: run scripts/lock"
        for version in versions[requirement.name]:
            assert version in requirement.specifier, f"{requirement}: run scripts/lock"


def test_locks_agree() -> None:
    """They are installed into one environment, one over the other."""
    development = locked("requirements-dev.lock")
    for name, versions in locked("requirements.lock").items():
        assert development[name] == versions
    for name, versions in locked("requirements-build.lock").items():
        assert development.get(name, versions) == versions


def test_the_binary_carries_the_versions_that_are_tested() -> None:
    binary = locked("requirements-binary.lock")
    for name, versions in locked("requirements.lock").items():
        assert binary[name] == versions


def test_lock_of_node_is_what_the_build_of_the_page_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["dependency-groups"]["node"] == [build_hook.NODE_WHEEL]


def imported_from_elsewhere(*folders: str) -> set[str]:
    """The top-level names that the Python files of these folders import from distributions."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    names = set()
    for path in files:
        if "node_modules" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module or "")
    scripts = (ROOT / "scripts").glob("*.py")
    ours = {"app", "store", "web", "tests", *(path.stem for path in (*files, *scripts))}
    return {name.partition(".")[0] for name in names} - ours - sys.stdlib_module_names


@pytest.mark.parametrize(
    ("folders", "groups"), [(("app", "store", "web"), ()), (("tests",), ("dev",))]
)
def test_what_is_imported_is_declared(folders: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Not only installed by chance, because something else needs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [*project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        declared += extra
    for group in groups:
        declared += project["dependency-groups"][group]
    names = {canonicalize_name(Requirement(text).name) for text in declared}
    owners = importlib.metadata.packages_distributions()
    missing = {
        name
        for name in imported_from_elsewhere(*folders)
        if names.isdisjoint(map(canonicalize_name, owners.get(name, ())))
    }
    assert missing == set()


@pytest.mark.parametrize("name", LOCKS)
def test_locks_name_no_host_and_no_folder(name: str) -> None:
    text = (ROOT / name).read_text(encoding="ascii")
    assert "--hash=sha256:" in text
    assert "/" not in text


@pytest.mark.parametrize(
    "leak",
    ["https://pyp" + "i.org/simple", "see /roo" + "t/notes", "/hom" + "e/ann/x", "npmj" + "s.com"],
)
def test_leaks_are_found_with_their_line(leak: str) -> None:
    assert [number for number, _ in leaks.in_text(f"fine\nnot {leak}\n")] == [2]


@pytest.mark.parametrize("text", ["/workspace/x", "the root/leaf", "homes/x", "at home/a"])
def test_ordinary_words_are_no_leaks(text: str) -> None:
    assert list(leaks.in_text(text)) == []
