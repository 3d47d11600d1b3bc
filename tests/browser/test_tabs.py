"""Many tabs of one browser, and a network that holds streams back."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.buffering import buffering_to
from tests.browser.chat import Log, words
from tests.browser.conftest import OpenChat
from tests.browser.model import ScriptedModel
from tests.crash.server import RunningServer

pytestmark = pytest.mark.browser

TABS = 12

LEFT_EARLIER = """
for (const key of Object.keys(localStorage)) {
  if (key.includes(':left:')) localStorage.setItem(key, String(localStorage.getItem(key) - 60000));
}
"""


@contextmanager
def feeds_of(context: BrowserContext) -> Iterator[list[Any]]:
    """The feed requests of a context that are under way."""
    open_: list[Any] = []

    def began(request: Any) -> None:
        if request.url.endswith("/api/feed"):
            open_.append(request)

    def ended(request: Any) -> None:
        if request in open_:
            open_.remove(request)

    def closed(page: Page) -> None:
        open_[:] = [request for request in open_ if request.frame.page is not page]

    context.on("request", began)
    context.on("requestfailed", ended)
    context.on("requestfinished", ended)
    context.on("page", lambda page: page.on("close", closed))
    yield open_


def until(page: Page, holds: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(50)


def post(server: RunningServer, thread: str, message: str, text: str, model: str) -> str:
    """Send without a page; the thread keeps the model. Returns the address of the thread's page."""
    body = {"id": message, "parts": [{"type": "text", "text": text}], "model": model}
    reply = httpx2.post(f"{server.url}/api/threads/{thread}/messages", json=body)
    assert reply.status_code == 202
    return f"{server.url}/t/{thread}"


