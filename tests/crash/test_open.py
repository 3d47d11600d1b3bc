"""`--open`: the page in the person's browser, which the server does not wait for."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.server import PATIENCE_SECONDS, environment

NOTHING = "/nowhere"  # a PATH and a display


@contextmanager
def opening(tmp_path: Path, browser: str) -> Iterator["subprocess.Popen[str]"]:
    """A server that was started with `--open` and has said that it is ready."""
    command = [sys.executable, "-m", "app", "--open", "--port", "0", "--data", str(tmp_path)]
    variables = environment({}) | {"PATH": NOTHING, "BROWSER": browser}
    variables.pop("DISPLAY", None)
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            assert "is ready at" in process.stdout.readline()
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def test_without_a_browser_it_says_so(tmp_path: Path) -> None:
    with opening(tmp_path, "") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == (
            "No browser was found here: open the address yourself.\n"
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_browser_that_does_not_come_back_holds_nothing_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Those of a terminal run in the foreground."""
    browser, opened, left = (tmp_path / name for name in ("browser", "opened", "left"))
    os.mkfifo(left)
    shown = f'echo "$1" > {opened}.new; /bin/mv {opened}.new {opened}'
    browser.write_text(f"#!/bin/sh\n{shown}\nread line < {left}\n")
    browser.chmod(0o755)
    with opening(tmp_path, f"{browser} %s") as process:
        while not opened.exists():
            assert process.poll() is None
        assert opened.read_text().startswith("http://127.0.0.1:")
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 0
    with open(os.open(left, os.O_RDWR), "wb", buffering=0) as both:
        both.write(b"\n")
