"""The licences of what a frozen program carries beside Python packages."""

import ast
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any


def of(contents: Path, build_venv: Path) -> list[dict[str, Any]]:
    """One entry each for Python, PyInstaller's bootloader and each library of the system.

    Args:
        contents: PyInstaller's list of what it collected (COLLECT-00.toc).
        build_venv: the environment it ran in; what lies there is a Python package's.
    """
    libraries = [
        Path(source)
        for _, source, kind in ast.literal_eval(contents.read_text(encoding="utf-8"))[0]
        if kind == "BINARY" and not Path(source).is_relative_to(build_venv)
    ]
    found = {entry["name"]: entry for entry in map(_library, libraries) if entry is not None}
    return [_python(), _bootloader(build_venv), *(found[name] for name in sorted(found))]


def _python() -> dict[str, Any]:
    version = ".".join(map(str, sys.version_info[:3]))
    text = Path(sysconfig.get_path("stdlib"), "LICENSE.txt")
    return _entry("Python", version, "PSF-2.0", [text])


def _bootloader(build_venv: Path) -> dict[str, Any]:
    (folder,) = build_venv.glob("lib/python*/site-packages/pyinstaller-*.dist-info")
    version = folder.name.removesuffix(".dist-info").partition("-")[2]
    licence = "GPL-2.0-or-later WITH Bootloader-exception"
    return _entry("PyInstaller's bootloader", version, licence, sorted(folder.rglob("COPYING*")))


def _library(path: Path) -> dict[str, Any] | None:
    """By the records of the distribution; None for a file that is part of Python."""
    if path.is_relative_to(Path(sys.base_prefix, "lib")) and "python" in str(path):
        return None
    package = _debian_package(path)
    if package is None:
        return _entry(path.name, "", "see the distribution it comes from", [])
    name, version = package
    text = Path("/usr/share/doc", name, "copyright")
    return _entry(name, version, "see its text", [text])


def _debian_package(path: Path) -> tuple[str, str] | None:
    """Name and version of the package that a file is from; None where dpkg does not know."""
    if shutil.which("dpkg-query") is None:
        return None
    real = path.resolve()
    # Packages say /lib where the system has /usr/lib, and the other way round.
    names = [
        real,
        Path("/", *real.parts[2:]) if real.parts[1] == "usr" else Path("/usr", *real.parts[1:]),
    ]
    for name in names:
        owner = _output("dpkg-query", "--search", str(name))
        if found := re.match(r"([^:,\s]+)", owner):
            version = _output("dpkg-query", "--show", "--showformat=${Version}\\n", found[1])
            return found[1], version.split("\n")[0]
    return None


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _entry(name: str, version: str, licence: str, files: list[Path]) -> dict[str, Any]:
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()]
    return {"name": name, "version": version, "licence": licence, "texts": texts}
