"""Where things stand: what belongs together is together, and nothing is squeezed."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat
from tests.browser.prompts import Prompts
from tests.browser.states import branches
from tests.crash.server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.requirement("F8")]

WIDE: dict[str, Any] = {"viewport": {"width": 1_280, "height": 800}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 740},
    "has_touch": True,
    "is_mobile": True,
}


def box(of: Locator) -> dict[str, float]:
    """In px: left, top, right, bottom."""
    found: dict[str, float] = of.evaluate("e => e.getBoundingClientRect().toJSON()")
    return found


@pytest.mark.parametrize("options", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_icons_of_a_message_are_within_it_and_nearer_to_it_than_to_the_answer(
    shared: RunningServer,
    open_chat: OpenChat,
    browser: Browser,
    prompts: Prompts,
    options: dict[str, Any],
) -> None:
    context = browser.new_context(**options)
    chat = open_chat(shared.url, context)
    branches(chat, prompts)
    chat.get("edit-cancel").click()
    question = chat.messages.first
    message, bubble = box(question), box(question.locator(".bubble"))
    icon, answer = box(question.get_by_test_id("edit").locator("svg")), box(chat.answer)
    assert box(question.locator("footer"))["bottom"] <= message["bottom"]
    ring = 8  # as wide and as far from the message as styles/conversation.css has it
    assert message["bottom"] + ring <= answer["top"] + 1
    above, below = icon["top"] - bubble["bottom"], answer["top"] - icon["bottom"]
    assert 4 < above < below < 3 * above
    context.close()


def test_who_goes_through_the_messages_by_keys_sees_where(chat: Chat) -> None:
    chat.send("seen by keys")
    chat.wait_until("finished")
    chat.messages.first.click()  # of a pointer browsers show no focus
    chat.page.keyboard.press("Alt+ArrowDown")
    shown = "e => getComputedStyle(e).outlineStyle"
    assert chat.page.locator("[data-testid=message]:focus").evaluate(shown) == "solid"


@pytest.fixture
def chat(shared: RunningServer, open_chat: OpenChat) -> Chat:
    return open_chat(shared.url)


def test_on_a_phone_a_model_s_name_is_not_broken_for_the_note_beside_it(
    shared: RunningServer, open_chat: OpenChat, browser: Browser
) -> None:
    context = browser.new_context(**PHONE, service_workers="block")
    name, inside = "claude-sonnet-large", "claude-sonnet-4-5-20250929"
    model = {"name": name, "provider": "anthropic", "model": inside, "problem": ""}
    limits = {"body": 1_000, "attachment": 1_000}
    known = {"default": name, "models": [model], "limits": limits}
    context.route("**/api/models", lambda route: route.fulfill(json=known))
    chat = open_chat(shared.url, context)
    chat.get("settings").click()
    what = chat.get("dialog-settings").get_by_text(name, exact=True)
    assert box(what)["height"] < 40  # one line
    assert box(chat.get("dialog-settings").get_by_text(inside))["top"] >= box(what)["bottom"] - 2
    context.close()


def test_on_a_phone_why_a_file_is_refused_has_the_whole_width(
    shared: RunningServer, open_chat: OpenChat, browser: Browser
) -> None:
    context = browser.new_context(**PHONE)
    chat = open_chat(shared.url, context)
    bad = {"name": "program", "mimeType": "application/octet-stream", "buffer": b"\0"}
    chat.get("file-input").set_input_files([bad])
    error = chat.get("draft-file").get_by_role("alert")
    expect(error).to_be_visible()
    assert box(error)["width"] > 240
    assert box(error)["height"] < 3 * 24  # two lines
    context.close()


def test_a_table_that_goes_on_beyond_its_edge_shows_it(chat: Chat, prompts: Prompts) -> None:
    cells = "|".join(f" column number {n} " for n in range(12))
    table = f"|{cells}|\n|{'---|' * 12}\n|{' |' * 12}\n"
    chat.send(prompts.says("a wide table", table))
    chat.wait_until("finished")
    area = chat.answer.locator(".table")
    row = box(area.locator("tbody tr"))
    right = box(area)["right"]
    # Of the empty row: the last px before the border, and a few in the middle.
    edge = {"x": right - 6, "y": row["top"] + 4, "width": 4, "height": 4}
    middle = {**edge, "x": right - 200}

    def shaded() -> bool:
        return chat.page.screenshot(clip=edge) != chat.page.screenshot(clip=middle)

    assert shaded()
    area.evaluate("area => { area.scrollLeft = area.scrollWidth; }")
    assert not shaded()
