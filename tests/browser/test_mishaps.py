"""Clumsy hands, full disks, bad moments: nothing is lost, nothing is done twice."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.chat import Chat, Log, words
from tests.browser.conftest import OpenChat
from tests.browser.model import ScriptedModel
from tests.browser.prompts import Prompts
from tests.browser.proxy import Proxy
from tests.browser.test_tabs import until
from tests.crash.server import RunningServer, running_server

pytestmark = [pytest.mark.browser, pytest.mark.requirement("F8")]

SENDING = "**/api/threads/*/messages"


@pytest.fixture
def chat(shared: RunningServer, open_chat: OpenChat) -> Chat:
    return open_chat(shared.url)


def say(chat: Chat, text: str) -> None:
    before = chat.messages.count()
    chat.send(text)
    expect(chat.messages).to_have_count(before + 2)
    chat.wait_until("finished")


def endless(prompts: Prompts, name: str) -> str:
    """A prompt whose answer goes on until it is stopped."""
    return prompts.says(name, "on and on " * 3_000, size=10, rate=20)


@contextmanager
def held(target: Page | BrowserContext, pattern: str) -> Iterator[list[Route]]:
    """Requests that do not get anywhere; at the end they go on."""
    routes: list[Route] = []
    target.route(pattern, lambda route: routes.append(route))
    yield routes
    for route in routes:
        route.continue_()
    target.unroute(pattern)


def focused(chat: Chat) -> str | None:
    """What has the focus."""
    found: str | None = chat.page.evaluate("document.activeElement.dataset.testid")
    return found


# twice instead of once


def test_what_is_clicked_twice_is_done_once(chat: Chat, prompts: Prompts) -> None:
    posts: list[str] = []
    chat.page.on("request", lambda r: posts.append(r.url) if r.method == "POST" else None)

    def done_once() -> None:
        chat.wait_until("finished")
        # What was asked for after the first would have been asked for before this.
        chat.page.evaluate("fetch('healthz').then(() => null)")
        assert len(posts) == 1, posts
        posts.clear()

    chat.get("input").fill("sent by a double click")
    chat.get("send").dblclick()
    expect(chat.messages).to_have_count(2)
    done_once()
    chat.answer.hover()
    chat.get("regenerate").dblclick()
    expect(chat.get("version")).to_have_text("2 / 2")
    done_once()
    chat.get("input").fill("sent by a key that is held down")
    for _ in range(5):
        chat.page.keyboard.press("Enter")
    expect(chat.messages).to_have_count(4)
    done_once()
    chat.page.keyboard.press("ArrowUp")
    chat.get("edit-input").fill("written anew by a double click")
    chat.get("edit-send").dblclick()
    expect(chat.answer).to_contain_text("written anew")
    done_once()


def test_what_is_tried_again_twice_is_tried_once(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.fails("fails before a double click", 500))
    chat.wait_until("failed")
    prompts.says("fails before a double click", "works now")
    chat.get("retry").dblclick()
    chat.wait_until("finished")
    expect(chat.get("version")).to_have_text("2 / 2")
    chat.send(endless(prompts, "stopped by a double click"))
    expect(chat.answer).to_contain_text("on and on")
    chat.stop_button.dblclick()
    chat.wait_until("cancelled")
    chat.get("go-on").dblclick()
    expect(chat.messages).to_have_count(6)
    chat.wait_until("finished")
    expect(chat.messages).to_have_count(6)


def test_a_deletion_confirmed_twice_is_one(chat: Chat) -> None:
    say(chat, "deleted by a double click")
    entry = chat.get("thread").filter(has_text="deleted by a double click")
    entry.hover()
    entry.get_by_test_id("thread-menu").click()
    chat.get("delete").click()
    chat.get("confirm-delete").dblclick()
    expect(entry).to_have_count(0)
    expect(chat.get("welcome")).to_be_visible()


def test_the_same_address_twice_is_one_step_back(chat: Chat) -> None:
    say(chat, "the first of two")
    first = chat.address
    chat.get("new-thread").click()
    say(chat, "the second of two")
    before = chat.page.evaluate("history.length")
    entry = chat.get("thread").filter(has_text="the first of two").get_by_role("link")
    for _ in range(3):
        entry.click()
    for _ in range(3):
        chat.get("new-thread").click()
    expect(chat.get("welcome")).to_be_visible()
    assert chat.page.evaluate("history.length") == before + 2
    chat.page.go_back()
    expect(chat.messages.first).to_contain_text("the first of two")
    assert chat.address == first


# at the wrong moment


def test_a_new_chat_is_there_while_the_first_message_is_on_its_way(chat: Chat) -> None:
    with held(chat.page, SENDING) as routes:
        chat.send("on its way")
        expect(chat.messages).to_have_attribute("data-state", "sending")
        address = chat.address
        chat.get("new-thread").click()
        expect(chat.get("welcome")).to_be_visible()
        chat.page.go_back()
        expect(chat.messages).to_have_text(re.compile("on its way"))
        chat.page.go_forward()
        expect(chat.get("welcome")).to_be_visible()
        chat.send("another one")
        until(chat.page, lambda: len(routes) == 2)
    chat.wait_until("finished")
    expect(chat.answer).to_contain_text("another one")
    for text in ("on its way", "another one"):
        expect(chat.get("thread").filter(has_text=text)).to_have_count(1)
    chat.page.goto(address)
    chat.wait_until("finished")
    expect(chat.answer).to_contain_text("on its way")


def test_a_page_that_is_left_while_it_sends_sends_once(chat: Chat) -> None:
    with held(chat.page, SENDING):
        chat.send("left at once")
        expect(chat.messages).to_have_attribute("data-state", "sending")
        address = chat.address
        chat.page.goto("about:blank")
    chat.open(address)
    chat.wait_until("finished")
    expect(chat.messages).to_have_count(2)


def test_back_and_forward_between_threads_that_stream(chat: Chat, prompts: Prompts) -> None:
    streams: list[Any] = []
    chat.page.on("request", lambda r: streams.append(r) if "/api/streams/" in r.url else None)
    chat.page.on("requestfailed", lambda r: streams.remove(r) if r in streams else None)
    chat.page.on("requestfinished", lambda r: streams.remove(r) if r in streams else None)
    texts = ["".join(words(120)), "".join(words(120, 500))]
    addresses = []
    for n, text in enumerate(texts):
        chat.get("new-thread").click()
        expect(chat.get("welcome")).to_be_visible()
        chat.send(prompts.says(f"streams while one looks elsewhere {n}", text, size=10, rate=25))
        expect(chat.answer).to_contain_text("word")
        addresses.append(chat.address)
    for n in range(6):
        chat.page.evaluate(
            "steps => history.go(steps)", -2 if n % 2 == 0 else 2
        )  # a new thread is between them
        chat.page.wait_for_url(addresses[n % 2])
        expect(chat.answer).to_contain_text(words(1, 500 * (n % 2))[0].strip())
        assert len(streams) <= 1
    for address, text in zip(addresses, texts, strict=True):
        if chat.address != address:
            chat.page.go_back()
            chat.page.go_back()
        chat.wait_until("finished")
        assert chat.source() == text
        if address == addresses[0]:
            chat.page.go_forward()
            chat.page.go_forward()
            chat.page.wait_for_url(addresses[1])


def test_a_question_is_written_anew_while_its_answer_streams(chat: Chat, prompts: Prompts) -> None:
    chat.send(endless(prompts, "written anew in the middle"))
    expect(chat.answer).to_contain_text("on and on")
    chat.messages.first.hover()
    chat.get("edit").click()
    chat.get("edit-input").fill("the better question")
    chat.page.keyboard.press("Enter")
    expect(chat.answer).to_contain_text("the better question")
    chat.wait_until("finished")
    chat.get("earlier").click()
    chat.wait_until("cancelled")  # nobody waits for it any more
    expect(chat.messages).to_have_count(2)


def test_what_was_written_anew_survives_another_thread_and_a_reload(chat: Chat) -> None:
    say(chat, "to be rewritten at length")
    chat.page.keyboard.press("ArrowUp")
    chat.get("edit-input").fill("half of a better question")
    chat.get("new-thread").click()
    expect(chat.get("welcome")).to_be_visible()
    chat.page.go_back()
    expect(chat.get("edit-input")).to_have_value("half of a better question")
    chat.reload()
    expect(chat.get("edit-input")).to_have_value("half of a better question")
    chat.get("edit-cancel").click()
    chat.reload()
    expect(chat.messages).to_have_count(2)
    expect(chat.get("edit-input")).to_have_count(0)
    chat.messages.first.hover()
    chat.get("edit").click()
    expect(chat.get("edit-input")).to_have_value("to be rewritten at length")


def test_the_last_message_that_is_shown_is_edited(chat: Chat) -> None:
    say(chat, "the first wording")
    chat.page.keyboard.press("ArrowUp")
    chat.get("edit-input").fill("the second wording")
    chat.page.keyboard.press("Enter")
    expect(chat.answer).to_contain_text("the second wording")
    chat.wait_until("finished")
    chat.get("earlier").click()
    expect(chat.answer).to_contain_text("the first wording")
    chat.get("input").focus()
    chat.page.keyboard.press("ArrowUp")
    expect(chat.get("edit-input")).to_have_value("the first wording")


def test_a_thread_that_streams_is_deleted_under_another_tab(
    shared: RunningServer, browser: Browser, open_chat: OpenChat, prompts: Prompts
) -> None:
    context = browser.new_context()
    one = open_chat(shared.url, context)
    one.send(endless(prompts, "deleted while it streams"))
    expect(one.answer).to_contain_text("on and on")
    two = open_chat(one.address, context)
    two.get("input").fill("words that took an hour")
    expect(two.answer).to_contain_text("on and on")
    entry = one.get("thread").filter(has_text="deleted while it streams")
    entry.hover()
    entry.get_by_test_id("thread-menu").click()
    one.get("delete").click()
    one.get("confirm-delete").click()
    expect(one.get("welcome")).to_be_visible()
    expect(two.get("missing")).to_be_visible()
    # They can still be read and copied, and are not sent to what is gone.
    expect(two.get("input")).to_have_value("words that took an hour")
    expect(two.get("input")).to_be_enabled()
    expect(two.get("input")).not_to_be_editable()
    expect(two.get("send")).to_have_count(0)
    expect(two.get("announcer")).to_have_text("This chat does not exist any more")
    expect(two.get("gone-note")).to_have_text("What you wrote was not sent.")
    expect(entry).to_have_count(0)
    two.get("gone-new").click()
    expect(two.get("welcome")).to_be_visible()
    expect(two.get("input")).to_have_value("words that took an hour")
    expect(two.get("input")).to_be_editable()
    expect(two.get("input")).to_be_focused()
    two.page.go_back()
    expect(two.get("missing")).to_be_visible()
    expect(two.get("input")).to_have_value("")  # it is in one place
    context.close()


def test_a_message_that_was_being_rewritten_is_not_lost_with_its_thread(
    shared: RunningServer, chat: Chat
) -> None:
    other = Chat(chat.page.context.new_page())
    other.open(shared.url)
    other.get("input").fill("deleted while it is rewritten")
    other.get("send").click()
    other.wait_until("finished")
    other.get("new-thread").click()
    other.get("input").fill("a draft that waits")
    chat.get("input").fill("that of another tab")  # also in a new thread
    other.page.go_back()
    other.messages.first.hover()
    other.get("edit").click()
    other.get("edit-input").fill("better words")
    with httpx2.Client(base_url=shared.url) as http:
        http.delete(f"/api/threads/{other.thread}")
    expect(other.get("missing")).to_be_visible()
    expect(other.get("input")).to_have_value("better words")
    other.get("gone-new").click()
    expect(other.get("input")).to_have_value("a draft that waits\n\nbetter words")
    chat.page.reload()
    expect(chat.get("input")).to_have_value("that of another tab")


def test_a_thread_that_does_not_exist_leads_to_a_new_one(shared: RunningServer, chat: Chat) -> None:
    chat.page.goto(f"{shared.url}/t/01900000-0000-7000-8000-000000000000")
    expect(chat.get("missing")).to_be_visible()
    expect(chat.get("input")).to_have_attribute("placeholder", "This chat does not exist any more")
    expect(chat.get("input")).not_to_be_editable()
    expect(chat.get("attach")).to_have_count(0)
    expect(chat.get("gone-new")).to_be_focused()
    chat.page.keyboard.press("Enter")
    expect(chat.get("welcome")).to_be_visible()
    expect(chat.get("input")).to_be_focused()


def test_what_is_on_its_way_does_not_bring_a_deleted_thread_back(chat: Chat) -> None:
    say(chat, "a thread that goes")
    with held(chat.page, SENDING):
        chat.send("too late")
        expect(chat.messages.last).to_have_attribute("data-state", "sending")
        entry = chat.get("thread").filter(has_text="a thread that goes")
        entry.hover()
        entry.get_by_test_id("thread-menu").click()
        chat.get("delete").click()
        chat.get("confirm-delete").click()
        expect(entry).to_have_count(0)
    kept = chat.page.evaluate(
        "Object.entries(localStorage).filter(([key, text]) => /too late/.test(text))"
    )
    assert kept == []
    chat.reload()
    expect(entry).to_have_count(0)


def test_two_tabs_without_a_network_lose_no_message(
    shared: RunningServer, browser: Browser, open_chat: OpenChat
) -> None:
    context = browser.new_context()
    one = open_chat(shared.url, context)
    say(one, "a thread in two tabs")
    two = open_chat(one.address, context)
    context.route(SENDING, lambda route: route.abort())
    for tab, text in ((one, "from the first tab"), (two, "from the second tab")):
        tab.send(text)
        expect(tab.messages.last).to_contain_text("Not sent yet")
    address = one.address
    one.close()
    two.close()
    context.unroute(SENDING)
    again = open_chat(address, context)
    expect(again.messages).to_have_count(6)
    again.wait_until("finished")
    for text in ("from the first tab", "from the second tab"):
        expect(again.page.locator("[data-role=user]").filter(has_text=text)).to_have_count(1)
    context.close()


@pytest.mark.requirement("O2", "F3")
@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_connection_that_is_cut_within_the_outcome(
    server: RunningServer, model: ScriptedModel, proxy: Proxy, open_chat: OpenChat, how: Any
) -> None:
    """Half of the last frame has arrived: it is no outcome, and the whole one comes once."""
    proxy.cut_within(b'"type":"outcome"', how)
    chat = open_chat(proxy.url)
    chat.send("Hello")
    model.say(*words(10))
    chat.wait_for_words(10)
    model.finish(*words(10, 10))
    chat.wait_until("finished")
    assert proxy.done == [how]
    assert chat.states() == ["running", "finished"]
    log = Log(server, chat.thread)
    assert chat.source() == log.text() == "".join(words(20))
    log.close()
    expect(chat.get("connection")).to_have_attribute("data-state", "quiet")


# files


def test_a_file_goes_on_when_the_server_is_back(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    chat = open_chat(server.url)
    server.kill9()
    chat.get("file-input").set_input_files(
        [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember the milk"}]
    )
    file = chat.get("draft-file")
    expect(chat.get("send")).to_have_attribute("title", "A file is still on its way")
    server.start()
    expect(file).to_have_attribute("data-state", "ready")
    model.finish(*words(3))
    chat.get("send").click()
    chat.wait_until("finished")
    expect(chat.messages.first.get_by_test_id("file")).to_contain_text("notes.txt")


def test_what_cannot_be_read_is_refused_and_not_tried_for_ever(chat: Chat, tmp_path: Path) -> None:
    """A file that is gone, a folder that was dropped: browsers call it a network error."""
    path = tmp_path / "gone.txt"
    path.write_text("as it was chosen")
    chat.page.evaluate(
        """() => document.querySelector('[data-testid=file-input]').addEventListener('change',
          (event) => { window.chosen = [...event.target.files]; event.stopImmediatePropagation(); }, true)"""  # noqa: E501
    )
    chat.get("file-input").set_input_files(path)
    path.unlink()
    chat.page.evaluate(
        """() => {
          const data = new DataTransfer();
          for (const file of window.chosen) data.items.add(file);
          window.dispatchEvent(new DragEvent('drop', { dataTransfer: data, cancelable: true }));
        }"""
    )
    expect(chat.get("draft-file")).to_have_attribute("data-state", "refused")
    expect(chat.get("draft-file")).to_contain_text("cannot be read")


def test_a_text_of_megabytes_that_is_pasted_becomes_a_file(chat: Chat, prompts: Prompts) -> None:
    chat.get("input").fill("what is this?")
    chat.page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.setData('text/plain', 'lorem ipsum '.repeat(170_000));
          const event = { bubbles: true, cancelable: true, clipboardData: data };
          document.querySelector('[data-testid=input]').dispatchEvent(new ClipboardEvent('paste', event));
        }"""  # noqa: E501
    )
    file = chat.page.locator("[data-testid=draft-file][data-state=ready]")
    expect(file).to_contain_text("pasted.txt")
    expect(chat.get("input")).to_have_value("what is this?")
    chat.get("remove-file").click()
    expect(file).to_have_count(0)


