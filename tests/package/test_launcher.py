"""The launcher of the single file: what it unpacks where, what it says, what it leaves behind.

The program inside is a shell script here; test_package_binary.py has the real one.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import launcher
from app import unpacked
from launcher import Target

PROGRAM = """#!/bin/sh
[ "${1:-}" != pid ] || { echo $$; exit; }
[ "${1:-}" != wait ] || { echo waiting; exec sleep 600; }
echo "$0 | $* | $UNBROKEN_EXECUTABLE"
"""
MACHINE = os.uname().machine
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


class Machine:
    """A person's folders, and the file that they downloaded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.temporary = root / "tmp"
        self.programs = root / "programs"
        for folder in (self.home, self.temporary, self.programs):
            folder.mkdir()
        self.file = root / "downloads" / "unbroken"
        self.pack()

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "unbroken"

    def pack(self, program: str = PROGRAM, machine: str = MACHINE, glibc: int = 17) -> None:
        folder = self.root / "program"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "_internal").mkdir(parents=True)
        (folder / "_internal" / "lib.so").write_bytes(os.urandom(100_000))
        (folder / "unbroken").write_text(program)
        (folder / "unbroken").chmod(0o755)
        launcher.pack(folder, self.file, Target("1.2.3", machine, glibc))

    def environment(self, **changes: str) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            **changes,
        }

    def start(self, *arguments: str, **changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.file, *arguments],
            env=self.environment(**changes),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **changes: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **changes)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def unpacked(self) -> list[Path]:
        return sorted(self.cache.iterdir())

    def secure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the server in the folder does once it answers."""
        (folder,) = self.unpacked()
        monkeypatch.setenv(unpacked.EXECUTABLE, str(self.file))
        monkeypatch.setattr(sys, "executable", str(folder / "unbroken"))
        unpacked.secure()
        monkeypatch.delenv(unpacked.EXECUTABLE)

    def lose_power(self) -> None:
        """What was unpacked before has the name of another boot."""
        for folder in self.unpacked():
            if folder.name.endswith(BOOT) and not folder.is_symlink():
                folder.rename(folder.with_name(folder.name.removesuffix(BOOT) + OTHER_BOOT))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_starts_become_the_program_that_the_first_one_unpacked(machine: Machine) -> None:
    code, out, err = machine.run("serve", "--port", "1 2")
    (folder,) = machine.unpacked()
    assert (code, err) == (0, "")
    assert out == f"{folder}/unbroken | serve --port 1 2 | {machine.file}\n"
    content = folder.name.removesuffix(f"-{BOOT}")
    assert re.search(f"^key={content}$", machine.file.read_bytes().decode("latin-1"), re.MULTILINE)
    (folder / "_internal" / "lib.so").write_text("kept")
    assert machine.run()[0] == 0
    assert (folder / "_internal" / "lib.so").read_text() == "kept"


def test_it_is_one_process_which_signals_reach(machine: Machine) -> None:
    process = machine.start("pid")
    assert process.communicate(timeout=60)[0] == f"{process.pid}\n"
    process = machine.start("wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == -signal.SIGTERM
    process.communicate()


def test_what_is_on_the_disk_is_used_after_the_next_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.run()
    machine.secure(monkeypatch)
    link, folder = machine.unpacked()
    assert link.samefile(folder)
    assert machine.run("x") == (0, f"{link}/unbroken | x | {machine.file}\n", "")


def test_what_may_be_incomplete_after_a_power_cut_is_unpacked_again(machine: Machine) -> None:
    machine.run()
    machine.lose_power()
    (old,) = machine.unpacked()
    (old / "unbroken").write_bytes(b"")
    assert machine.run()[0] == 0
    assert len(machine.unpacked()) == 2


def test_without_a_boot_to_name_the_disk_is_waited_for(machine: Machine) -> None:
    script = machine.file.read_bytes()
    machine.file.write_bytes(script.replace(b"random/boot_id", b"random/bood_id"))
    (machine.programs / "sync").write_text('#!/bin/sh\n: > "$HOME/synced"\n')
    (machine.programs / "sync").chmod(0o755)
    assert machine.run()[0] == 0
    (folder,) = machine.unpacked()
    assert re.fullmatch("[0-9a-f]{16}", folder.name)
    assert (machine.home / "synced").exists()


def test_another_version_gets_a_folder_of_its_own(machine: Machine) -> None:
    machine.run()
    machine.pack()
    machine.run()
    assert len(machine.unpacked()) == 2


def test_the_same_program_gives_the_same_file(machine: Machine) -> None:
    first = machine.file.read_bytes()
    folder = machine.root / "program"
    os.utime(folder / "unbroken", (1, 1))
    launcher.pack(folder, machine.file, Target("1.2.3", MACHINE, 17))
    assert machine.file.read_bytes() == first


@pytest.mark.parametrize("name", ["unbroken", "./unbroken", "downloads/../downloads/unbroken"])
def test_it_finds_itself_however_it_is_called(machine: Machine, name: str) -> None:
    folder = machine.file.parent
    folder = folder.parent if name.startswith("downloads") else folder
    path = f"{machine.file.parent}{os.pathsep}{os.environ['PATH']}"
    code = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [shutil.which("python3") or "python3", "-c", code, name, "x"],
        cwd=folder,
        env=machine.environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    shown = Path(done.stdout.strip().rpartition(" | ")[2])
    assert shown.is_absolute()
    assert shown.samefile(machine.file)


def test_starts_at_the_same_time_all_work(machine: Machine) -> None:
    processes = [machine.start("x") for _ in range(8)]
    outputs = {process.communicate(timeout=60) for process in processes}
    (folder,) = machine.unpacked()
    assert outputs == {(f"{folder}/unbroken | x | {machine.file}\n", "")}
    assert sorted(path.name for path in folder.iterdir()) == ["_internal", "unbroken"]


def test_broken_off_unpacking_is_done_again(machine: Machine) -> None:
    """Killed in the middle: what it left has no name that a start would take."""
    # Two of them run, a half each; one tells.
    tell = 'mkdir "$STARTED.once" 2>/dev/null && : > "$STARTED"'
    stopper = f'#!/bin/sh\n{tell}\nread line < "$GO_ON"\n'
    (machine.programs / "tar").write_text(stopper)
    (machine.programs / "tar").chmod(0o755)
    started, go_on = machine.root / "started", machine.root / "go-on"
    os.mkfifo(started)
    os.mkfifo(go_on)
    process = machine.start(STARTED=str(started), GO_ON=str(go_on))
    started.read_text()  # waits for it to unpack
    process.kill()
    process.wait()
    with open(os.open(go_on, os.O_RDWR), "wb", buffering=0) as both:
        both.write(b"\n\n")
        process.communicate()
    assert [path.name[:5] for path in machine.unpacked()] == [".new-"]
    (machine.programs / "tar").unlink()
    assert machine.run()[0] == 0
    assert len(machine.unpacked()) == 2


# Where it cannot


def test_without_a_home_it_unpacks_into_the_temporary_folder(machine: Machine) -> None:
    code, out, err = machine.run(HOME="/dev/null")
    assert (code, err) == (0, "")
    assert out.startswith(f"{machine.temporary}/unbroken-{os.getuid()}/")


def test_a_folder_that_leads_elsewhere_is_not_used(machine: Machine) -> None:
    """In a folder that all may write to, anybody can put a link of that name."""
    bait = machine.root / "bait"
    bait.mkdir()
    (machine.temporary / f"unbroken-{os.getuid()}").symlink_to(bait)
    code, out, err = machine.run(HOME="/dev/null")
    assert (code, out) == (1, "")
    assert "is not a folder that we can write to" in err
    assert list(bait.iterdir()) == []


if os.getuid() == 0:

    def test_a_folder_of_somebody_else_is_not_used(machine: Machine) -> None:
        machine.run()
        (folder,) = machine.unpacked()
        os.chown(machine.cache, 65534, 65534)
        code, out, _ = machine.run("x")
        assert code == 0
        assert not out.startswith(str(folder))


def half(content: bytes) -> int:
    """Bytes of the second of the two archives."""
    script, _, payload = content.partition(b'names another place."\n')
    match = re.search(rb"^half=(\d+)", script, re.MULTILINE)
    assert match is not None
    return len(payload) - int(match[1])


@pytest.mark.parametrize("first", [False, True])
def test_an_incomplete_file_says_so(machine: Machine, first: bool) -> None:
    """Whichever half it is that has a hole: then the other is whole."""
    content = machine.file.read_bytes()
    end = len(content) - (half(content) if first else 0)
    hole = bytes(40) if first else b""
    machine.file.write_bytes(content[: end - 40] + hole + (content[end:] if first else b""))
    code, out, err = machine.run()
    assert (code, out) == (1, "")
    assert err.startswith("unbroken: cannot unpack itself. ")
    assert "is the disk full, or this file incomplete? gzip: " in err
    assert machine.unpacked() == []
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("glibc 2.31", "this file needs glibc 2.35 or newer; this system has glibc 2.31."),
        ("", "this system has no glibc, which this file needs."),
    ],
)
def test_a_system_that_is_too_old_is_told(machine: Machine, says: str, message: str) -> None:
    machine.pack(glibc=35)
    (machine.programs / "getconf").write_text(f"#!/bin/sh\necho '{says}'\n")
    (machine.programs / "getconf").chmod(0o755)
    code, out, err = machine.run()
    assert (code, out) == (1, "")
    assert err.startswith(f"unbroken: {message} Install Unbroken with uv or pipx instead")


@pytest.mark.parametrize("says", ["glibc 2.35", "glibc 2.41.9000"])
def test_a_system_that_is_new_enough_is_accepted(machine: Machine, says: str) -> None:
    machine.pack(glibc=35)
    (machine.programs / "getconf").write_text(f"#!/bin/sh\necho '{says}'\n")
    (machine.programs / "getconf").chmod(0o755)
    assert machine.run()[0] == 0


def test_another_kind_of_machine_is_told(machine: Machine) -> None:
    machine.pack(machine="riscv128")
    code, _, err = machine.run()
    assert code == 1
    assert err == (f"unbroken: this file is for Linux on riscv128; this is Linux on {MACHINE}.\n")


# What is swept


def folders(tmp_path: Path, ages: dict[str, float]) -> Path:
    """Folders with a file in each, last used so many seconds ago."""
    for name, age in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_long_unused_versions_and_broken_off_ones_are_removed(tmp_path: Path) -> None:
    day = 24 * 3600.0
    ages = {
        "0123456789abcdef": 300 * day,  # ours
        "1111111111111111": 31 * day,
        "2222222222222222": 29 * day,
        ".new-x7Yz12": 2 * 3600.0,
        ".new-busy12": 60.0,
        ".old-3333333333333333": 2 * 3600.0,
        "something-else": 300 * day,
    }
    folders(tmp_path, ages)
    unpacked.sweep(tmp_path / "0123456789abcdef", time.time(), BOOT)
    left = {"0123456789abcdef", "2222222222222222", ".new-busy12", "something-else"}
    assert names(tmp_path) == left


def test_a_version_that_runs_is_kept_however_old(tmp_path: Path) -> None:
    folders(tmp_path, {"0123456789abcdef": 0, "1111111111111111": 1e9})
    handle = os.open(tmp_path / "1111111111111111", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        unpacked.sweep(tmp_path / "0123456789abcdef", time.time(), BOOT)
        assert "1111111111111111" in names(tmp_path)
    finally:
        os.close(handle)
    unpacked.sweep(tmp_path / "0123456789abcdef", time.time(), BOOT)
    assert names(tmp_path) == {"0123456789abcdef"}


def test_what_another_boot_left_unsecured_is_removed(tmp_path: Path) -> None:
    ages = {
        f"0123456789abcdef-{BOOT}": 0.0,  # ours
        f"1111111111111111-{BOOT}": 60.0,
        f"2222222222222222-{OTHER_BOOT}": 60.0,
        f"3333333333333333-{OTHER_BOOT}": 60.0,
        f"4444444444444444-{OTHER_BOOT}": 1e9,
    }
    folders(tmp_path, ages)
    for secured in ("3" * 16, "4" * 16):
        (tmp_path / secured).symlink_to(f"{secured}-{OTHER_BOOT}")
    unpacked.sweep(tmp_path / f"0123456789abcdef-{BOOT}", time.time(), BOOT)
    left = [f"0123456789abcdef-{BOOT}", f"1111111111111111-{BOOT}"]
    assert names(tmp_path) == {*left, "3" * 16, f"3333333333333333-{OTHER_BOOT}"}
