"""What the page tells of what nobody saw: notes of the browser, what became of a tool."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.chat import Chat, words
from tests.browser.conftest import OpenChat
from tests.browser.model import ScriptedModel
from tests.browser.test_tabs import until
from tests.crash.server import RunningServer, running_server

pytestmark = pytest.mark.browser

# Notes are shown as ever, and remembered.
RECORD_NOTES = """
window.notes = [];
window.Notification = class extends Notification {
  constructor(title, options) {
    super(title, options);
    window.notes.push([title, options.body]);
  }
};
"""

# As on phones: a page must not, its service worker may.
REFUSE_NOTES = """
window.Notification = Object.assign(
  function () { throw new TypeError('Illegal constructor'); },
  { permission: 'granted', requestPermission: async () => 'granted' });
"""


def hide(real: BrowserContext, *tabs: Chat) -> None:
    """By another page in front of them."""
    real.new_page().bring_to_front()
    for tab in tabs:
        tab.page.wait_for_function("() => document.hidden")


@pytest.mark.requirement("F8")
def test_a_turn_that_ends_while_nobody_looks_is_noted_once(
    real: BrowserContext, server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    """By the tab that reads the feed, which has never shown the thread."""
    real.grant_permissions(["notifications"], origin=server.url)
    real.add_init_script(RECORD_NOTES)
    reader, writer = open_chat(server.url, real), open_chat(server.url, real)
    model.finish(*words(3))
    writer.send("Seen by somebody")
    writer.wait_until("finished")
    model.begin()
    writer.get("new-thread").click()
    writer.send("Seen by nobody")
    model.say(*words(3))
    writer.wait_for_words(3)
    hide(real, reader, writer)
    model.finish()
    reader.page.wait_for_function("() => window.notes.length > 0", polling=100)
    notes = [tab.page.evaluate("window.notes") for tab in (reader, writer)]
    assert notes == [[["Seen by nobody", "The answer has ended."]], []]


@pytest.mark.requirement("F8")
def test_where_only_a_worker_may_show_notes_it_does(
    real: BrowserContext, server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    real.grant_permissions(["notifications"], origin=server.url)
    real.add_init_script(REFUSE_NOTES)
    chat = open_chat(server.url, real)
    chat.page.wait_for_function("navigator.serviceWorker.ready.then(() => true)")
    model.say(*words(3))
    chat.send("On a phone")
    chat.wait_for_words(3)
    expect(chat.get("thread").locator(".badge.running")).to_be_visible()  # the list knows of it
    hide(real, chat)
    model.finish()
    notes = """navigator.serviceWorker.ready.then((worker) => worker.getNotifications())
      .then((notes) => notes.map(({ title, data }) => [title, data]))"""
    until(chat.page, lambda: chat.page.evaluate(notes) != [])
    assert chat.page.evaluate(notes) == [["On a phone", chat.address]]


@pytest.mark.requirement("O5", "S5", "R1")
def test_a_tool_that_a_crash_interrupted_has_an_unknown_outcome(
    tmp_path: Path, open_chat: OpenChat
) -> None:
    with running_server(tmp_path) as server:
        chat = open_chat(server.url)
        chat.send("tool 60")
        tool = chat.get("tool").first
        expect(tool).to_have_attribute("data-state", "running")
        server.kill9()
        chat.wait_for_reconnecting()
        server.start()
        expect(tool).to_have_attribute("data-state", "unknown")
        expect(tool).to_contain_text("outcome unknown")
        tool.locator("summary").click()
        expect(tool).to_contain_text("It may have happened")
        chat.wait_until("finished")


@pytest.mark.requirement("O5", "R1", "R3")
def test_a_recovery_is_told_to_who_was_there_and_to_who_joins(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    chat = open_chat(server.url)
    model.say(*words(10))
    chat.send("Hello")
    chat.wait_for_words(10)
    server.kill9()
    chat.wait_for_reconnecting()
    model.begin()  # the next request hears nothing yet
    server.start()
    joined = open_chat(chat.address)
    for one in (chat, joined):
        expect(one.get("status")).to_be_visible()  # until the model speaks
        expect(one.answer).not_to_contain_text("word00001")
    expect(chat.get("away")).to_contain_text("The server was restarted")
    model.finish(*words(20, 100))
    for one in (chat, joined):
        one.wait_until("finished")
        expect(one.get("status")).to_have_count(0)
        assert one.source() == "".join(words(20, 100))


@pytest.mark.requirement("F8")
def test_a_thread_gets_its_title_by_itself(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    chat = open_chat(server.url)
    expect(chat.get("title")).to_have_text("New chat")
    chat.send("Why is the sky blue?\n\nPlease explain it for a child.")
    model.say(*words(3))
    chat.wait_for_words(3)
    expect(chat.get("title")).to_contain_text("Why is the sky blue?")
    expect(chat.get("thread")).to_contain_text("Why is the sky blue?")
    expect(chat.page).to_have_title(re.compile(r"^● Why is the sky blue\?"))
    model.finish()
    chat.wait_until("finished")
    expect(chat.page).to_have_title(re.compile(r"^Why is the sky blue\?"))