def test_the_size_limit_is_told(chat: Chat) -> None:
    expect(chat.get("attach")).to_have_attribute("title", re.compile("up to 10 MB each"))


# storage


@pytest.mark.parametrize(
    "refuse",
    [
        "Object.defineProperty(window, 'localStorage',"
        " { get() { throw new DOMException('', 'SecurityError'); } })",
        "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }",
        "delete Navigator.prototype.serviceWorker",
        "delete Navigator.prototype.locks",
        "delete window.Notification",
    ],
    ids=["forbidden", "full", "no worker", "no locks", "no notes"],
)
def test_the_page_works_without_what_browsers_may_refuse(
    shared: RunningServer, browser: Browser, open_chat: OpenChat, refuse: str
) -> None:
    context = browser.new_context()
    context.add_init_script(refuse)
    chat = open_chat(shared.url, context)
    say(chat, "a browser that keeps nothing")
    chat.reload()
    expect(chat.messages).to_have_count(2)
    say(chat, "and again")
    expect(chat.get("thread").filter(has_text="a browser that keeps nothing").first).to_be_visible()
    context.close()


def test_a_full_disk_does_not_keep_the_page_from_loading(chat: Chat, shared: RunningServer) -> None:
    """Its worker cannot keep anything then."""
    say(chat, "a full disk")
    chat.page.wait_for_function("navigator.serviceWorker.ready.then(() => true)")
    session = chat.page.context.new_cdp_session(chat.page)
    origin = shared.url.rstrip("/")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 1})
    chat.reload()
    assert chat.page.evaluate("navigator.serviceWorker.controller !== null")
    expect(chat.messages).to_have_count(2)
    say(chat, "goes on")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin})


