"""A package that serves, started by any command."""

import json
import re
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_SECONDS = 60.0
_READY = re.compile(r"Unbroken is ready at (\S+)")


def demo(*options: str) -> list[str]:
    """Arguments of the program: any port, the built-in model."""
    return ["--port", "0", "--model", "demo", *options]


class Served:
    """A package that serves, started by any command."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE_SECONDS) as response:
            body: bytes = response.read()
            return body

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ends it by the signal; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def served(
    command: list[str], variables: dict[str, str], folder: Path | None = None
) -> Iterator[Served]:
    """Start it and wait until it says that it is ready; killed at the end if it still runs.

    Raises:
        AssertionError: it ended or stayed silent instead; the text is what it wrote.
    """
    process = subprocess.Popen(
        command,
        env=variables,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
        watchdog.cancel()
        ready = _READY.match(line)
        if ready is None:
            process.kill()
            raise AssertionError(f"{line!r}, {process.stderr.read()}")
        yield Served(process, ready[1])
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def answer(server: Served, thread: str, text: str) -> str:
    """What the model says to `text`; the thread is new."""
    body = {"id": f"m-{thread}", "parts": [{"type": "text", "text": text}]}
    request = urllib.request.Request(
        f"{server.url}/api/threads/{thread}/messages",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Accept": "text/event-stream"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
        stream: str = response.read().decode()
    events = [json.loads(data) for data in re.findall(r"^data: (.+)$", stream, re.MULTILINE)]
    assert events[-1]["type"] == "outcome"
    return "".join(event["delta"] for event in events if event["type"] == "text-delta")
