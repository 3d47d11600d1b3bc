"""The page as a person uses it, and the log it has to show."""

import re
from typing import Any

import httpx2
from playwright.sync_api import Locator, Page, expect

from app.events import decode
from app.message import Fold
from tests.crash.server import RunningServer

# Nothing that is to happen takes nearly as long on a healthy machine.
PATIENCE_MS = 30_000

expect.set_options(timeout=PATIENCE_MS)

# Before the page's own script: what each answer's and the connection's state was, in order.
RECORDER = """
window.states = [];
window.connections = [];
new MutationObserver(() => {
  const connection = document.querySelector('[data-testid=connection]')?.dataset.state;
  if (connection && window.connections.at(-1) !== connection) window.connections.push(connection);
  for (const message of document.querySelectorAll('[data-testid=message][data-role=assistant]')) {
    const seen = message.dataset.id + ' ' + message.dataset.state;
    if (window.states.at(-1) !== seen) window.states.push(seen);
  }
}).observe(document, { subtree: true, childList: true, attributes: true });
"""


class Chat:
    """One open page."""

    def __init__(self, page: Page, *, recorded: bool = True) -> None:
        """`recorded`: for `states` and `connections`; it looks through the page at each change."""
        self.page = page
        page.set_default_timeout(PATIENCE_MS)
        if recorded:
            page.add_init_script(RECORDER)

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.wait_until_ready()

    def reload(self) -> None:
        self.page.reload()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Until what the address names is loaded."""
        expect(self.page.locator("html[data-ready]")).to_be_attached()

    def close(self) -> None:
        self.page.close()

    # what a person sees

    def get(self, testid: str) -> Locator:
        return self.page.get_by_test_id(testid)

    @property
    def messages(self) -> Locator:
        return self.get("message")

    @property
    def answer(self) -> Locator:
        """The last one."""
        return self.page.locator("[data-testid=message][data-role=assistant]").last

    @property
    def stop_button(self) -> Locator:
        return self.get("stop")

    @property
    def address(self) -> str:
        return str(self.page.url)

    @property
    def thread(self) -> str:
        return self.address.rpartition("/")[2]

    def state(self) -> str | None:
        return self.answer.get_attribute("data-state")

    def shown(self) -> str:
        """The words of the last answer, as they are rendered."""
        return " ".join(self.answer.locator(".markdown").all_inner_texts())

    def source(self) -> str:
        """The text of the last answer, to the byte; for one that has ended."""
        text = self.show_source()
        self.answer.get_by_test_id("show-source").click()
        return text

    def show_source(self) -> str:
        """The same; the answer is shown like that from now on, and is not drawn again."""
        self.answer.get_by_test_id("show-source").click()
        text = self.answer.get_by_test_id("source").text_content()
        assert text is not None
        return text

    def states(self) -> list[str]:
        """What the last answer's state was, in order, since the page was loaded."""
        id_ = self.answer.get_attribute("data-id")
        seen: list[str] = self.page.evaluate("window.states")
        return [one.split(" ")[1] for one in seen if one.startswith(f"{id_} ")]

    def connections(self) -> list[str]:
        """What the line about the connection was, in order, since this was last asked."""
        seen: list[str] = self.page.evaluate("window.connections.splice(0)")
        return seen

    def wait_for_reconnecting(self) -> None:
        """Until the line said so since it was last asked, be it for a moment."""
        self.page.wait_for_function("() => window.connections.includes('reconnecting')")

    # what a person does

    def send(self, text: str) -> None:
        self.get("input").fill(text)
        self.get("send").click()

    def wait_for_words(self, count: int) -> None:
        """Until the last answer shows the first so many words of `words`."""
        expect(self.answer).to_contain_text(words(count)[-1].strip())

    def wait_until(self, state: str) -> None:
        expect(self.answer).to_have_attribute("data-state", state)


class Log:
    """What the server has on record of a thread's last answer."""

    def __init__(self, server: RunningServer, thread: str) -> None:
        self._http = httpx2.Client(base_url=server.url, timeout=PATIENCE_MS / 1000)
        self._thread = thread

    @property
    def answer(self) -> Any:
        snapshot = self._http.get(f"/api/threads/{self._thread}").json()
        return snapshot["messages"][-1]

    def wait_for_end(self) -> str:
        """The state the answer has ended in."""
        stream = self.answer["turn"]["stream"]
        self._http.get(f"/api/streams/{stream}")  # ends with it
        return str(self.answer["turn"]["state"])

    def text(self) -> str:
        """The fold of the ended answer's stream: each event once, in order."""
        body = self._http.get(f"/api/streams/{self.answer['turn']['stream']}").text
        fold = Fold()
        for data in re.findall(r"^data: (.*)$", body, re.MULTILINE):
            fold.apply(decode(data.encode()))
        text = "".join(part.get("text", "") for part in fold.parts())
        stored = "".join(part.get("text", "") for part in self.answer["parts"])
        assert text == stored
        return text

    def close(self) -> None:
        self._http.close()


def words(count: int, first: int = 0) -> list[str]:
    """Words that can be told apart, each a piece of an answer."""
    return [f"word{n:05d} " for n in range(first, first + count)]
