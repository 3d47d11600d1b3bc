"""What a person does with a conversation, in a real browser."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat
from tests.browser.prompts import Prompts
from tests.crash.server import RunningServer

pytestmark = [pytest.mark.browser, pytest.mark.requirement("F8")]

# A picture of one red pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8"
    "cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


@pytest.fixture
def chat(shared: RunningServer, open_chat: OpenChat) -> Chat:
    return open_chat(shared.url)


def say(chat: Chat, text: str) -> None:
    """Send it and wait for the answer."""
    before = chat.messages.count()
    chat.send(text)
    expect(chat.messages).to_have_count(before + 2)
    chat.wait_until("finished")


def entry(chat: Chat, title: str) -> Locator:
    """The thread in the list."""
    return chat.get("thread").filter(has_text=title)


def choose(chat: Chat, title: str, item: str) -> None:
    """An item of the thread's menu."""
    entry(chat, title).hover()
    entry(chat, title).get_by_test_id("thread-menu").click()
    chat.get(item).click()


# branches


def test_a_rewritten_message_begins_a_branch_and_both_stay(chat: Chat) -> None:
    say(chat, "one before")
    say(chat, "the first version")
    question = chat.messages.nth(2)
    question.hover()
    question.get_by_test_id("edit").click()
    expect(chat.get("edit-input")).to_be_focused()
    chat.get("edit-input").fill("the second version")
    chat.get("edit-send").click()
    chat.wait_until("finished")
    expect(chat.answer).to_contain_text("the second version")
    expect(chat.messages).to_have_count(4)
    expect(chat.get("version")).to_have_text("2 / 2")

    chat.get("earlier").click()
    expect(chat.messages.nth(2)).to_contain_text("the first version")
    expect(chat.answer).to_contain_text("the first version")
    expect(chat.get("version")).to_have_text("1 / 2")
    chat.page.wait_for_function("() => fetch(`api/threads/${location.pathname.split('/').pop()}`)"
        ".then(r => r.json()).then(s => s.messages.find(m => m.id === s.thread.leaf)"
        ".parts[0].text === 'the first version')")  # fmt: skip
    chat.reload()
    expect(chat.answer).to_contain_text("the first version")
    say(chat, "goes on from the first")
    chat.get("later").click()
    expect(chat.messages).to_have_count(4)
    expect(chat.answer).to_contain_text("the second version")


def test_escape_leaves_a_message_as_it_was(chat: Chat) -> None:
    say(chat, "stays as it is")
    chat.page.keyboard.press("ArrowUp")  # from the empty box
    chat.get("edit-input").fill("something else")
    chat.page.keyboard.press("Escape")
    expect(chat.get("edit-input")).to_have_count(0)
    expect(chat.messages).to_have_text([re.compile("stays as it is")] * 2)


def test_another_answer_stands_beside_the_first(chat: Chat, prompts: Prompts) -> None:
    say(chat, prompts.says("which answer", "the first answer"))
    prompts.says("which answer", "the second answer")
    chat.answer.hover()
    chat.get("regenerate").click()
    expect(chat.answer).to_contain_text("the second answer")
    chat.wait_until("finished")
    expect(chat.messages).to_have_count(2)
    expect(chat.get("version")).to_have_text("2 / 2")
    chat.get("earlier").click()
    expect(chat.answer).to_contain_text("the first answer")


def test_trying_again_asks_nothing_twice(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.fails("an answer that fails", 503))
    chat.wait_until("failed")
    prompts.says("an answer that fails", "works now")
    posts: list[str] = []
    chat.page.on("request", lambda r: posts.append(r.url) if r.method == "POST" else None)
    chat.get("retry").click()
    chat.wait_until("finished")
    expect(chat.answer).to_contain_text("works now")
    expect(chat.messages).to_have_count(2)
    assert [bool(re.search(r"/messages/[^/]+/answers$", url)) for url in posts] == [True]


def test_goes_on_after_a_stop(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.says("something long", "and so on " * 500, size=10, rate=20))
    expect(chat.answer).to_contain_text("and so on")
    chat.stop_button.click()
    chat.wait_until("cancelled")
    chat.get("go-on").click()
    expect(chat.messages).to_have_count(4)
    expect(chat.messages.nth(2)).to_contain_text("continue")
    chat.wait_until("finished")
    assert any(
        m["role"] == "assistant" and "and so on" in m["content"]
        for m in prompts.requests[-1]["messages"]
    )