@pytest.mark.requirement("F1")
def test_a_network_that_lets_nothing_through_shows_what_was_loaded(
    server: RunningServer, model: ScriptedModel, proxy: Proxy, open_chat: OpenChat
) -> None:
    """Not offline, and no error either: a page that waits would wait for minutes."""
    model.finish(*words(5))
    chat = open_chat(proxy.url)
    chat.send("Hello")
    chat.wait_until("finished")
    chat.page.wait_for_function("navigator.serviceWorker.ready.then(() => true)")
    chat.reload()  # through the worker
    proxy.hold()
    chat.page.reload(wait_until="commit")
    expect(chat.get("composer")).to_be_visible()
    proxy.release()
    expect(chat.messages).to_have_count(2)


# signing in


def test_signing_in_cannot_be_closed(tmp_path: Path, browser: Browser, open_chat: OpenChat) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-at-least-twenty-characters")
    token.chmod(0o600)
    with running_server(tmp_path, token_file=str(token)) as server:
        chat = Chat(browser.new_context().new_page())
        chat.page.goto(server.url.partition("?")[0])
        expect(chat.get("sign-in")).to_be_visible()
        for _ in range(3):
            chat.page.keyboard.press("Escape")  # browsers insist on the second
        chat.get("token").fill(token.read_text())
        chat.page.keyboard.press("Enter")
        expect(chat.get("sign-in")).to_have_count(0)
        say(chat, "echo signed in")
        chat.page.context.close()


