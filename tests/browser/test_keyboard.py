"""What a person does without a pointer: search, and what has the focus after a deletion."""

import re

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat
from tests.crash.server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.requirement("F8")]


@pytest.fixture
def chat(shared: RunningServer, open_chat: OpenChat) -> Chat:
    return open_chat(shared.url)


def new_thread(chat: Chat, text: str) -> None:
    chat.get("new-thread").click()
    chat.send(text)
    chat.wait_until("finished")
    expect(row(chat, text)).to_be_visible()


def row(chat: Chat, title: str) -> Locator:
    """The thread in the list."""
    return chat.get("thread").filter(has_text=title)


def link(at: Locator) -> Locator:
    return at.get_by_role("link")


# search


def test_search_is_used_by_keys(chat: Chat) -> None:
    press = chat.page.keyboard.press
    focused = chat.page.locator("[data-testid=message]:focus")
    new_thread(chat, "a walrus in the first")
    new_thread(chat, "a walrus in the second")
    press("Control+k")
    chat.page.keyboard.type("walrus second")
    press("Enter")  # before the server was asked even
    expect(focused).to_contain_text("a walrus in the second")

    press("Control+k")
    chat.page.keyboard.type("walrus first")  # instead of what was looked for before
    expect(chat.get("search")).to_have_value("walrus first")
    expect(chat.get("hit")).to_have_count(2)  # the question, and an answer that repeats it
    expect(chat.get("results")).to_have_attribute("data-state", "done")
    hits = chat.get("hit")
    press("ArrowDown")
    expect(link(hits.first)).to_be_focused()
    press("ArrowDown")
    expect(link(hits.last)).to_be_focused()
    press("ArrowDown")  # there is nothing more
    expect(link(hits.last)).to_be_focused()
    press("ArrowUp")
    press("ArrowUp")
    expect(chat.get("search")).to_be_focused()
    press("ArrowDown")
    press("Enter")
    expect(focused).to_contain_text("a walrus in the first")

    press("Control+k")
    press("ArrowDown")
    press("Escape")
    expect(chat.get("search")).to_be_focused()
    expect(chat.get("search")).to_have_value("")
    expect(row(chat, "a walrus in the first")).to_be_visible()


def test_escape_in_what_was_found_leaves_the_list_of_a_phone_open(
    shared: RunningServer, open_chat: OpenChat, browser: Browser
) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740})
    chat = open_chat(shared.url, context)
    chat.send("an otter on the phone")
    chat.wait_until("finished")
    chat.page.keyboard.press("Control+k")
    expect(chat.get("search")).to_be_focused()
    chat.page.keyboard.type("otter")
    expect(chat.get("hit").first).to_be_visible()
    chat.page.keyboard.press("ArrowDown")
    chat.page.keyboard.press("Escape")
    expect(chat.get("search")).to_be_focused()
    expect(row(chat, "an otter on the phone")).to_be_visible()
    context.close()


@pytest.mark.parametrize("way", ["key", "link"])
def test_a_new_chat_ends_the_search(chat: Chat, way: str) -> None:
    new_thread(chat, f"a heron by {way}")
    chat.get("search").fill("heron")
    expect(chat.get("hit").first).to_be_visible()
    if way == "key":
        chat.page.keyboard.press("Control+Shift+o")
    else:
        chat.get("new-thread").click()
    expect(chat.get("search")).to_have_value("")
    expect(row(chat, f"a heron by {way}")).to_be_visible()


def test_the_list_of_shortcuts_tells_those_of_the_search(chat: Chat) -> None:
    chat.get("shortcuts").click()
    keys = chat.get("dialog-shortcuts").locator(".keys")
    expect(keys).to_contain_text(re.compile(r"CtrlKSearch all chats.*↓↑Through what was found"))


# deleting


def delete(chat: Chat, title: str) -> None:
    """By keys alone."""
    link(row(chat, title)).focus()
    chat.page.keyboard.press("Tab")
    chat.page.keyboard.press("Enter")
    expect(chat.get("rename")).to_be_focused()
    chat.page.keyboard.press("End")
    expect(chat.get("delete")).to_be_focused()
    chat.page.keyboard.press("Enter")
    expect(chat.get("cancel")).to_be_focused()
    chat.page.keyboard.press("Tab")
    chat.page.keyboard.press("Enter")
    expect(row(chat, title)).to_have_count(0)


def test_after_a_deletion_the_focus_is_where_one_goes_on(chat: Chat) -> None:
    for name in ("lower", "middle", "upper", "shown"):
        new_thread(chat, f"a badger {name}")
    delete(chat, "a badger upper")
    expect(link(row(chat, "a badger middle"))).to_be_focused()
    delete(chat, "a badger shown")
    expect(chat.get("welcome")).to_be_visible()
    expect(chat.get("input")).to_be_focused()


def test_after_the_deletion_of_all_the_focus_is_on_what_makes_a_new_one(
    open_chat: OpenChat, server: RunningServer, browser: Browser
) -> None:
    """On a phone: the message box lies below the list."""
    context = browser.new_context(viewport={"width": 360, "height": 740})
    chat = open_chat(server.url, context)
    chat.get("settings").click()
    chat.page.locator("[data-testid=model-choice][value=bench]").check()
    chat.get("dialog-close").click()
    chat.send("alone")
    chat.wait_until("finished")
    chat.get("menu").click()
    delete(chat, "alone")
    expect(chat.get("new-thread")).to_be_focused()
    context.close()
