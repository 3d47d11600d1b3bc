"""The frozen program: our wheel and what it needs, with a Python, in one folder. By PyInstaller.

It is made in an environment of its own, from hashed locks, out of the wheel that others install.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import environment
import native_licences
import page
from launcher import Target
from step import CACHE, ROOT, VENV, SetupError, Stamp, digest, run, say

BINARY_LOCK = ROOT / "requirements-binary.lock"
NODE_LOCK = ROOT / "requirements-node.lock"
WORK = CACHE / "binary"
BUILD_VENV = WORK / "venv"

# Of the standard library or by chance in reach, and never used here. Expat is the library that
# needs the newest glibc (2.36 on Debian 12); readline is the one under the GPL.
UNWANTED = (
    "curses", "distutils", "doctest", "lib2to3", "pip", "pkg_resources", "pydoc",
    "pydoc_data", "pyexpat", "readline", "setuptools", "tkinter", "unittest", "xml", "xmlrpc",
    "sqlalchemy.dialects.mssql", "sqlalchemy.dialects.mysql", "sqlalchemy.dialects.oracle",
    "sqlalchemy.ext", "sqlalchemy.orm",
)  # fmt: skip

# Of what says where packages came from, what installers alone read. Each file more costs the first
# start a millisecond.
OF_INSTALLERS = ("INSTALLER", "REQUESTED", "WHEEL", "entry_points.txt", "top_level.txt")


@dataclass(frozen=True)
class Frozen:
    """The program `folder`/unbroken and all that it needs."""

    folder: Path
    target: Target

    def copy_to(self, folder: Path) -> None:
        """Replaces what is there."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder, symlinks=True)


def check_tools() -> None:
    """Raises SetupError where this machine cannot build, before it takes minutes to find out."""
    if platform.system() != "Linux":
        raise SetupError("the binary is for Linux; elsewhere uv and pipx install Unbroken")
    for tool in ("strip", "objdump", "readelf"):
        if shutil.which(tool) is None:
            raise SetupError(f"{tool} is missing. On Debian and Ubuntu: apt install binutils")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        raise SetupError(
            "this Python was built without a shared library, which the binary needs. That of "
            "Debian and Ubuntu has one: /usr/bin/python3 scripts/build-binary"
        )


def builds_page() -> bool:
    """Whether the page can be built by this machine's Node; else the wheel's build fetches one."""
    return page.node_problem() is None


def freeze() -> Frozen:
    """Build it, or take the one that is there if nothing has changed since. Raises SetupError."""
    folder = WORK / "unbroken"
    stamp = _stamp()
    if not stamp.holds() or not folder.exists():
        stamp.path.unlink(missing_ok=True)
        _prepare_environment()
        _install(_build_wheel())
        say("Freezing the program; this takes half a minute")
        _run_pyinstaller()
        _add_licences(folder)
        _drop_unread(folder)
        stamp.write()
    version = _in_build_environment(
        "from importlib.metadata import version as v; print(v('unbroken'))"
    )
    return Frozen(folder, Target(version, platform.machine(), _glibc(folder)))


def _stamp() -> Stamp:
    rooms = (ROOT / room for room in ("app", "store", "web", "scripts"))
    locks = (environment.BUILD_LOCK, BINARY_LOCK, NODE_LOCK)
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    head = ""
    if shutil.which("git") is not None:
        head = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    system = f"{platform.python_version()} {platform.machine()} {platform.libc_ver()[1]}"
    inputs = digest(head, system, *rooms, *locks, ROOT / "pyproject.toml")
    return Stamp(WORK / "frozen.stamp", inputs)


# The environment


def _prepare_environment() -> None:
    stamp = Stamp(BUILD_VENV / ".stamp", digest(BINARY_LOCK, str(VENV), platform.python_version()))
    if stamp.holds():
        return
    say(f"Installing the packages of {BINARY_LOCK.name}")
    shutil.rmtree(BUILD_VENV, ignore_errors=True)
    run([_uv(), "venv", "--quiet", "--python", environment.python(), BUILD_VENV])
    _pip_install("--require-hashes", "--requirements", BINARY_LOCK)
    stamp.write()