@pytest.mark.requirement("T4")
def test_a_message_that_waits_is_rewritten_where_it_waits(chat: Chat, prompts: Prompts) -> None:
    """The answer that is being written goes on, and what waits behind it still comes after it."""
    chat.send(prompts.says("goes on", "word " * 150, size=5, rate=15))
    expect(chat.messages).to_have_count(2)
    for text in ("first", "second"):
        chat.send(prompts.says(text, f"answer to {text}"))
    expect(chat.messages).to_have_count(6)
    prompts.says("better", "answer to better")
    chat.messages.nth(2).hover()
    chat.messages.nth(2).get_by_test_id("edit").click()
    chat.get("edit-input").fill("better")
    chat.get("edit-send").click()
    expect(chat.messages.nth(2)).to_contain_text("better")
    expect(chat.messages.nth(1)).to_have_attribute("data-state", "running")
    expect(chat.messages).to_have_count(6)
    expect(chat.messages.nth(5)).to_contain_text("answer to second")
    expect(chat.messages.nth(3)).to_contain_text("answer to better")
    expect(chat.messages.nth(1)).to_have_attribute("data-state", "finished")
    said = [request["messages"][-1]["content"] for request in prompts.requests[-3:]]
    assert said == ["goes on", "better", "second"]


def test_what_waits_is_shown_and_can_be_taken_out(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.says("a long one first", "on and on " * 500, size=10, rate=20))
    expect(chat.answer).to_contain_text("on and on")
    chat.send("waits one")
    chat.send("waits two")
    waiting = chat.page.locator("[data-testid=status][data-state=queued]")
    expect(waiting).to_have_count(2)
    chat.get("remove-queued").first.click()
    expect(waiting).to_have_count(1)
    chat.stop_button.click()
    expect(chat.answer).to_contain_text("waits two")
    chat.wait_until("finished")


def test_control_enter_sends_now_and_stops_what_runs(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.says("runs until it is stopped", "blah " * 2_000, size=5, rate=20))
    expect(chat.answer).to_contain_text("blah")
    chat.get("input").fill("this one now")
    chat.page.keyboard.press("Control+Enter")
    chat.wait_until("finished")
    expect(chat.answer).to_contain_text("this one now")
    expect(chat.messages.nth(1)).to_have_attribute("data-state", "cancelled")


# the list


def test_rename_pin_and_delete(chat: Chat) -> None:
    say(chat, "a thread to be renamed")
    choose(chat, "a thread to be renamed", "rename")
    expect(chat.get("rename-input")).to_be_focused()
    chat.page.keyboard.type("A better title")
    chat.page.keyboard.press("Enter")
    expect(entry(chat, "A better title")).to_be_visible()
    expect(chat.get("title")).to_have_text("A better title")

    chat.get("new-thread").click()
    say(chat, "a newer thread")
    choose(chat, "A better title", "pin")
    expect(chat.get("thread").first).to_contain_text("A better title")
    expect(entry(chat, "A better title").get_by_role("img", name="Pinned")).to_be_visible()

    entry(chat, "A better title").get_by_role("link").click()
    choose(chat, "A better title", "delete")
    expect(chat.get("cancel")).to_be_focused()
    chat.page.keyboard.press("Escape")
    expect(chat.get("dialog-remove")).to_have_count(0)
    expect(entry(chat, "A better title")).to_be_visible()
    address = chat.address
    choose(chat, "A better title", "delete")
    chat.get("confirm-delete").click()
    expect(entry(chat, "A better title")).to_have_count(0)
    expect(chat.get("welcome")).to_be_visible()
    chat.page.goto(address)
    expect(chat.get("missing")).to_be_visible()


def test_the_menu_is_used_by_keys(chat: Chat) -> None:
    say(chat, "a menu for keys")
    entry(chat, "a menu for keys").get_by_test_id("thread-menu").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.get("rename")).to_be_focused()
    chat.page.keyboard.press("ArrowUp")
    expect(chat.get("delete")).to_be_focused()
    chat.page.keyboard.press("ArrowDown")
    chat.page.keyboard.press("ArrowDown")
    expect(chat.get("pin")).to_be_focused()
    chat.page.keyboard.press("Escape")
    expect(chat.get("menu-list")).to_have_count(0)
    expect(entry(chat, "a menu for keys").get_by_test_id("thread-menu")).to_be_focused()


