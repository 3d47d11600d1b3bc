"""One message, end to end, in a real browser: the answer outlives whatever happens to the page."""

from itertools import cycle, islice

import pytest
from playwright.sync_api import Browser, BrowserContext, Route, expect

from tests.browser.chat import Chat, Log, words
from tests.browser.conftest import OpenChat
from tests.browser.model import ScriptedModel
from tests.browser.proxy import Cut, How, Proxy
from tests.crash.server import RunningServer

pytestmark = pytest.mark.browser


def assert_whole(chat: Chat, server: RunningServer, text: str, state: str = "finished") -> None:
    """Log and page have this text, to the byte, and the page shows each of its words once."""
    chat.wait_until(state)
    log = Log(server, chat.thread)
    assert log.text() == text
    log.close()
    assert chat.source() == text
    assert chat.shown().split() == text.split()


# Issue: one message, end to end


@pytest.mark.requirement("T1", "T2", "L7", "F1", "M3")
def test_an_answer_goes_on_through_reloads(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    chat = open_chat(server.url)
    chat.send("Hello")
    for n in range(4):
        model.say(*words(30, 30 * n))
        chat.wait_for_words(30 * (n + 1))
        assert chat.state() == "running"
        assert chat.shown().split() == [word.strip() for word in words(30 * (n + 1))]
        chat.reload()
    model.say(*words(30, 120))
    chat.wait_for_words(150)
    model.finish()
    assert_whole(chat, server, "".join(words(150)))
    assert chat.states() == ["running", "finished"]


@pytest.mark.requirement("T1", "T2", "O2")
def test_an_answer_is_finished_without_its_page(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    first = open_chat(server.url)
    first.send("Hello")
    model.say(*words(10))
    first.wait_for_words(10)
    address = first.address
    first.close()
    model.finish(*words(90, 10))
    log = Log(server, address.rpartition("/")[2])
    assert log.wait_for_end() == "finished"
    log.close()
    second = open_chat(address)
    assert_whole(second, server, "".join(words(100)))
    assert second.states() == ["finished"]


@pytest.mark.requirement("T2")
def test_a_second_device_joins_and_sees_the_same(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    first = open_chat(server.url)
    first.send("Hello")
    model.say(*words(10))
    first.wait_for_words(10)
    second = open_chat(first.address)
    model.say(*words(10, 10))
    for chat in (first, second):
        chat.wait_for_words(20)
        assert chat.state() == "running"
    model.finish(*words(10, 20))
    for chat in (first, second):
        assert_whole(chat, server, "".join(words(30)))
        assert chat.states() == ["running", "finished"]


@pytest.mark.requirement("F1", "F3", "O2", "M3")
def test_ten_cuts_lose_and_repeat_nothing(
    server: RunningServer, model: ScriptedModel, proxy: Proxy, open_chat: OpenChat
) -> None:
    """P03: clean ends, closes and resets in turn; none of them is taken for the end."""
    hows: list[How] = list(islice(cycle(("end", "close", "reset")), 10))
    proxy.cuts.extend(Cut(600, how) for how in hows)  # a few words each, and half an event
    chat = open_chat(proxy.url)
    chat.send("Hello")
    for n in range(120):  # one by one, so that each is an event
        model.say(*words(1, n))
        chat.wait_for_words(n + 1)
    assert proxy.done == hows
    model.finish()
    assert_whole(chat, server, "".join(words(120)))
    assert chat.states() == ["running", "finished"]
    expect(chat.messages).to_have_count(2)


@pytest.mark.requirement("C1", "C3")
def test_stop_in_one_tab_is_seen_in_the_other(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    first = open_chat(server.url)
    first.send("Hello")
    model.say(*words(5))
    first.wait_for_words(5)
    second = open_chat(first.address)
    second.wait_for_words(5)
    second.stop_button.click()
    for chat in (first, second):
        assert_whole(chat, server, "".join(words(5)), "cancelled")
        expect(chat.stop_button).to_have_count(0)
        assert chat.states() == ["running", "cancelled"]


# Cases


@pytest.mark.requirement("O2", "F1")
def test_close_without_terminal_reconnects(
    server: RunningServer, model: ScriptedModel, proxy: Proxy, open_chat: OpenChat
) -> None:
    """P01: the response ends as cleanly as a finished one; the page goes on as if nothing was."""
    proxy.cuts.append(Cut(1_000, "end"))
    chat = open_chat(proxy.url)
    chat.send("Hello")
    model.say(*words(100))
    chat.wait_for_reconnecting()
    assert chat.state() == "running"
    expect(chat.stop_button).to_be_visible()
    chat.wait_for_words(100)
    model.finish(*words(10, 100))
    assert_whole(chat, server, "".join(words(110)))
    assert chat.states() == ["running", "finished"]
    expect(chat.get("connection")).to_have_attribute("data-state", "quiet")
    assert chat.connections()[-2:] == ["reconnecting", "quiet"]
    assert proxy.done == ["end"]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("answer", ["empty", "nothing"])
def test_no_haste_after_answers_without_events(
    server: RunningServer,
    model: ScriptedModel,
    open_chat: OpenChat,
    browser: Browser,
    answer: str,
) -> None:
    """P04: an empty stream, or a 204: at most six requests in 30 s of the page's time."""
    chat, asked = chat_with_streams(server, model, open_chat, browser, answer)
    pass_30_seconds(chat)
    assert 2 <= len(asked) <= 6
    assert chat.state() == "running"


@pytest.mark.requirement("F1", "O2")
def test_a_stream_that_is_gone_is_not_asked_for_again(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat, browser: Browser
) -> None:
    """P04: 404; the history is shown, and that the rest cannot be found."""
    chat, asked = chat_with_streams(server, model, open_chat, browser, "gone")
    pass_30_seconds(chat)
    assert 1 <= len(asked) <= 2
    expect(chat.get("connection")).to_have_attribute("data-state", "lost")
    expect(chat.messages).to_have_count(2)


def chat_with_streams(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat, browser: Browser, answer: str
) -> tuple[Chat, list[str]]:
    """A page on a running turn, with a clock the test moves, whose streams are answered so."""
    starter = open_chat(server.url)
    starter.send("Hello")
    model.say(*words(2))
    starter.wait_for_words(2)
    asked: list[str] = []

    def fulfill(route: Route) -> None:
        asked.append(route.request.url)
        if answer == "gone":
            gone = {"code": "STREAM_NOT_FOUND", "message": "No such stream"}
            route.fulfill(status=404, json=gone)
        elif answer == "empty":
            route.fulfill(status=200, content_type="text/event-stream", body=": open\n\n")
        else:
            route.fulfill(status=204)

    context = browser.new_context()
    context.clock.install()
    context.route("**/api/streams/**", fulfill)
    chat = open_chat(starter.address, context)
    starter.close()
    return chat, asked


def pass_30_seconds(chat: Chat) -> None:
    for _ in range(60):
        chat.page.clock.run_for(500)
        chat.page.evaluate("() => fetch('healthz').then(() => null)")  # what is asked, is answered


@pytest.mark.requirement("F1")
def test_a_lost_network_is_not_a_verdict(
    server: RunningServer, model: ScriptedModel, proxy: Proxy, open_chat: OpenChat
) -> None:
    """P08: only the transport is killed: no message says so, and the line above the box goes."""
    chat = open_chat(proxy.url)
    chat.send("Hello")
    for n in range(3):
        model.say(*words(10, 10 * n))
        chat.wait_for_words(10 * (n + 1))
        chat.connections()
        proxy.cut_all()
        chat.wait_for_reconnecting()
        assert chat.state() == "running"
        expect(chat.messages).to_have_count(2)
        expect(chat.get("outcome")).to_have_count(0)
        expect(chat.get("connection")).to_have_attribute("data-state", "quiet")
    model.finish(*words(10, 30))
    assert_whole(chat, server, "".join(words(40)))
    assert chat.states() == ["running", "finished"]


HOLD_THE_HISTORY = """{
  const before = window.fetch;
  const gate = new Promise((open) => { window.release = open; });
  window.fetch = async (input, init) => {
    const response = await before(input, init);
    window.arrived = window.arrived || String(input).includes('/api/threads/');
    if (/\\/api\\/threads\\/[^/]+$/.test(new URL(input, location).pathname)) await gate;
    return response;
  };
}"""


@pytest.mark.requirement("L7", "F3")
@pytest.mark.parametrize("meanwhile", ["nothing", "more", "the end"])
def test_a_late_history_wipes_nothing(
    server: RunningServer,
    model: ScriptedModel,
    open_chat: OpenChat,
    browser: Browser,
    meanwhile: str,
) -> None:
    """P12: what the thread was arrives after more was said, or after the answer has ended."""
    starter = open_chat(server.url)
    starter.send("Hello")
    model.say(*words(20))
    starter.wait_for_words(20)
    context = browser.new_context()
    context.add_init_script(HOLD_THE_HISTORY)
    chat = Chat(context.new_page())
    chat.page.goto(starter.address)
    chat.page.wait_for_function("() => window.arrived")
    if meanwhile != "nothing":
        model.say(*words(20, 20))
        starter.wait_for_words(40)
    if meanwhile == "the end":
        model.finish()
        starter.wait_until("finished")
    chat.page.evaluate("() => window.release()")
    chat.wait_until_ready()
    count = 20 if meanwhile == "nothing" else 40
    chat.wait_for_words(count)
    if meanwhile != "the end":
        model.finish(*words(5, count))
        count += 5
    for one in (chat, starter):
        assert_whole(one, server, "".join(words(count)))
    context.close()


@pytest.mark.requirement("C1", "T2")
def test_stop_is_there_after_a_reload_and_in_another_browser(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    """P17: the turn's id lives on the server, not in a page's memory."""
    chat = open_chat(server.url)
    for stopper in ("the same page", "another device"):
        model.begin()
        chat.send("Hello")
        model.say(*words(3))
        chat.wait_for_words(3)
        chat.reload()
        other = chat if stopper == "the same page" else open_chat(chat.address)
        expect(other.stop_button).to_be_visible()
        other.stop_button.click()
        for one in (chat, other):
            one.wait_until("cancelled")
            expect(one.stop_button).to_have_count(0)
    expect(chat.messages).to_have_count(4)


@pytest.mark.requirement("R1", "R3", "F3")
def test_a_killed_server_comes_back_and_the_page_goes_on(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    """P10: signals of waking at once, around a restart: each event is applied once."""
    chat = open_chat(server.url)
    chat.send("Hello")
    model.say(*words(10))
    chat.wait_for_words(10)
    server.kill9()
    chat.wait_for_reconnecting()
    wake(chat)
    server.start()
    wake(chat)
    model.say(*words(10, 10))
    chat.wait_for_words(20)
    wake(chat)
    model.finish(*words(10, 20))
    assert_whole(chat, server, "".join(words(30)))
    assert chat.states() == ["running", "finished"]
    assert model.requests == 2


def wake(chat: Chat) -> None:
    """All at once, as after a laptop's sleep."""
    chat.page.evaluate(
        """() => {
          document.dispatchEvent(new Event('resume'));
          document.dispatchEvent(new Event('visibilitychange'));
          window.dispatchEvent(new Event('online'));
          window.dispatchEvent(new Event('focus'));
          window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
        }"""
    )


@pytest.mark.requirement("F1", "F2")
def test_a_hidden_page_shows_the_whole_answer_when_it_is_seen_again(
    server: RunningServer, model: ScriptedModel, real: BrowserContext
) -> None:
    """P24: hidden at the tenth word, finished on the server, shown again."""
    chat = Chat(real.new_page())
    chat.open(server.url)
    chat.send("Hello")
    model.say(*words(10))
    chat.wait_for_words(10)
    front = real.new_page()
    front.bring_to_front()
    chat.page.wait_for_function("() => document.hidden")
    model.finish(*words(90, 10))
    log = Log(server, chat.thread)
    assert log.wait_for_end() == "finished"
    log.close()
    chat.page.bring_to_front()
    assert_whole(chat, server, "".join(words(100)))


@pytest.mark.requirement("E7")
def test_the_page_works_under_a_prefix(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    server.restart(base_path="/deep/chat/")
    chat = open_chat(server.url)
    chat.send("Hello")
    model.say(*words(5))
    chat.wait_for_words(5)
    assert server.url.endswith("/deep/chat")
    assert chat.address == f"{server.url}/t/{chat.thread}"
    chat.reload()
    model.finish(*words(5, 5))
    assert_whole(chat, server, "".join(words(10)))
    chat.get("new-thread").click()
    expect(chat.get("welcome")).to_be_visible()
    chat.page.go_back()
    expect(chat.messages).to_have_count(2)
