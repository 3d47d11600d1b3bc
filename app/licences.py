"""The licences of everything inside: Python packages, the page's, and in a binary what it carries.

Python packages say it in their metadata. The build of the page and the build of the binary leave a
file each, as JSON: a list of `Licence`.
"""

from collections.abc import Iterator
from importlib.metadata import Distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from app.versions import distributions

# Beside them in a package's metadata are records and lists of entry points.
TEXTS = ("license", "licence", "copying", "notice", "authors")
UNKNOWN = "see its text"


class Licence(msgspec.Struct, frozen=True):
    """What one component is under. `texts`: all that its authors ask to be passed on."""

    name: str
    version: str
    licence: str  # SPDX where the component says it so
    texts: list[str]


def gather(page: Traversable) -> list[Licence]:
    """All of them: ours, Python's packages, the page's, the binary's.

    Args:
        page: the file that the build of the page wrote; a page built otherwise has none.
    """
    python = [_of_distribution(found) for found in distributions()]
    return [*python, *_read(page), *_read(files("app") / "native-licences.json")]


def render(licences: list[Licence], *, full: bool) -> str:
    """One line each; with `full`, then every text under the names that it holds for."""
    lines = [f"{each.name} {each.version}: {each.licence}" for each in licences]
    if full:
        names: dict[str, list[str]] = {}
        for each in licences:
            for text in each.texts:
                names.setdefault(text.strip(), []).append(each.name)
        for text, owners in names.items():
            lines += ["", "-" * 80, ", ".join(dict.fromkeys(owners)), "", text]
    return "\n".join(lines)


def _read(file: Traversable) -> list[Licence]:
    if not file.is_file():
        return []
    return msgspec.json.decode(file.read_bytes(), type=list[Licence])


def _of_distribution(found: Distribution) -> Licence:
    return Licence(found.name, found.version, _short(found), list(_texts(found)))


def _short(found: Distribution) -> str:
    """The licence's name. Older metadata has it in one of two other places, or a whole text."""
    metadata = found.metadata
    for key in ("License-Expression", "License"):
        value = str(metadata[key]) if key in metadata else ""
        if value and "\n" not in value:
            return value
    classes = [text for text in metadata.get_all("Classifier") or () if text.startswith("License")]
    return ", ".join(text.rpartition(" :: ")[2] for text in classes) or UNKNOWN


def _texts(found: Distribution) -> Iterator[str]:
    for path in found.files or ():
        inside = any(part.endswith(".dist-info") for part in path.parts)
        if inside and path.name.lower().startswith(TEXTS):
            file = Path(str(found.locate_file(path)))
            if file.is_file():
                yield file.read_text(encoding="utf-8")