def test_export(chat: Chat) -> None:
    say(chat, "take this along")
    for item, ending in (("export-markdown", ".md"), ("export-json", ".json")):
        with chat.page.expect_download() as download:
            choose(chat, "take this along", item)
        assert download.value.suggested_filename == f"take this along{ending}"
        text = Path(download.value.path()).read_text(encoding="utf-8")
        assert text.count("take this along") >= 2


def test_search_finds_messages_and_leads_to_them(chat: Chat, prompts: Prompts) -> None:
    say(chat, prompts.says("a needle first", "filler\n\n" * 80))
    say(chat, prompts.says("more hay", "filler\n\n" * 80))
    chat.get("new-thread").click()
    expect(chat.get("welcome")).to_be_visible()
    chat.page.keyboard.press("Control+k")
    expect(chat.get("search")).to_be_focused()
    chat.page.keyboard.type("NEEDLE first")
    expect(chat.get("hit")).to_have_count(1)
    expect(chat.get("hit").locator("mark")).to_have_text(["needle", "first"])
    chat.get("hit").get_by_role("link").click()
    found = chat.messages.first
    expect(found).to_contain_text("a needle first")
    expect(found).to_be_focused()
    expect(found).to_be_in_viewport()
    chat.get("search-clear").click()
    expect(entry(chat, "a needle first")).to_be_visible()
    chat.get("search").fill("nothing has these words")
    expect(chat.get("results")).to_contain_text("Nothing found")


def test_search_leads_to_a_branch_that_is_not_shown(chat: Chat) -> None:
    say(chat, "haystack with a zebra")
    chat.page.keyboard.press("ArrowUp")
    chat.get("edit-input").fill("haystack without")
    chat.get("edit-send").click()
    expect(chat.answer).to_contain_text("haystack without")
    chat.get("search").fill("zebra")
    expect(chat.get("hit")).to_have_count(2)  # the question and its echo
    chat.get("hit").last.get_by_role("link").click()
    expect(chat.messages.first).to_contain_text("zebra")
    expect(chat.get("version")).to_have_text("1 / 2")


# files


def test_files_are_sent_and_shown(chat: Chat, prompts: Prompts) -> None:
    chat.get("file-input").set_input_files(
        [
            {"name": "red.png", "mimeType": "image/png", "buffer": PNG},
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember the milk"},
        ]
    )
    expect(chat.get("draft-file")).to_have_count(2)
    expect(chat.page.locator("[data-testid=draft-file][data-state=ready]")).to_have_count(2)
    chat.reload()
    expect(chat.page.locator("[data-testid=draft-file][data-state=ready]")).to_have_count(2)
    say(chat, "what is in these?")
    expect(chat.get("draft-file")).to_have_count(0)
    question = chat.messages.first
    assert question.locator("img").evaluate("image => image.decode().then(() => image.width > 0)")
    expect(question.get_by_test_id("file").last).to_contain_text("notes.txt")
    sent = json.dumps(prompts.requests[-1])
    assert "remember the milk" in sent
    assert "data:image/png;base64" in sent
    chat.reload()
    expect(chat.messages.first.get_by_test_id("file")).to_have_count(2)
    # They go with the message when it is written anew.
    chat.page.keyboard.press("ArrowUp")
    chat.get("edit-input").fill("and what else is in them?")
    chat.get("edit-send").click()
    expect(chat.answer).to_contain_text("what else")
    assert "remember the milk" in json.dumps(prompts.requests[-1])


def test_what_cannot_be_attached_says_why(chat: Chat) -> None:
    big = b"x" * (10_485_760 + 1)
    chat.get("file-input").set_input_files(
        [
            {"name": "big.txt", "mimeType": "text/plain", "buffer": big},
            {"name": "program", "mimeType": "application/octet-stream", "buffer": b"\0\1\2"},
        ]
    )
    refused = chat.page.locator("[data-testid=draft-file][data-state=refused]")
    expect(refused).to_have_count(2)
    expect(refused.first).to_contain_text("Larger than 10 MB")
    expect(refused.last).to_contain_text("Only images")
    expect(chat.get("send")).to_be_disabled()
    chat.get("remove-file").first.click()
    chat.get("remove-file").first.click()
    expect(chat.get("draft-file")).to_have_count(0)


