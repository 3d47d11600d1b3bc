"""A page as the build leaves it, without building it."""

import json
import re
from pathlib import Path
from urllib.parse import urljoin

from web.assets import Assets

FILES = {
    ".vite/manifest.json": json.dumps(
        {"src/main.js": {"file": "assets/main-abc123.js", "css": ["assets/main-def456.css"]}}
    ),
    "assets/main-abc123.js": "console.log('ü')",
    "assets/main-def456.css": "body { color: red }",
    "icon.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
}


def built(folder: Path) -> Assets:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Assets(folder)


def links(html: str, address: str) -> dict[str, str]:
    """What a browser at this address makes of the page's relative addresses, by their text."""
    [base] = re.findall(r'<base href="([^"]*)">', html)
    found = re.findall(r'(?:href|src)="([^"]*)"', html.replace(f'<base href="{base}">', ""))
    return {
        "": urljoin(address, base),
        **{one: urljoin(urljoin(address, base), one) for one in found},
    }
