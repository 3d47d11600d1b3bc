"""Machines without Python and Node to start a package on: root folders for chroot.

`bare_root` holds copies of a few programs of this machine and takes a moment; `debian_root` is a
Debian of any age, made by debootstrap in half a minute and kept in .cache for the next time.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHROOT = shutil.which("chroot") or "chroot"
CAN_CHROOT = os.getuid() == 0

# What the launcher calls, and what the test looks with.
PROGRAMS = (
    "chmod", "getconf", "gzip", "head", "id", "ls", "mkdir", "mktemp", "mv", "rm", "sh", "tail",
    "tar", "uname",
)  # fmt: skip
NOBODY = 65534


def bare_root(folder: Path) -> Path:
    """A root with PROGRAMS of this machine, the C library, and nothing else."""
    for name in ("bin", "dev", "tmp", "home", "data"):
        (folder / name).mkdir(parents=True)
    for name in PROGRAMS:
        source = shutil.which(name)
        assert source is not None, name
        shutil.copy(source, folder / "bin" / name)
        listing = subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+)", listing):
            _copy(Path(library), folder)
    # What the program itself needs of a system: the C library and zlib.
    for name in ("libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1",
                 "libz.so.1"):  # fmt: skip
        for library in Path("/").glob(f"lib/*/{name}"):
            _copy(library, folder)
    return _for_nobody(folder)


def debian_root(suite: str) -> Path:
    """Debian's smallest installation of that suite, as debootstrap makes it."""
    folder = ROOT / ".cache" / "roots" / suite
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        keys = [] if Path("/usr/share/keyrings").exists() else ["--no-check-gpg"]
        command = ["debootstrap", "--variant=minbase", *keys, suite, str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name in ("home", "data"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "complete").touch()
    return _for_nobody(folder)


def _copy(file: Path, root: Path) -> None:
    target = root / file.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def _for_nobody(root: Path) -> Path:
    null = root / "dev" / "null"
    if not null.is_char_device():
        null.unlink(missing_ok=True)
        os.mknod(null, 0o666 | 0o020000, os.makedev(1, 3))
        null.chmod(0o666)
    for name in ("home", "data", "tmp"):
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir()
        os.chown(root / name, NOBODY, NOBODY)
    os.chown(root / "tmp", 0, 0)
    (root / "tmp").chmod(0o1777)
    return root


def inside(root: Path, *command: str) -> list[str]:
    """The command, for this machine, that runs another one in there, as nobody."""
    return [CHROOT, f"--userspec={NOBODY}:{NOBODY}", str(root), *command]


# What a person's shell has in there.
VARIABLES = {"HOME": "/home", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
