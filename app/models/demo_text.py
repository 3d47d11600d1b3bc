"""What the built-in demonstration model says."""

COMMANDS = """\
| Start your message with | and this model will |
|---|---|
| `long` or `long 10 minutes` | talk for two minutes, or as long as you say |
| `tool` or `tool 30` | call a tool that waits, in seconds |
| `think` | show its thinking before it answers |
| `fail` | break off with an error that is not retried |
| `flaky` or `flaky 3` | break off once (three times), then work |
| `stall` | fall silent in the middle and stay so |
| `echo …` | repeat what follows, exactly |
"""

INTRODUCTION = f"""\
# This is a demonstration

No language model is connected, so what you read here is **canned text**, streamed by a small \
built-in program that needs no network. It exists so that everything around a model can be tried \
by hand: streaming, reloading, stopping, losing the network, restarting the server.

## Try to break it

1. Reload this page while the text is still being written.
2. Open the same thread in a second tab, or on another device.
3. Turn the network off and on again.
4. Kill the server and start it again.

Each time the answer goes on: no word is missing in it and none is there twice. (A server that was \
killed asks a real model again for the step it was in; what was complete stays.)

## Ask for something special

{COMMANDS}
## Why it works

A turn is a log, and everything you see is a reader of it:

```python
async def follow(log, cursor):
    while True:
        for event in log.after(cursor):
            yield event
            cursor = event.id
        await log.bell.wait()  # level-triggered: nothing is missed in between
```

> Nothing is shown that is not in the log; nothing that is in the log is lost.

To talk to a real model, start [Ollama](https://ollama.com) or a llama.cpp server on this machine, \
or set `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, and start Unbroken again. 🎈
"""

ANSWER = f"""\
This is still the **demonstration model**: it cannot understand what you wrote, it only recognises \
these words.

{COMMANDS}
Some things to look at while it streams:

- a list with *emphasis*, `code` and a [link](https://example.org),
- a formula, $e^{{i\\pi}} + 1 = 0$,
- text that is not Latin: naïve café, 日本語, Ελληνικά, 👩‍🚀.

```js
const once = new Set();
const apply = (event) => once.has(event.id) || (once.add(event.id), render(event));
```
"""

THINKING = """\
The person asked to see thinking. There is nothing to think about in a demonstration, so this is \
canned as well. First I would read the question. Then I would weigh two or three ways to answer \
it, drop the ones that do not hold, and write down the one that is left.
"""

THOUGHT = """\
What you saw above is the model's *reasoning*; it is streamed and kept apart from the answer, \
which is this sentence. (Both are canned: this is the demonstration model.)
"""

LONG_OPENING = """\
# A long turn

This goes on for about {duration}. Close the page, come back, stop it, restart the server: the \
demonstration model does not mind.
"""

LONG_PARAGRAPHS = (
    """\

## Part {n}

The demonstration model is still here, {elapsed} into this turn. It counts: this is part {n}.
""",
    """\

| part | elapsed | still going |
|---|---|---|
| {n} | {elapsed} | yes |
""",
    """\

- Part {n} is a short list.
- It began {elapsed} after the first word.
- Nothing of it is repeated when you reload.
""",
    """\

```text
part {n}: {elapsed}
```
""",
)

LONG_END = """\

That was {duration}. The demonstration is over.
"""

TOOL_CALLING = "I call the tool `wait` and tell you when it is done.\n"

TOOL_MISSING = """\
You asked for a tool, but the tool `wait` is not available in this thread, so this demonstration \
cannot show it.
"""

TOOL_DONE = """\
This came back:

{results}

That is all the demonstration model wanted to know.
"""

FAIL_OPENING = "This answer is going to fail in a moment; what is written so far is kept. "
FAIL_ERROR = "This is the failure you asked for; the demonstration model works."

FLAKY_OPENING = "This attempt is going to fail; its text will be withdrawn. "
FLAKY_ERROR = "This is the temporary failure you asked for (attempt {n} of {of})."
FLAKY_SUCCESS = """\
This attempt worked, after {failures} that failed. What the failed ones had written is gone from \
the answer, in every tab.
"""

STALL_OPENING = "After this sentence the demonstration model falls silent and stays so. "
