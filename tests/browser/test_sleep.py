"""Pages that sleep: frozen by the browser, kept in its back/forward cache, signed out meanwhile."""

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.chat import Log, words
from tests.browser.conftest import OpenChat
from tests.browser.model import ScriptedModel
from tests.browser.proxy import Proxy
from tests.crash.server import RunningServer, running_server

pytestmark = pytest.mark.browser


@pytest.mark.requirement("F1", "F3", "M3")
def test_a_frozen_page_goes_on_where_it_was(
    real: BrowserContext, server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    """P23: after freezing, a body that is being read says nothing any more, for ever."""
    chat = open_chat(server.url, real)
    model.say(*words(20))
    chat.send("Hello")
    chat.wait_for_words(20)
    other = real.new_page()
    other.bring_to_front()
    session = real.new_cdp_session(chat.page)
    session.send("Page.setWebLifecycleState", {"state": "frozen"})
    model.finish(*words(20, first=20))
    log = Log(server, chat.address.rpartition("/")[2])
    assert log.wait_for_end() == "finished"
    session.send("Page.setWebLifecycleState", {"state": "active"})
    chat.page.bring_to_front()
    chat.wait_until("finished")
    assert chat.source() == log.text() == "".join(words(40))
    log.close()


@pytest.mark.requirement("F1", "F3", "M3")
def test_a_page_that_comes_back_goes_on_where_it_was(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    """P24: by the back button, whether the browser kept the page or not."""
    chat = open_chat(server.url)
    model.say(*words(20))
    chat.send("Hello")
    chat.wait_for_words(20)
    address = chat.address
    chat.page.goto(f"{server.url}/healthz")
    model.finish(*words(20, first=20))
    log = Log(server, address.rpartition("/")[2])
    assert log.wait_for_end() == "finished"
    chat.page.evaluate("history.back()")
    chat.wait_until("finished")
    assert chat.source() == log.text() == "".join(words(40))
    log.close()


@pytest.mark.requirement("F1", "F3", "M3")
def test_a_page_is_kept_for_the_back_button_while_it_streams(
    server: RunningServer, model: ScriptedModel, open_chat: OpenChat
) -> None:
    """Its connections do not keep the browser from it, and none of them is taken for alive."""
    chat = open_chat(server.url)
    model.say(*words(20))
    chat.send("Hello")
    chat.wait_for_words(20)
    chat.page.evaluate(
        "addEventListener('pageshow', (event) => { window.kept = event.persisted; })"
    )
    chat.page.goto(f"{server.url}/healthz")
    model.say(*words(20, first=20))
    chat.page.evaluate("history.back()")
    chat.page.wait_for_function("() => window.kept === true")
    chat.wait_for_words(40)
    assert chat.state() == "running"
    model.finish(*words(20, first=40))
    chat.wait_until("finished")
    assert chat.source() == "".join(words(60))
    assert chat.states() == ["running", "finished"]


# As browsers do to pages that are long in the back: no timer runs there, and those that are due run
# once the page is seen.
THROTTLED = """
const timeout = window.setTimeout;
const clear = window.clearTimeout;
const due = new Map();
window.setTimeout = (run, ms, ...rest) => {
  const id = timeout(() => {
    if (window.throttled) due.set(id, () => run(...rest));
    else run(...rest);
  }, ms);
  return id;
};
window.clearTimeout = (id) => {
  due.delete(id);
  clear(id);
};
document.addEventListener('visibilitychange', () => {
  if (document.hidden) return;
  window.throttled = false;
  for (const [id, run] of due) {
    timeout(() => {
      if (due.delete(id)) run();
    });
  }
});
"""


@pytest.mark.requirement("F1", "F2")
def test_a_page_whose_timers_are_throttled_goes_on_when_it_is_seen(
    real: BrowserContext,
    server: RunningServer,
    model: ScriptedModel,
    proxy: Proxy,
    open_chat: OpenChat,
) -> None:
    """The connection is lost in the back, and no timer notices: being seen does."""
    real.add_init_script(THROTTLED)
    chat = open_chat(proxy.url, real)
    model.say(*words(20))
    chat.send("Hello")
    chat.wait_for_words(20)
    chat.page.evaluate("window.throttled = true")
    real.new_page().bring_to_front()
    chat.page.wait_for_function("() => document.hidden", polling=100)
    proxy.cut_all()
    model.say(*words(20, first=20))
    chat.page.bring_to_front()
    chat.wait_for_words(40)
    model.finish()
    chat.wait_until("finished")
    assert chat.source() == "".join(words(40))


@pytest.mark.requirement("F5")
def test_who_is_signed_out_signs_in_and_goes_on(
    tmp_path: Path, model: ScriptedModel, scripted: tuple[ScriptedModel, str], open_chat: OpenChat
) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-at-least-twenty-characters")
    token.chmod(0o600)
    config = tmp_path / "unbroken.toml"
    config.write_text(f'[models.scripted]\nbase_url = "{scripted[1]}"\nmodel = "scripted"\n')
    with running_server(
        tmp_path, model="scripted", config=str(config), token_file=str(token)
    ) as server:
        chat = open_chat(server.url)
        model.say(*words(20))
        chat.send("Hello")
        chat.wait_for_words(20)
        chat.page.context.clear_cookies()
        chat.page.reload()
        expect(chat.get("sign-in")).to_be_visible()
        model.finish(*words(20, first=20))
        chat.get("token").fill(server.url)
        chat.get("sign-in-submit").click()
        chat.wait_until("finished")
        assert chat.source() == "".join(words(40))
