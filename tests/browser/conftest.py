"""Browsers, a server of its own for each test, and a bad network between them."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Playwright,
    TimeoutError,
)

import chromium
from tests.browser.chat import Chat
from tests.browser.model import ScriptedModel, scripted_model
from tests.browser.prompts import Prompts, prompted_model
from tests.browser.proxy import Proxy, proxy_to
from tests.crash.server import RunningServer, running_server

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 60
ATTACH_ATTEMPTS = 4

OpenChat = Callable[..., Chat]


@pytest.fixture(scope="package")
def executable() -> str:
    return os.environ.get("CHROME_BIN") or chromium.path()


@pytest.fixture(scope="package")
def browser(playwright: Playwright, executable: str) -> Iterator[Browser]:
    """Chromium as playwright runs it: its pages are always visible and focused."""
    found = playwright.chromium.launch(
        executable_path=executable,
        args=ARGUMENTS,
        # Playwright turns the back/forward cache off, which people have.
        ignore_default_args=["--disable-back-forward-cache"],
    )
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _no_page_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A page that a failed test left open goes on drawing, and slows all that follow."""
    found = request.getfixturevalue("browser") if "browser" in request.fixturenames else None
    yield
    for context in found.contexts if found else ():
        context.close()


@pytest.fixture
def real(playwright: Playwright, executable: str) -> Iterator[BrowserContext]:
    """A Chromium without playwright's make-believe: tabs in the back are hidden and throttled."""
    # Chromium's children write into it for a moment longer than it lives.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        own = ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            [executable, *ARGUMENTS, *own],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        try:
            found = _attach(playwright, _debugging_address(process))
            yield found.contexts[0]
            found.close()
        finally:
            process.kill()
            process.wait(START_SECONDS)
            assert process.stderr is not None
            process.stderr.close()


def _attach(playwright: Playwright, address: str) -> Browser:
    """On a busy machine Chromium now and then does not answer the first who asks so early."""
    for attempt in range(ATTACH_ATTEMPTS):
        try:
            return playwright.chromium.connect_over_cdp(
                address, no_defaults=True, timeout=START_SECONDS * 1000 / ATTACH_ATTEMPTS
            )
        except TimeoutError:
            if attempt == ATTACH_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _debugging_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"DevTools listening on (\S+)", line):
            return match[1]
    raise AssertionError("Chromium ended at its start")


@pytest.fixture
def scripted() -> Iterator[tuple[ScriptedModel, str]]:
    with scripted_model() as found:
        yield found


@pytest.fixture
def model(scripted: tuple[ScriptedModel, str]) -> ScriptedModel:
    """What the server's model says is up to the test."""
    return scripted[0]


@pytest.fixture
def server(tmp_path: Path, scripted: tuple[ScriptedModel, str]) -> Iterator[RunningServer]:
    """With two models: `model`, the default, and the benchmark model."""
    config = tmp_path / "unbroken.toml"
    config.write_text(f'[models.scripted]\nbase_url = "{scripted[1]}"\nmodel = "scripted"\n')
    with running_server(tmp_path, model="scripted", config=str(config), bench_model="1") as found:
        yield found


@pytest.fixture(scope="package")
def prompts() -> Iterator[Prompts]:
    """What the model of `shared` answers."""
    with prompted_model() as found:
        yield found


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory, prompts: Prompts) -> Iterator[RunningServer]:
    """One server for all tests that look at a page, not at a server. Its threads are all tests'."""
    folder = tmp_path_factory.mktemp("shared")
    config = str(prompts.write_config(folder))
    with running_server(folder, model="prompted", config=config) as found:
        yield found


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[Proxy]:
    with proxy_to(server.url) as found:
        yield found


@pytest.fixture
def open_chat(browser: Browser) -> Iterator[OpenChat]:
    """`open_chat(url)` opens the page in a context of its own, another device so to say.

    No page may have raised an error, or have been stopped by its policy, when the test ends.
    """
    faults: list[str] = []
    with ExitStack() as contexts:

        def start(
            url: str, context: BrowserContext | None = None, *, recorded: bool = True
        ) -> Chat:
            if context is None:
                context = browser.new_context()
                contexts.callback(context.close)
            page = context.new_page()
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", lambda message: faults.extend(_violation(message.text)))
            chat = Chat(page, recorded=recorded)
            chat.open(url)
            return chat

        yield start
    assert faults == []


def _violation(text: str) -> list[str]:
    return [text] if re.search("Content.Security.Policy|Trusted", text) else []
