"""For everyone: what an audit finds, what is read aloud, small windows, large text, calm."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat
from tests.browser.prompts import Prompts
from tests.browser.states import STATES, State, files, finished, streaming, tool
from tests.crash.server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.requirement("F8")]

AXE = Path(__file__).parents[2] / "web/client/node_modules/axe-core/axe.min.js"
THEMES = ("light", "dark")


def findings(page: Page) -> list[str]:
    """What axe-core calls serious or critical, on the page as it is now."""
    # While something moves in, its colours are not yet its own.
    page.evaluate("Promise.all(document.getAnimations().map(one => one.finished.catch(() => 0)))")
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')} }}")
    options = {"resultTypes": ["violations"]}
    result: Any = page.evaluate("options => axe.run(document, options)", options)
    assert len(result["passes"]) > 10  # it did look
    return [
        f"{found['id']}: {node['html'][:160]}"
        for found in result["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]


def calm(browser: Browser, **options: Any) -> BrowserContext:
    """Without movement: nothing is looked at half way."""
    return browser.new_context(reduced_motion="reduce", **options)


# the audit


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_an_audit_finds_nothing(
    shared: RunningServer, open_chat: OpenChat, browser: Browser, prompts: Prompts, state: State
) -> None:
    """axe-core, on each state of the page, in both themes."""
    # So high that all is in view: of what is scrolled away colours cannot be judged.
    context = calm(browser, viewport={"width": 1_280, "height": 2_000})
    chat = open_chat(shared.url, context)
    state(chat, prompts)
    found = {}
    for theme in THEMES:
        chat.page.emulate_media(color_scheme=theme)
        found[theme] = findings(chat.page)
    context.close()
    assert found == {theme: [] for theme in THEMES}


@pytest.mark.parametrize("state", [finished, streaming, files, tool], ids=lambda s: s.__name__)
def test_nothing_is_wider_than_a_phone(
    shared: RunningServer, open_chat: OpenChat, browser: Browser, prompts: Prompts, state: State
) -> None:
    """360 px, as a phone; the same as 720 px at 200 %."""
    context = calm(browser, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    chat = open_chat(shared.url, context)
    state(chat, prompts)
    assert chat.page.evaluate("document.documentElement.scrollWidth") == 360
    scroller = chat.get("scroller")
    assert scroller.evaluate("box => box.scrollWidth <= box.clientWidth")
    expect(chat.get("send")).to_be_in_viewport(ratio=1)
    chat.get("menu").click()
    expect(chat.get("new-thread")).to_be_in_viewport(ratio=1)
    assert findings(chat.page) == []
    context.close()


def test_the_list_of_a_phone_is_closed_by_escape_and_gives_the_focus_back(
    shared: RunningServer, open_chat: OpenChat, browser: Browser
) -> None:
    context = calm(browser, viewport={"width": 360, "height": 740})
    chat = open_chat(shared.url, context)
    expect(chat.get("search")).not_to_be_visible()
    chat.get("menu").click()
    expect(chat.get("menu")).to_have_attribute("aria-expanded", "true")
    expect(chat.get("new-thread")).to_be_focused()
    assert chat.page.locator("main").evaluate("main => main.inert")  # nothing below it is reached
    chat.page.keyboard.press("Escape")
    expect(chat.get("menu")).to_have_attribute("aria-expanded", "false")
    expect(chat.get("menu")).to_be_focused()
    expect(chat.get("search")).not_to_be_visible()
    context.close()


def test_large_text_fits(
    shared: RunningServer, open_chat: OpenChat, browser: Browser, prompts: Prompts
) -> None:
    """200 % of the text alone, as people set it in their browser."""
    context = calm(browser, viewport={"width": 1_280, "height": 800})
    chat = open_chat(shared.url, context)
    chat.page.evaluate("document.documentElement.style.fontSize = '200%'")
    finished(chat, prompts)
    assert chat.page.evaluate("document.documentElement.scrollWidth") <= 1_280
    assert chat.get("scroller").evaluate("box => box.scrollWidth <= box.clientWidth")
    expect(chat.get("send")).to_be_in_viewport(ratio=1)
    context.close()


# what is read aloud


ANNOUNCED = """() => {
  window.announced = [];
  new MutationObserver(() => {
    for (const live of document.querySelectorAll('[aria-live=polite], [role=status], [role=alert]'))
      if (live.textContent && window.announced.at(-1) !== live.textContent)
        window.announced.push(live.textContent);
  }).observe(document, { subtree: true, childList: true, characterData: true });
}"""


def test_the_end_of_a_turn_is_announced_and_not_its_words(
    shared: RunningServer, open_chat: OpenChat, prompts: Prompts
) -> None:
    chat = open_chat(shared.url)
    chat.page.evaluate(ANNOUNCED)
    chat.send(prompts.says("spoken", "one two three four five " * 40, size=20, rate=60))
    chat.wait_until("finished")
    expect(chat.get("announcer")).to_have_text("The answer is complete.")
    announced: list[str] = chat.page.evaluate("window.announced")
    assert not any("three" in text for text in announced)
    assert announced.count("The answer is complete.") == 1
    assert len(announced) <= 3  # that it is being sent, and that it is complete
    chat.send(prompts.fails("not spoken", 500))
    chat.wait_until("failed")
    expect(chat.get("announcer")).to_have_text(re.compile("^The answer ended"))
    expect(chat.get("conversation")).to_have_attribute("aria-live", "off")


def test_roles_and_names(chat_with_answer: Chat) -> None:
    page = chat_with_answer.page
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Chats")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("log", name="Conversation")).to_have_count(1)
    expect(page.get_by_role("textbox", name="Message")).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Search")).to_have_count(1)
    expect(page.get_by_role("article")).to_have_count(2)
    for button in page.get_by_role("button").all():
        assert button.evaluate("b => (b.ariaLabel ?? b.textContent).trim()") != ""


@pytest.fixture
def chat_with_answer(shared: RunningServer, open_chat: OpenChat) -> Chat:
    chat = open_chat(shared.url)
    chat.send("hello there")
    chat.wait_until("finished")
    return chat


def test_focus_is_seen_wherever_it_goes(chat_with_answer: Chat) -> None:
    """By Tab through the whole page: each stop shows that it is one."""
    page = chat_with_answer.page
    page.locator("body").evaluate("body => document.activeElement.blur()")
    stops: set[str] = set()
    wanted = {"new-thread", "search", "thread-menu", "input", "attach", "settings", "copy"}
    for _ in range(300):  # the list is as long as the tests before made it
        if wanted <= stops:
            return
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => {
              const element = document.activeElement;
              if (element === document.body) return null;
              const around = [element, element.closest('.composer, .search')].filter(Boolean);
              const shown = around.some((one) => {
                const { outlineStyle, outlineWidth, borderColor } = getComputedStyle(one);
                const accent = getComputedStyle(document.documentElement).getPropertyValue('--accent');
                const probe = Object.assign(document.createElement('i'), { style: `color: ${accent}` });
                document.body.append(probe);
                const colour = getComputedStyle(probe).color;
                probe.remove();
                return (outlineStyle !== 'none' && outlineWidth !== '0px') || borderColor === colour;
              });
              return [element.dataset.testid ?? element.tagName, shown];
            }"""  # noqa: E501
        )
        if seen is None:  # around the page and into it again
            continue
        assert seen[1], seen
        stops.add(seen[0])
    raise AssertionError(f"not reached: {wanted - stops}")