def test_files_are_pasted_and_dropped(chat: Chat) -> None:
    event = """(type) => {
      const data = new DataTransfer();
      data.items.add(new File(['some words'], type + '.txt', { type: 'text/plain' }));
      const target = document.querySelector('[data-testid=input]');
      const options = { bubbles: true, cancelable: true };
      if (type === 'paste') target.dispatchEvent(
        new ClipboardEvent('paste', { ...options, clipboardData: data }));
      else for (const name of ['dragenter', 'dragover', 'drop']) target.dispatchEvent(
        new DragEvent(name, { ...options, dataTransfer: data }));
    }"""
    chat.page.evaluate(event, "paste")
    chat.page.evaluate(event, "drop")
    ready = chat.page.locator("[data-testid=draft-file][data-state=ready]")
    expect(ready).to_have_count(2)
    expect(ready.first).to_contain_text("paste.txt")
    expect(ready.last).to_contain_text("drop.txt")
    chat.get("send").click()  # files alone are a message
    chat.wait_until("finished")


# model, cost, draft


def test_model_and_instructions_of_a_new_thread_and_later(chat: Chat, prompts: Prompts) -> None:
    chat.get("settings").click()
    chat.get("instructions").fill("Answer in verse.")
    chat.page.keyboard.press("Escape")
    expect(chat.get("dialog-settings")).to_have_count(0)
    say(chat, "with instructions")
    assert "Answer in verse." in json.dumps(prompts.requests[-1]["messages"][0])
    chat.get("settings").click()
    expect(chat.get("instructions")).to_have_value("Answer in verse.")
    chat.page.locator("[data-testid=model-choice][value=demo]").check()
    chat.get("dialog-close").click()
    expect(chat.get("model")).to_have_text("demo")
    chat.reload()
    expect(chat.get("model")).to_have_text("demo")
    say(chat, "echo from the demonstration")
    expect(chat.answer.get_by_test_id("usage")).to_contain_text("demo")


def test_a_model_that_cannot_answer_says_so_where_it_is_chosen(chat: Chat) -> None:
    chat.get("settings").click()
    expect(chat.get("model-problem")).to_have_count(1)
    # Heard as well: it is part of the name of what is chosen.
    choice = chat.page.get_by_role("radio", name=re.compile("^nobody.*could not be reached"))
    choice.check()
    chat.get("dialog-close").click()
    expect(chat.get("model")).to_have_text("nobody")


def test_the_tokens_of_a_turn_are_shown(chat: Chat) -> None:
    say(chat, "how much was that")
    expect(chat.answer.get_by_test_id("usage")).to_have_text("prompted · 3,456 tokens")
    title = chat.answer.get_by_test_id("usage").get_attribute("title")
    assert title == "12 tokens read, 3,456 written"


def test_a_draft_survives_a_reload(chat: Chat) -> None:
    chat.get("input").fill("half a thought")
    chat.reload()
    expect(chat.get("input")).to_have_value("half a thought")


# copying


def test_a_message_is_copied_as_it_was_written(
    shared: RunningServer, browser: Browser, open_chat: OpenChat
) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    chat = open_chat(shared.url, context)
    say(chat, "**bold** and `code`")
    clipboard = "navigator.clipboard.readText()"
    chat.answer.get_by_test_id("copy").click()
    expect(chat.answer.get_by_test_id("copy")).to_have_attribute("data-result", "copied")
    assert chat.page.evaluate(clipboard) == "**bold** and `code`"
    chat.page.evaluate("navigator.clipboard.writeText('')")
    chat.page.keyboard.press("Control+Shift+c")
    chat.page.wait_for_function(f"() => {clipboard}.then(text => text === '**bold** and `code`')")
    context.close()


# scrolling


def at_end(page: Page) -> bool:
    """Whether the view comes to the end of the text; a frame may lie between the two."""
    page.wait_for_function(
        "() => { const s = document.querySelector('[data-testid=scroller]');"
        " return s.scrollHeight - s.scrollTop - s.clientHeight < 8; }"
    )
    return True


