"""What the first visit of the built page loads, and from where."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from web.assets import ENTRY, MANIFEST

STATIC = Path(__file__).parents[2] / "web" / "static"
FIRST_LOAD_BYTES = 60_000

pytestmark = pytest.mark.requirement("F8")


@pytest.fixture
def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STATIC / MANIFEST).read_text(encoding="utf-8"))
    return found


def first_load(manifest: dict[str, Any]) -> set[str]:
    """Script and style that the page cannot do without: no part that is loaded on demand."""
    files: set[str] = set()
    waiting = [ENTRY]
    while waiting:
        chunk = manifest[waiting.pop()]
        files |= {chunk["file"], *chunk.get("css", [])}
        waiting += [
            name for name in chunk.get("imports", []) if manifest[name]["file"] not in files
        ]
    return files


def test_the_first_load_is_light(manifest: dict[str, Any]) -> None:
    weights = {
        name: len(gzip.compress((STATIC / name).read_bytes())) for name in first_load(manifest)
    }
    assert sum(weights.values()) < FIRST_LOAD_BYTES, weights


def test_highlighting_and_formulas_are_loaded_on_demand(manifest: dict[str, Any]) -> None:
    needed = first_load(manifest)
    dynamic = manifest[ENTRY]["dynamicImports"]
    for part in ("views/highlighter.js", "katex.mjs"):
        [name] = [name for name in dynamic if name.endswith(part)]
        assert manifest[name]["file"] not in needed


def test_styles_are_left_to_no_loader_of_the_bundler(manifest: dict[str, Any]) -> None:
    """One that failed once is never asked for again: Vite's takes it for loaded. See onDemand."""
    assert [name for name, chunk in manifest.items() if chunk.get("css")] == [ENTRY]


def test_nothing_tells_where_it_was_built() -> None:
    root = str(Path(__file__).parents[2])
    for path in STATIC.rglob("*"):
        assert path.is_dir() or root.encode() not in path.read_bytes(), path


@pytest.mark.requirement("E7")
def test_every_address_in_the_build_is_relative() -> None:
    """Besides names of namespaces and links to explanations, which are never requested."""
    names = r"http://www\.w3\.org/|https://github\.com/|https?://[`'\"$]"
    for path in [*STATIC.glob("**/*.js"), *STATIC.glob("**/*.css")]:
        text = path.read_text(encoding="utf-8")
        found = [url for url in re.findall(r"https?://.{20}", text) if not re.match(names, url)]
        assert found == [], path
        assert not re.search(r"url\(/|import\(['\"`]/|from['\"]/", text), path
