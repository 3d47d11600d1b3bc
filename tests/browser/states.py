"""Every state of the page, and how a person gets there: for audits, and for pictures."""

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.prompts import Prompts

# Some of everything that Markdown has.
RICH = r"""# Title

Some **bold**, *italic*, ~~struck~~ and `code`, a [link](https://example.org/a?b=c "title").
Formulas: $e^{i\pi} + 1 = 0$ and \(x_1\), but not $5 and $6.

$$
\int_0^1 x^2\,dx
$$

```python
def f(x: int) -> str:
    return f"value {x}"  # why
```

| a | b |
|---|--:|
| 1 | $y^2$ |

- [x] done
- [ ] open

![a picture](https://images.example.org/p.png)

שלום עולם

- עברית

```unknown
kept as it is
```
"""

HEBREW = """# כותרת

פסקה ראשונה עם **הדגשה** ועם `code`.

1. פריט ראשון
2. פריט שני

| שם | ערך |
|---|---|
| אחד | 1 |

> ציטוט

And a paragraph in English.
"""


def empty(chat: Chat, prompts: Prompts) -> None:
    expect(chat.get("welcome")).to_be_visible()


def finished(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.says("all kinds of text", RICH))
    chat.wait_until("finished")
    expect(chat.answer.locator(".katex").first).to_be_visible()
    expect(chat.answer.locator("[data-coloured=true]").first).to_be_visible()


def streaming(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.says("slow", "word after word " * 500, size=16, rate=10))
    expect(chat.answer).to_contain_text("word after word")
    chat.send("and this waits")
    expect(chat.get("remove-queued")).to_be_visible()
    chat.get("input").fill("a draft")


def failed(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.fails("refused", 500))
    chat.wait_until("failed")


def stopped(chat: Chat, prompts: Prompts) -> None:
    streaming(chat, prompts)
    chat.get("remove-queued").click()
    chat.stop_button.click()
    expect(chat.page.locator("[data-role=assistant][data-state=cancelled]").first).to_be_visible()


def branches(chat: Chat, prompts: Prompts) -> None:
    chat.send("one")
    chat.wait_until("finished")
    chat.get("regenerate").click()
    expect(chat.get("versions")).to_be_visible()
    chat.wait_until("finished")
    chat.get("edit").click()


def demo(chat: Chat) -> None:
    """The demonstration answers, instead of the prompts."""
    chat.get("settings").click()
    chat.page.locator("[data-testid=model-choice][value=demo]").check()
    chat.get("dialog-close").click()


def tool(chat: Chat, prompts: Prompts) -> None:
    demo(chat)
    chat.send("tool 0")
    chat.wait_until("finished")
    chat.get("tool").locator("summary").click()
    expect(chat.get("tool-value")).to_have_count(2)
    chat.send("think")
    expect(chat.messages).to_have_count(4)
    chat.wait_until("finished")
    chat.get("reasoning").locator("summary").click()


def files(chat: Chat, prompts: Prompts) -> None:
    notes = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"milk"}
    bad = {"name": "program", "mimeType": "application/octet-stream", "buffer": b"\0"}
    chat.get("file-input").set_input_files([notes])
    expect(chat.page.locator("[data-testid=draft-file][data-state=ready]")).to_be_visible()
    chat.send("with a file")
    chat.wait_until("finished")
    chat.get("file-input").set_input_files([notes, bad])
    expect(chat.page.locator("[data-testid=draft-file][data-state=refused]")).to_be_visible()


def show_list(chat: Chat) -> None:
    """Narrow windows hide it."""
    if chat.get("menu").is_visible():
        chat.get("menu").click()


def search(chat: Chat, prompts: Prompts) -> None:
    chat.send("find a giraffe")
    chat.wait_until("finished")
    show_list(chat)
    chat.get("search").fill("giraffe")
    expect(chat.get("hit").first).to_be_visible()


def menu(chat: Chat, prompts: Prompts) -> None:
    chat.send("a thread with a menu")
    chat.wait_until("finished")
    show_list(chat)
    chat.get("thread").first.hover()
    chat.get("thread-menu").first.click()
    expect(chat.get("menu-list")).to_be_visible()


def deleting(chat: Chat, prompts: Prompts) -> None:
    menu(chat, prompts)
    chat.get("delete").click()
    expect(chat.get("dialog-remove")).to_be_visible()


def settings(chat: Chat, prompts: Prompts) -> None:
    chat.get("settings").click()
    expect(chat.get("model-problem")).to_be_visible()


def gone(chat: Chat, prompts: Prompts) -> None:
    chat.send("a thread that is deleted elsewhere")
    chat.wait_until("finished")
    chat.get("input").fill("a draft")
    chat.page.evaluate("id => fetch(`api/threads/${id}`, { method: 'DELETE' })", chat.thread)
    expect(chat.get("gone-new")).to_be_visible()


def shortcuts(chat: Chat, prompts: Prompts) -> None:
    chat.get("shortcuts").click()
    expect(chat.get("dialog-shortcuts")).to_be_visible()


def retrying(chat: Chat, prompts: Prompts) -> None:
    demo(chat)
    chat.send("flaky 5")
    expect(chat.page.locator("[data-testid=status][data-state=retrying]")).to_contain_text(
        re.compile(r"Retrying in [3-9] s"), timeout=60_000
    )


def running_tool(chat: Chat, prompts: Prompts) -> None:
    demo(chat)
    chat.send("tool 60")
    expect(chat.page.locator("[data-testid=tool][data-state=running]")).to_be_visible()
    chat.get("tool").locator("summary").click()


def right_to_left(chat: Chat, prompts: Prompts) -> None:
    chat.send(prompts.says("ספר לי משהו", HEBREW))
    chat.wait_until("finished")


def editing(chat: Chat, prompts: Prompts) -> None:
    chat.send("a message that is written anew")
    chat.wait_until("finished")
    chat.get("edit").click()
    expect(chat.get("edit-form")).to_be_visible()


State = Callable[[Chat, Prompts], None]
STATES: list[State] = [
    empty, finished, streaming, running_tool, retrying, failed, stopped, branches, editing, tool,
    files, search, menu, deleting, gone, settings, shortcuts, right_to_left,
]  # fmt: skip