# keys


def test_from_the_first_key_to_the_stop_without_a_mouse(chat: Chat, prompts: Prompts) -> None:
    page = chat.page
    page.keyboard.type(endless(prompts, "by keys alone"))
    page.keyboard.press("Enter")
    expect(chat.answer).to_contain_text("on and on")
    assert focused(chat) == "input"
    stops = []
    while focused(chat) != "stop":
        page.keyboard.press("Tab")
        stops.append(focused(chat))
        assert len(stops) < 10, stops
    page.keyboard.press("Enter")
    chat.wait_until("cancelled")
    page.keyboard.type("typed right after it")  # the focus is not lost with the button
    expect(chat.get("input")).to_have_value("typed right after it")


def test_the_focus_is_not_lost_with_a_button_that_goes(chat: Chat, prompts: Prompts) -> None:
    say(chat, "focus stays")
    for button in ("regenerate", "edit"):
        chat.get(button).last.focus()
        chat.page.keyboard.press("Enter")
        if button == "edit":
            expect(chat.get("edit-input")).to_be_focused()
            chat.page.keyboard.press("Escape")
        expect(chat.get("input")).to_be_focused()
        chat.wait_until("finished")
    chat.send(prompts.fails("focus stays after a failure", 500))
    chat.wait_until("failed")
    chat.get("retry").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.get("input")).to_be_focused()