def test_movement_stops_where_it_is_not_wanted(
    shared: RunningServer, open_chat: OpenChat, browser: Browser, prompts: Prompts
) -> None:
    context = calm(browser)
    chat = open_chat(shared.url, context)
    streaming(chat, prompts)
    moving = "document.getAnimations().filter(a => a.playState === 'running').length"
    chat.page.wait_for_function(f"() => {moving} === 0")
    context.close()


def test_right_to_left(
    shared: RunningServer, open_chat: OpenChat, browser: Browser, prompts: Prompts
) -> None:
    chat = open_chat(shared.url)
    text = "# כותרת\n\nפסקה ראשונה.\n\n- פריט\n\n| עמודה |\n|---|\n| תא |\n\n> ציטוט\n\nEnglish.\n"
    chat.send(prompts.says("שלום לכולם", text))
    chat.wait_until("finished")
    direction = "element => getComputedStyle(element).direction"
    right = ["כותרת", "פסקה", "פריט", "תא", "ציטוט"]
    for word in right:
        assert chat.answer.get_by_text(word).evaluate(direction) == "rtl", word
    assert chat.answer.get_by_text("English.").evaluate(direction) == "ltr"
    assert chat.messages.first.locator(".bubble").evaluate(direction) == "rtl"
    chat.get("input").fill("עוד")
    assert chat.get("input").evaluate(direction) == "rtl"
