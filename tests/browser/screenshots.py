"""Pictures of every state of the page. `scripts/screenshots` runs it; look at what it made.

Each state is taken wide in light and dark, and as a phone shows it. What a state needs besides the
page, a server that is gone, say, it has for itself.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chat import Chat
from tests.browser.conftest import ARGUMENTS
from tests.browser.prompts import Prompts, prompted_model
from tests.browser.states import STATES, shortcuts, streaming
from tests.crash.server import RunningServer, running_server

WIDE = {"width": 1180, "height": 820}
PHONE = {"width": 360, "height": 740}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "has_touch": True, "is_mobile": True, "device_scale_factor": 2},
}


def main(folder: Path, executable: str) -> None:
    """Write `STATE-LOOK.png` into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        for look, options in LOOKS.items():
            # A new server for each look, so that lists are short.
            with serving() as (server, prompts):
                for state in STATES:
                    if look == "phone" and state is shortcuts:
                        continue  # it has no keyboard
                    with opened(browser, server, options) as chat:
                        state(chat, prompts)
                        take(chat, folder / f"{state.__name__}-{look}.png")
                with opened(browser, server, options) as chat:
                    streaming(chat, prompts)
                    server.kill9()
                    chat.wait_for_reconnecting()
                    take(chat, folder / f"reconnecting-{look}.png")
                    chat.page.context.set_offline(True)
                    take(chat, folder / f"offline-{look}.png")
            if look == "phone":
                with serving() as (server, prompts), opened(browser, server, options) as chat:
                    chat.send("what the list of a phone looks like")
                    chat.wait_until("finished")
                    chat.get("menu").click()
                    take(chat, folder / "list-phone.png")
        with signed_out(browser) as chat:
            take(chat, folder / "sign_in-light.png")
        browser.close()


def take(chat: Chat, path: Path) -> None:
    # What moves in is there, and a tooltip is not.
    chat.page.wait_for_timeout(600)
    chat.page.screenshot(path=path)
    print(path)


@contextmanager
def serving(**settings: str) -> Iterator[tuple[RunningServer, Prompts]]:
    with tempfile.TemporaryDirectory() as name, prompted_model() as prompts:
        folder = Path(name)
        config = str(prompts.write_config(folder))
        with running_server(folder, model="prompted", config=config, **settings) as server:
            yield server, prompts


@contextmanager
def opened(browser: Browser, server: RunningServer, options: dict[str, Any]) -> Iterator[Chat]:
    context = browser.new_context(**options)
    chat = Chat(context.new_page())
    chat.open(server.url)
    yield chat
    context.close()


@contextmanager
def signed_out(browser: Browser) -> Iterator[Chat]:
    with tempfile.TemporaryDirectory() as name:
        token = Path(name) / "token"
        with serving(token_file=str(token)) as (server, _):
            context = browser.new_context(viewport=WIDE)
            chat = Chat(context.new_page())
            chat.page.goto(server.url.partition("?")[0])  # without the token that is in it
            expect(chat.get("sign-in")).to_be_visible()
            yield chat
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
