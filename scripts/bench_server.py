"""The server under test: a process of its own, with a database of its own, and what it costs."""

import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from step import VENV, SetupError, child_environment

START_SECONDS = 60.0
STOP_SECONDS = 30.0

_READY = re.compile(r"Unbroken is ready at http://([\d.]+):(\d+)")


class Server:
    """A running server. `address` is where it answers, `started` how long that took, in seconds."""

    def __init__(self, process: "subprocess.Popen[str]", address: tuple[str, int], started: float):
        self.pid = process.pid
        self.address = address
        self.started = started
        self._process = process

    def cpu(self) -> float:
        """CPU seconds of all its threads since it began, also of those that have ended."""
        # What clock_getcpuclockid(3) of the C library computes: a clock of another process, in
        # nanoseconds, where /proc/PID/stat counts 10 ms ticks.
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()

    def stop(self) -> None:
        """End it as an operator would; the readers are gone, so it goes at once. Idempotent."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGTERM)  # the second one does not wait for turns
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(data: Path, bytecode: Path | None = None) -> Iterator[Server]:
    """A server with the benchmark's model, on a free port, for the length of the block.

    Args:
        data: the folder of its database.
        bytecode: where it keeps compiled modules; an empty folder makes it compile all of them.
            None: beside the sources, as always.

    Raises:
        SetupError: it does not start; what it had to say is on the terminal.
    """
    began = time.monotonic()
    process = subprocess.Popen(
        [VENV / "bin" / "unbroken", "--port", "0", "--data", data],
        env=_environment(bytecode),
        cwd=data.parent,  # where no unbroken.toml lies
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = _address(process)
        server = Server(process, address, time.monotonic() - began)
        yield server
        server.stop()
    finally:
        process.kill()  # no server outlives its benchmark, whatever happened
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _environment(bytecode: Path | None) -> dict[str, str]:
    child = {k: v for k, v in child_environment().items() if not k.startswith("UNBROKEN_")}
    child |= {"UNBROKEN_BENCH_MODEL": "1", "UNBROKEN_MODEL": "bench", "PYTHONUNBUFFERED": "1"}
    child |= {"UNBROKEN_LOG_LEVEL": "error"}
    if bytecode is not None:
        child["PYTHONPYCACHEPREFIX"] = str(bytecode)
    return child


def _address(process: "subprocess.Popen[str]") -> tuple[str, int]:
    """Wait for the line that says where it answers."""
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            if ready := _READY.match(line):
                return ready[1], int(ready[2])
    finally:
        watchdog.cancel()
    raise SetupError("the server did not start")


def raise_file_limit() -> None:
    """A connection is a file on both sides, and the server inherits our limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def machine_cpu() -> float:
    """CPU seconds that all processes of the machine have used, stolen time included."""
    fields = os.fsencode("/proc/stat")
    with open(fields, encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(
            int, file.readline().split()[1:9]
        )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
