"""What is in the page and under which licence, for `unbroken licenses` (app/licences.py)."""

import json
from pathlib import Path
from typing import Any

TEXTS = ("license", "licence", "copying", "notice")


def of(client: Path) -> list[dict[str, Any]]:
    """The packages that the lock has beside those for development: what can be in the bundle.

    Args:
        client: the folder of package-lock.json, with its node_modules.
    """
    packages: dict[str, dict[str, Any]] = json.loads(
        (client / "package-lock.json").read_text(encoding="utf-8")
    ).get("packages", {})
    return [
        _licence(path.rpartition("node_modules/")[2], entry, client / path)
        for path, entry in sorted(packages.items())
        if path and not entry.get("dev")
    ]


def _licence(name: str, entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    texts = [path for path in folder.iterdir() if path.name.lower().startswith(TEXTS)]
    return {
        "name": name,
        "version": entry["version"],
        "licence": entry.get("license", "see its text"),
        "texts": [path.read_text(encoding="utf-8") for path in sorted(texts)],
    }
