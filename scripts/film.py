"""The story that the moving picture tells, played in Chromium against a server of its own.

Started by scripts/picture, with the file to write.
"""

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

import chromium
from animation import Frame, animate
from step import VENV, child_environment, say

SIZE = {"width": 760, "height": 480}
FRAME_MS = 333
LAST_MS = 3000
MESSAGE = "How do you survive all this?"
CAPTION = """text => {
  const box = document.getElementById("caption") ?? document.body.appendChild(
    Object.assign(document.createElement("div"), {id: "caption"}));
  box.textContent = text;
  Object.assign(box.style, {
    position: "fixed", right: "16px", top: "12px", padding: "6px 14px", borderRadius: "16px",
    font: "600 15px system-ui, sans-serif", color: "white", background: "#b3261e", zIndex: 1000,
    display: text ? "block" : "none",
  });
}"""


class Server:
    """One data folder and one port, over several lives."""

    def __init__(self, data: str) -> None:
        self.data = data
        self.port = "0"
        self.url = ""
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                VENV / "bin" / "unbroken",
                "--port",
                self.port,
                "--data",
                self.data,
                "--model",
                "demo",
            ],
            cwd=self.data,
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        ready = re.match(r"Unbroken is ready at (\S+:(\d+))", self.process.stdout.readline())
        assert ready is not None, "the server did not start"
        self.url, self.port = ready[1], ready[2]

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.communicate()


class Film:
    """Takes pictures of the page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Frame] = []
        self.caption = ""

    def say(self, text: str) -> None:
        """A line above the page, from now on; "" for none."""
        self.caption = text

    def roll(self, seconds: float) -> None:
        """Pictures for so long."""
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            self.page.evaluate(CAPTION, self.caption)
            self.frames.append(Frame(self.page.screenshot(animations="disabled"), FRAME_MS))
            time.sleep(max(0.0, FRAME_MS / 1000 - (time.monotonic() - began)))

    def write(self, file: Path) -> None:
        self.frames.append(Frame(self.frames[-1].png, LAST_MS))
        file.write_bytes(animate(self.frames))
        say(f"{file}: {len(self.frames)} pictures, {file.stat().st_size / 1e6:.1f} MB")


def play(page: Page, server: Server, film: Film) -> None:
    page.goto(server.url)
    box = page.get_by_role("textbox")
    expect(box).to_be_visible()
    film.roll(0.5)
    for word in MESSAGE.split(" "):
        box.press_sequentially(f"{word} ")
        film.roll(0.3)
    box.press("Enter")
    film.roll(2.5)
    film.say("The page is reloaded")
    film.roll(0.5)
    page.reload()
    film.roll(2)
    film.say("kill -9 of the server")
    server.end(signal.SIGKILL)
    film.roll(2)
    film.say("The server is started again")
    server.start()
    film.roll(2.5)
    film.say("")
    film.roll(2)


def shoot(file: Path) -> None:
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.path(), args=["--no-sandbox", "--disable-gpu"]
        )
        server = Server(data)
        try:
            page = browser.new_page(viewport={"width": SIZE["width"], "height": SIZE["height"]})
            film = Film(page)
            play(page, server, film)
            film.write(file)
        finally:
            server.end(signal.SIGKILL)
            browser.close()


if __name__ == "__main__":
    shoot(Path(sys.argv[1]))
