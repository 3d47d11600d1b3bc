"""A thread of five hundred messages, and more threads than a page of the list."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat import PATIENCE_MS, Chat
from tests.browser.conftest import OpenChat
from tests.browser.long_tasks import traced
from tests.browser.prompts import Prompts
from tests.browser.test_rendering import LONGEST_TASK_MS, ROOM
from tests.crash.server import RunningServer, running_server

pytestmark = [pytest.mark.browser, pytest.mark.requirement("F8")]

QUESTIONS = 250
THREADS = 120  # three pages

ANSWER = """\
## Title {n}

Some **bold** words:
- one
- two

```js
let x = {n};
```

| a |
|---|
| {n} |
"""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, prompts: Prompts) -> Iterator[RunningServer]:
    """A server whose newest thread is the long one."""
    folder = tmp_path_factory.mktemp("full")
    config = str(prompts.write_config(folder))
    with running_server(folder, model="prompted", config=config) as server:
        with httpx2.Client(base_url=server.url, timeout=PATIENCE_MS / 1000) as http:
            for n in range(THREADS):
                stream = post(http, f"thread-{n:05d}", f"message-{n:05d}", f"thread number {n}")
                http.get(f"/api/streams/{stream}")  # ends with it: the list is in this order
            for n in range(QUESTIONS):
                prompts.says(f"question {n}", ANSWER.format(n=n))
                post(http, "the-long-thread", f"question-{n:05d}", f"question {n}")
            last = http.get("/api/threads/the-long-thread").json()["messages"][-1]
            http.get(f"/api/streams/{last['turn']['stream']}")  # ends with it
        yield server


def post(http: httpx2.Client, thread: str, message: str, text: str) -> str:
    """The stream of its turn."""
    body = {"id": message, "parts": [{"type": "text", "text": text}]}
    answer = http.post(f"/api/threads/{thread}/messages", json=body)
    assert answer.status_code == 202
    stream: str = answer.json()["stream"]
    return stream


def left_below(chat: Chat) -> int:
    found: int = chat.get("scroller").evaluate(
        "box => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight)"
    )
    return found


def test_a_long_thread_is_seen_from_its_end_and_whole_soon(
    full: RunningServer, open_chat: OpenChat
) -> None:
    chat = open_chat(f"{full.url}/t/the-long-thread")
    expect(chat.answer).to_contain_text(f"Title {QUESTIONS - 1}")
    assert left_below(chat) == 0
    expect(chat.messages).to_have_count(2 * QUESTIONS)
    assert left_below(chat) == 0
    chat.get("scroller").evaluate("box => { box.scrollTop = 0; }")
    expect(chat.messages.first).to_be_in_viewport()
    expect(chat.messages.nth(1)).to_contain_text("Title 0")


def test_a_long_thread_costs_a_stream_at_its_end_nothing(
    full: RunningServer, open_chat: OpenChat, browser: Browser, prompts: Prompts
) -> None:
    chat = open_chat(f"{full.url}/t/the-long-thread")
    expect(chat.messages).to_have_count(2 * QUESTIONS)
    chat.send(prompts.says("a stream at the end", "word after word " * 100, size=8, rate=60))
    expect(chat.answer).to_contain_text("word after word")
    with traced(browser, chat.page) as trace:
        chat.wait_until("finished")
    # As of a megabyte: the goal, and room for a processor that others share.
    assert trace.tasks[0] < ROOM * LONGEST_TASK_MS, trace.tasks[:5]
    assert left_below(chat) == 0


def test_a_search_leads_into_the_middle_of_a_long_thread(
    full: RunningServer, open_chat: OpenChat
) -> None:
    chat = open_chat(full.url)
    chat.get("search").fill("question 77")
    hit = chat.page.locator('[data-testid=hit][data-id="question-00077"]')
    hit.get_by_role("link").click()
    found = chat.page.locator('[data-testid=message][data-id="question-00077"]')
    expect(found).to_be_focused()
    expect(found).to_be_in_viewport()


def test_older_threads_stay_in_the_list_when_something_changes(
    full: RunningServer, open_chat: OpenChat
) -> None:
    chat = open_chat(full.url)
    rows = chat.get("thread")
    expect(rows).to_have_count(50)
    before = 50
    while chat.get("older").count():
        chat.get("older").dblclick()
        expect(rows).not_to_have_count(before)
        before = rows.count()
    assert before > THREADS
    chat.send("a new one on top")
    expect(rows.first).to_contain_text("a new one on top")
    expect(rows).to_have_count(before + 1)
    rows.last.get_by_role("link").click()
    expect(chat.messages.first).to_contain_text("thread number 0")


@pytest.mark.requirement("F8")
def test_a_search_that_is_typed_fast_shows_what_was_typed_last(
    full: RunningServer, open_chat: OpenChat
) -> None:
    chat = open_chat(full.url)
    asked: list[str] = []
    chat.page.on("request", lambda r: asked.append(r.url) if "/api/search" in r.url else None)
    chat.get("search").press_sequentially("number 10 thread")
    for _ in " thread":
        chat.page.keyboard.press("Backspace")
    chat.page.keyboard.type("4")
    expect(chat.get("hit").filter(has_text="number 104").first).to_be_visible()
    expect(chat.get("results")).to_have_attribute("data-state", "done")
    titles = chat.get("hit").locator(".title").all_inner_texts()
    assert set(titles) == {"thread number 104"}
    assert 1 <= len(asked) < len("number 10 thread")
