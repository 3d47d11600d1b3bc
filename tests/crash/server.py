"""A real server as a process of its own, to be killed, stopped and started again.

Everything here blocks for a moment; from Trio call it through `trio.to_thread.run_sync`. The data
folder and the port outlive the process, so a page or a client can wait for the next start.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# No start or end on a healthy machine takes nearly as long.
PATIENCE_SECONDS = 30.0

_READY = re.compile(r"Unbroken is ready at (\S+)")
# What the machine's own environment might say about servers and models.
_FOREIGN = ("UNBROKEN_", "OPENAI_", "OLLAMA_", "PYTEST_")


class RunningServer:
    """One data folder and the process that serves it now. Make it with `running_server`.

    Settings are those of the environment without their prefix: `model="bench"`, `grace="2s"`.
    """

    def __init__(self, data: Path, **settings: str) -> None:
        self.data = data
        self.settings = settings
        self.url = ""  # the same after each restart
        self.output = data.with_name(f"{data.name}.log")  # stderr of all lives
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return self._living().pid

    @property
    def database(self) -> Path:
        return self.data / "unbroken.db"

    def start(self, **settings: str) -> None:
        """Start the process; returns as soon as it says that it is ready.

        Args:
            settings: changes to those it was made with, for this life and the later ones.

        Raises:
            AssertionError: it ended or stayed silent instead; the text holds what it wrote.
        """
        assert self._process is None, "it is running"
        self.settings |= settings
        port = self.url.rpartition(":")[2].partition("/")[0] or "0"
        self.data.mkdir(parents=True, exist_ok=True)
        with open(self.output, "a", encoding="utf-8") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app", "--port", port, "--data", str(self.data)],
                # No unbroken.toml is there; the package is found where the tests found it.
                cwd=self.data,
                env=environment(self.settings),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        line = self._first_line()
        ready = _READY.search(line)
        if ready is None:
            self.kill9()
            raise AssertionError(f"no server: {line!r}, {self.output.read_text('utf-8')}")
        self.url = ready[1].rstrip("/")

    def kill9(self) -> None:
        """End it as the kernel does when memory is short. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM), without waiting: `wait` does."""
        self._living().send_signal(signal.SIGTERM)

    def interrupt(self) -> None:
        """Ctrl+C, without waiting; does nothing to one that has ended."""
        self._living().send_signal(signal.SIGINT)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for the end; returns the exit code. Raises subprocess.TimeoutExpired."""
        self._living().wait(seconds)
        return self._reap()

    def restart(self, **settings: str) -> None:
        """Start it again on the same folder and port; one that still runs is killed first."""
        self.kill9()
        self.start(**settings)

    def _living(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it is not running"
        return self._process

    def _reap(self) -> int:
        process, self._process = self._living(), None
        code = process.wait(PATIENCE_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def _first_line(self) -> str:
        """The first line of the output, "" if it ends without one. A silent process is killed."""
        process = self._living()
        assert process.stdout is not None
        watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
        watchdog.start()
        try:
            return process.stdout.readline()
        finally:
            watchdog.cancel()
            watchdog.join()


def environment(settings: dict[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_FOREIGN)}
    root = str(Path(__file__).resolve().parents[2])
    ours = {f"UNBROKEN_{name.upper()}": text for name, text in settings.items()}
    return {**kept, "PYTHONPATH": root, **ours}


@contextmanager
def running_server(folder: Path, **settings: str) -> Iterator[RunningServer]:
    """A started server whose data is in `folder`; killed at the end, if nothing ended it before.

    The model is the demonstration; `model="bench"` is the one that follows instructions exactly.
    """
    if settings.setdefault("model", "demo") == "bench":
        settings["bench_model"] = "1"
    server = RunningServer(folder / "data", **settings)
    server.start()
    try:
        yield server
    finally:
        server.kill9()