@pytest.mark.requirement("F7")
def test_twelve_tabs_load_send_stream_and_stop(
    real: BrowserContext, server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    """P28: over HTTP/1.1 a browser has six connections for all of them, and all twelve answers run
    at once. The tabs in the back are hidden, as a person's are."""
    with feeds_of(real) as feeds:
        model.say(*words(3))
        tabs = []
        for number in range(TABS):
            tabs.append(open_chat(server.url, real))
            tabs[-1].send(f"Question {number}")
            tabs[-1].wait_for_words(3)
        assert len(feeds) == 1
        for tab in tabs:
            tab.page.bring_to_front()
            expect(tab.get("thread")).to_have_count(TABS)
        tabs[0].page.bring_to_front()
        tabs[0].stop_button.click()
        tabs[0].wait_until("cancelled")
        model.finish(*words(3, first=3))
        for tab in tabs[1:]:
            tab.page.bring_to_front()
            tab.wait_for_words(6)
            tab.wait_until("finished")
        assert len(feeds) == 1


@pytest.mark.requirement("F7")
def test_what_happens_in_one_tab_shows_in_the_others(
    browser: Browser, server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    context = browser.new_context()
    one, two = open_chat(server.url, context), open_chat(server.url, context)
    model.finish(*words(5))
    one.send("Hello")
    one.wait_until("finished")
    expect(two.get("thread")).to_have_count(1)
    two.get("thread").get_by_role("link").click()
    two.wait_until("finished")
    # Sent in the first: streams in the second, which has the same thread open.
    model.begin()
    model.say(*words(2, first=10))
    one.send("Hello again")
    expect(two.messages).to_have_count(4)
    expect(two.answer).to_contain_text("word00011")
    model.finish()
    two.wait_until("finished")
    http = httpx2.Client(base_url=server.url)
    http.patch(f"/api/threads/{one.thread}", json={"title": "Renamed elsewhere"})
    for tab in (one, two):
        expect(tab.get("thread")).to_contain_text("Renamed elsewhere")
        expect(tab.get("title")).to_have_text("Renamed elsewhere")
    http.delete(f"/api/threads/{one.thread}")
    for tab in (one, two):
        expect(tab.get("thread")).to_have_count(0)
    http.close()
    context.close()


@pytest.mark.requirement("F7")
def test_another_tab_takes_the_feed_over_without_loss(
    browser: Browser, server: RunningServer, open_chat: OpenChat
) -> None:
    context = browser.new_context()
    with feeds_of(context) as feeds:
        tabs = [open_chat(server.url, context) for _ in range(3)]
        until(tabs[0].page, lambda: len(feeds) == 1)
        for number in range(3):
            if number:
                tabs.pop(0).close()
            post(server, f"thread-000{number}", f"message-000{number}", "m=1", "bench")
            for tab in tabs:
                expect(tab.get("thread")).to_have_count(number + 1)
        until(tabs[0].page, lambda: len(feeds) == 1)
    context.close()


@pytest.mark.requirement("O3", "O2")
def test_a_failure_clears_in_an_idle_tab_when_a_message_is_sent_in_another(
    server: RunningServer, open_chat: OpenChat
) -> None:
    """P06: on another device, which nobody touches."""
    address = post(server, "thread-0001", "message-0001", "fail", "demo")
    one, two = open_chat(address), open_chat(address)
    for chat in (one, two):
        chat.wait_until("failed")
        expect(chat.get("outcome")).to_be_visible()
    one.send("echo fine")
    for chat in (one, two):
        chat.wait_until("finished")
        expect(chat.get("outcome")).to_have_count(0)


@pytest.mark.requirement("F8")
def test_a_turn_that_ends_elsewhere_marks_its_thread_and_the_window(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    chat = open_chat(server.url)
    model.say(*words(3))
    chat.send("Hello")
    chat.wait_for_words(3)
    chat.get("new-thread").click()
    expect(chat.get("welcome")).to_be_visible()
    expect(chat.get("unread")).to_have_count(0)
    model.finish()
    expect(chat.get("unread")).to_have_count(1)
    expect(chat.page).to_have_title(re.compile(r"^\(1\) "))
    assert "icon-unread" in (chat.page.locator("link[rel=icon]").get_attribute("href") or "")
    chat.get("thread").get_by_role("link").click()
    expect(chat.get("unread")).to_have_count(0)
    expect(chat.page).not_to_have_title(re.compile(r"^\("))


@pytest.mark.requirement("F1")
def test_where_streams_are_held_back_the_page_polls_and_says_so(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    with buffering_to(server.url) as url:
        chat = open_chat(url)
        chat.send("anything")
        for word in words(50):
            model.say(word)
        # Two silent connections of 12 s come before.
        expect(chat.get("connection")).to_have_attribute("data-polling", "true", timeout=60_000)
        chat.wait_for_words(50)
        for word in words(50, first=50):
            model.say(word)
        chat.wait_for_words(100)
        model.finish()
        chat.wait_until("finished")
        log = Log(server, chat.thread)
        assert chat.source() == log.text() == "".join(words(100))
        log.close()


@pytest.mark.requirement("F1", "O2")
def test_who_was_away_is_told_what_happened(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    chat = open_chat(server.url)
    model.say(*words(3))
    chat.send("Hello")
    chat.wait_for_words(3)
    address, context = chat.address, chat.page.context
    chat.page.goto("about:blank")
    model.finish()
    log = Log(server, address.rpartition("/")[2])
    assert log.wait_for_end() == "finished"
    log.close()
    # Who was away for a minute, not for a moment.
    context.add_init_script(LEFT_EARLIER)
    back = open_chat(address, context)
    expect(back.get("away")).to_contain_text("was finished")
    back.get("away-dismiss").click()
    expect(back.get("away")).to_have_count(0)


@pytest.mark.requirement("F1")
def test_without_a_network_what_was_loaded_is_shown(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    model.finish(*words(5))
    chat = open_chat(server.url)
    chat.send("Hello")
    chat.wait_until("finished")
    chat.page.wait_for_function("navigator.serviceWorker.ready.then(() => true)")
    chat.reload()  # through the worker
    expect(chat.messages).to_have_count(2)
    shown = chat.shown()
    chat.page.context.set_offline(True)
    chat.reload()
    expect(chat.messages).to_have_count(2)
    assert chat.shown() == shown
    expect(chat.get("connection")).to_have_attribute("data-state", "offline")
    chat.page.context.set_offline(False)
    expect(chat.get("connection")).to_have_attribute("data-state", "quiet")