# parts of the page that do not come at once


def test_parts_that_could_not_be_loaded_come_with_their_looks_when_the_server_is_back(
    shared: RunningServer, browser: Browser, prompts: Prompts
) -> None:
    """As while it restarts: whatever is asked for for the first time fails."""
    context = browser.new_context(service_workers="block")
    page, failed = context.new_page(), set[str]()
    chat = Chat(page)

    def once(route: Route) -> None:
        url = route.request.url
        if url in failed or "/assets/main-" in url:
            route.continue_()
        else:
            failed.add(url)
            route.abort()

    page.route("**/static/assets/**", once)
    chat.open(shared.url)
    say(chat, prompts.says("parts", "Inline $e^x$.\n\n```python\nx = 1\n```\n"))
    chat.get("shortcuts").click()
    dialog = chat.get("dialog-shortcuts")
    expect(dialog).to_be_visible()
    # That of a dialog without a style is square.
    assert dialog.evaluate("dialog => getComputedStyle(dialog).borderRadius") != "0px"
    page.keyboard.press("Escape")
    expect(chat.get("code")).to_have_attribute("data-coloured", "true")
    expect(chat.get("formula").locator(".katex")).to_be_visible()
    scripts = sorted(url.rsplit("/")[-1].split("-")[0] for url in failed if url.endswith(".js"))
    assert scripts == ["extras", "highlighter", "katex"]
    context.close()