def _build_wheel() -> Path:
    """Our wheel, with the page and the commit in it; its build is isolated, and hashed."""
    say("Building the wheel")
    wheels = WORK / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    command: list[str | Path] = [_uv(), "build", "--quiet", "--wheel", "--out-dir", wheels]
    for lock in (environment.BUILD_LOCK, *([] if builds_page() else [NODE_LOCK])):
        command += ["--build-constraints", lock]
    run([*command, "--require-hashes", ROOT])
    return next(wheels.glob("*.whl"))


def _install(wheel: Path) -> None:
    _pip_install("--no-deps", "--reinstall", wheel)


def _pip_install(*arguments: str | Path) -> None:
    uv: list[str | Path] = [_uv(), "pip", "install", "--quiet", "--compile-bytecode"]
    run([*uv, "--python", BUILD_VENV / "bin" / "python", *arguments])


def _uv() -> Path:
    return VENV / "bin" / "uv"


def _in_build_environment(code: str) -> str:
    command = [str(BUILD_VENV / "bin" / "python"), "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


# The program


def _run_pyinstaller() -> None:
    module = "from importlib.util import find_spec as f; print(f('app.__main__').origin)"
    rooms = ("app", "store", "web")
    options: list[str | Path] = [
        "--onedir", "--name=unbroken", "--strip", "--noupx", "--clean", "--noconfirm",
        "--distpath", WORK, "--workpath", WORK / "work",
        "--specpath", WORK / "work",
        # Imported by name, or when first needed.
        *(f"--collect-submodules={room}" for room in rooms),
        *(f"--collect-data={room}" for room in rooms),
        # Versions and licences are read from it.
        "--recursive-copy-metadata=unbroken",
        *(f"--exclude-module={name}" for name in UNWANTED),
    ]  # fmt: skip
    env = {
        **os.environ,
        "PYI_LOG_LEVEL": "ERROR",
        "PYINSTALLER_CONFIG_DIR": str(WORK / "cache"),
        "PYTHONHASHSEED": "0",
        # The file is compressed as a whole; in there, each start would inflate each module.
        "PYINSTALLER_ZLIB_COMPRESSION_LEVEL": "0",
        "SOURCE_DATE_EPOCH": "315532800",  # 1980, as old as a zip file's entry can be
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    python = BUILD_VENV / "bin" / "python"
    # Elsewhere than here, where the rooms' folders would be found before the wheel's.
    (WORK / "work").mkdir(parents=True, exist_ok=True)
    program = _in_build_environment(module)
    run([python, "-P", "-m", "PyInstaller", *options, program], cwd=WORK / "work", env=env)


def _add_licences(folder: Path) -> None:
    """Of what is in it beside Python packages: Python, the system's libraries, the bootloader."""
    contents = native_licences.of(WORK / "work" / "unbroken" / "COLLECT-00.toc", BUILD_VENV)
    target = folder / "_internal" / "app" / "native-licences.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(contents), encoding="utf-8")


def _drop_unread(folder: Path) -> None:
    for info in folder.glob("_internal/*.dist-info"):
        for name in OF_INSTALLERS:
            (info / name).unlink(missing_ok=True)


def _glibc(folder: Path) -> int:
    """The newest glibc that any file in it asks for: 35 for 2.35."""
    return max(minor for path in folder.rglob("*") for minor in _glibc_versions(path))


def _glibc_versions(path: Path) -> Iterator[int]:
    if not path.is_file() or path.is_symlink() or path.read_bytes()[:4] != b"\x7fELF":
        return
    command = ["readelf", "--version-info", "--wide", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for minor in re.findall(r"\bGLIBC_2\.(\d+)", listing):
        yield int(minor)