def test_the_view_follows_the_text_unless_the_person_scrolled_up(
    chat: Chat, prompts: Prompts
) -> None:
    lines = "".join(f"line {n}\n\n" for n in range(300))
    chat.send(prompts.says("many lines", lines, size=40, rate=40))
    expect(chat.answer).to_contain_text("line 80")
    assert at_end(chat.page)
    chat.get("scroller").hover()
    chat.page.mouse.wheel(0, -300)
    expect(chat.get("to-end")).to_be_visible()
    top = chat.get("scroller").evaluate("box => box.scrollTop")
    # On the way a group of 64 blocks is full, and set apart.
    expect(chat.answer).to_contain_text("line 200")
    assert chat.get("scroller").evaluate("box => box.scrollTop") == top
    chat.get("to-end").click()
    expect(chat.get("to-end")).to_have_count(0)
    expect(chat.answer).to_contain_text("line 220")
    assert at_end(chat.page)
    chat.wait_until("finished")
    assert at_end(chat.page)


def test_text_that_grows_faster_does_not_overtake_who_scrolls_up(
    chat: Chat, prompts: Prompts
) -> None:
    """One frame, one event: much text came, and the person scrolled up by less."""
    lines = "".join(f"line {n}\n\n" for n in range(200))
    chat.send(prompts.says("lines and a gesture", lines))
    chat.wait_until("finished")
    expect(chat.answer).to_contain_text("line 199")  # a slow machine draws on after the end
    left = chat.get("scroller").evaluate(
        """async (box) => {
          const content = box.querySelector('[data-role=assistant]');
          const height = content.offsetHeight;
          const frame = () => new Promise((done) => requestAnimationFrame(done));
          const grow = async (pixels) => {
            content.style.minHeight = `${height + pixels}px`;
            await frame();
            await frame();
          };
          let armed = false; // an observer is also called for having begun
          const gesture = new Promise((done) => {
            new ResizeObserver(() => {
              if (armed) box.scrollTop -= 200;
              if (armed) done();
              armed = false;
            }).observe(content);
          });
          await grow(0);
          armed = true;
          await grow(1000);
          await gesture;
          await grow(2000);
          return box.scrollHeight - box.scrollTop - box.clientHeight;
        }"""
    )
    assert left > 1_000
    expect(chat.get("to-end")).to_be_visible()


# keys


def test_keys(chat: Chat) -> None:
    chat.get("input").fill("first line")
    chat.page.keyboard.press("Shift+Enter")
    chat.page.keyboard.type("second line")
    chat.page.keyboard.press("Enter")
    chat.wait_until("finished")
    expect(chat.messages.first).to_contain_text("first line\nsecond line", use_inner_text=True)

    chat.page.keyboard.press("?")  # is a character here
    expect(chat.get("input")).to_have_value("?")
    chat.get("input").fill("")
    chat.get("scroller").focus()
    chat.page.keyboard.press("?")
    expect(chat.get("dialog-shortcuts")).to_be_visible()
    chat.get("single-keys").uncheck()
    chat.page.keyboard.press("Escape")
    expect(chat.get("dialog-shortcuts")).to_have_count(0)
    chat.get("scroller").focus()
    chat.page.keyboard.press("?")
    chat.page.keyboard.press("/")
    expect(chat.get("dialog-shortcuts")).to_have_count(0)
    expect(chat.get("input")).not_to_be_focused()
    chat.get("shortcuts").click()
    chat.get("single-keys").check()
    chat.get("dialog-close").click()
    chat.get("scroller").focus()
    chat.page.keyboard.press("/")
    expect(chat.get("input")).to_be_focused()

    chat.page.keyboard.press("Alt+ArrowUp")
    expect(chat.messages.last).to_be_focused()
    chat.page.keyboard.press("Alt+ArrowUp")
    expect(chat.messages.first).to_be_focused()
    chat.page.keyboard.press("Alt+ArrowDown")
    expect(chat.messages.last).to_be_focused()
    chat.page.keyboard.press("Control+Shift+o")
    expect(chat.get("welcome")).to_be_visible()


def test_control_dot_stops(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.says("stopped by a key", "blah " * 2_000, size=5, rate=20))
    expect(chat.answer).to_contain_text("blah")
    chat.page.keyboard.press("Control+.")
    chat.wait_until("cancelled")


def test_enter_of_a_touch_keyboard_begins_a_line(
    shared: RunningServer, browser: Browser, open_chat: OpenChat
) -> None:
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    )
    chat = open_chat(shared.url, context)
    chat.get("input").tap()
    chat.page.keyboard.type("one")
    chat.page.keyboard.press("Enter")
    chat.page.keyboard.type("two")
    expect(chat.get("input")).to_have_value("one\ntwo")
    chat.get("send").tap()
    chat.wait_until("finished")
    context.close()
