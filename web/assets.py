"""The built page: read once, served from memory. So no path of a request ever meets the disk."""

import gzip
import hashlib
import mimetypes
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

import msgspec

ENTRY = "src/main.js"
MANIFEST = ".vite/manifest.json"
# Vite puts a hash of the content into these names.
HASHED = "assets/"
FOREVER = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"
# What becomes smaller by compression; fonts are compressed already.
TEXTS = ("text/", "application/javascript", "application/json", "image/svg")
WORTH_BYTES = 1_000


class Asset(NamedTuple):
    body: bytes
    content_type: str
    etag: str
    cache: str


class Assets:
    """The page's files by their path. `script` and `styles`: URLs of the entry, relative."""

    def __init__(self, root: Traversable | None = None) -> None:
        """`root`: the folder they are in; None: web/static, where they are built."""
        root = files("web") / "static" if root is None else root
        self._files = dict(_walk(root, "")) if root.is_dir() else {}
        self._compressed: dict[str, bytes] = {}
        self.script, self.styles = self._entry()

    @property
    def built(self) -> bool:
        """False in a checkout whose page was never built."""
        return bool(self.script)

    def get(self, path: str) -> Asset | None:
        return self._files.get(path)

    def compressed(self, path: str) -> bytes | None:
        """The file's body by gzip; None: it would not become much smaller. Made when first asked
        for: a start waits for nothing that nobody may want."""
        asset = self._files[path]
        if len(asset.body) < WORTH_BYTES or not asset.content_type.startswith(TEXTS):
            return None
        if path not in self._compressed:
            self._compressed[path] = gzip.compress(asset.body, mtime=0)
        return self._compressed[path]

    def _entry(self) -> tuple[str, list[str]]:
        manifest = self._files.get(MANIFEST)
        if manifest is None:
            return "", []
        entry = msgspec.json.decode(manifest.body)[ENTRY]
        return f"static/{entry['file']}", [f"static/{style}" for style in entry.get("css", [])]


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for item in folder.iterdir():
        path = f"{prefix}{item.name}"
        if item.is_dir():
            yield from _walk(item, f"{path}/")
        else:
            body = item.read_bytes()
            kind = mimetypes.guess_type(item.name)[0] or "application/octet-stream"
            if kind.startswith("text/") or kind.endswith("javascript"):
                kind += "; charset=utf-8"
            cache = FOREVER if path.startswith(HASHED) else REVALIDATE
            yield path, Asset(body, kind, hashlib.sha256(body).hexdigest()[:16], cache)
