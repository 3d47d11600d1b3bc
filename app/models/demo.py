"""The built-in demonstration model: needs no network, says what it is, shows what can happen.

The first word of the person's message chooses the scene; `demo_text.COMMANDS` explains them. The
text of each scene is fixed; the pieces and the pauses vary a little, by the seed.
"""

import random
import re
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import trio

from app.durations import spoken
from app.events import Usage
from app.models import demo_text as say
from app.models.errors import ModelError
from app.models.interface import (
    AssistantStep,
    Completion,
    ModelRequest,
    Sink,
    ToolResults,
    UserEntry,
)

SECONDS = 1.0
# 30 to 60 pieces a second of 2 to 7 characters: about what a fast hosted model does.
PAUSE_SECONDS = (1 / 60, 1 / 30)
PIECE_CHARACTERS = (2, 7)
LONG_SECONDS = 120 * SECONDS
LONGEST_SECONDS = 3600 * SECONDS
WAIT_SECONDS = 5 * SECONDS
MOST_CALLS = 8
# How many different "flaky" requests are remembered; the oldest is forgotten first.
FLAKY_MEMORY = 256


class Demo:
    """Implements Model. `seed` makes pieces and pauses repeatable, also across processes."""

    provider = "demo"
    model = "demo"

    def __init__(self, *, name: str = "demo", seed: int = 0) -> None:
        self.name = name
        self._seed = seed
        # Failures shown so far by request; an entry goes when its request succeeds.
        self._failures: dict[bytes, int] = {}

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """Play the scene the last message asks for.

        Raises ModelError in the scenes `fail` and `flaky`. Waits for the clock only; the scene
        `stall` waits until it is cancelled.
        """
        voice = _Voice(sink, random.Random(self._seed))
        if isinstance(request.entries[-1], ToolResults):
            await voice.say(_tool_answer(request.entries[-1]))
            return voice.completion(request)
        text = _last_text(request)
        word, rest = _split_word(text)
        scenes: dict[str, Callable[[ModelRequest, _Voice, str], Awaitable[Completion | None]]] = {
            "long": _long,
            "tool": _tool,
            "think": _think,
            "fail": _fail,
            "flaky": self._flaky,
            "stall": _stall,
            "echo": _echo,
        }
        scene = scenes.get(word, _talk)
        return await scene(request, voice, rest) or voice.completion(request)

    async def _flaky(self, request: ModelRequest, voice: "_Voice", rest: str) -> None:
        total = int(_number(rest, default=1, most=100))
        key = msgspec.msgpack.encode(request.entries)
        failures = self._failures.pop(key, 0)
        if failures >= total:
            await voice.say(say.FLAKY_SUCCESS.format(failures=failures))
            return
        while len(self._failures) >= FLAKY_MEMORY:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = failures + 1
        await voice.say(say.FLAKY_OPENING)
        of = f"{total} that fails" if total == 1 else f"{total} that fail"
        text = say.FLAKY_ERROR.format(n=failures + 1, of=of)
        raise ModelError(text, code="MODEL_OVERLOADED", retryable=True)


class _Voice:
    """Says text piece by piece at a natural pace."""

    def __init__(self, sink: Sink, rng: random.Random) -> None:
        self.sink = sink
        self.pieces = 0
        self._rng = rng

    async def say(self, text: str) -> None:
        await self._speak(text, self.sink.text)

    async def think(self, text: str) -> None:
        await self._speak(text, self.sink.reasoning)
        self.sink.end_part()

    async def call(self, name: str, arguments: str) -> None:
        """A tool call whose input is written piece by piece."""
        call = self.sink.tool_start(name)
        await self._speak(arguments, lambda piece: self.sink.tool_delta(call, piece))
        self.sink.tool_ready(call, arguments)

    async def _speak(self, text: str, put: Callable[[str], None]) -> None:
        for piece in self._split(text):
            await trio.sleep(self._rng.uniform(*PAUSE_SECONDS))
            put(piece)
            self.pieces += 1
            await self.sink.room()

    def _split(self, text: str) -> Iterator[str]:
        start = 0
        while start < len(text):
            end = start + self._rng.randint(*PIECE_CHARACTERS)
            yield text[start:end]
            start = end

    def completion(self, request: ModelRequest) -> Completion:
        # A demonstration has no tokens; pieces and words are close enough to show how they look.
        words = sum(len(text.split()) for text in _texts(request))
        return Completion("stop", Usage(input_tokens=words, output_tokens=self.pieces))


# scenes: each gets the request, the voice and what follows the first word


async def _talk(request: ModelRequest, voice: _Voice, _rest: str) -> None:
    first = not any(isinstance(entry, AssistantStep) for entry in request.entries)
    await voice.say(say.INTRODUCTION if first else say.ANSWER)


async def _echo(_request: ModelRequest, voice: _Voice, rest: str) -> None:
    await voice.say(rest)


async def _think(_request: ModelRequest, voice: _Voice, _rest: str) -> None:
    await voice.think(say.THINKING)
    await voice.say(say.THOUGHT)


async def _long(_request: ModelRequest, voice: _Voice, rest: str) -> None:
    seconds = _number(rest, default=LONG_SECONDS, most=LONGEST_SECONDS, unit=_unit(rest))
    began = trio.current_time()
    await voice.say(say.LONG_OPENING.format(duration=spoken(seconds)))
    n = 0
    while (elapsed := trio.current_time() - began) < seconds:
        paragraph = say.LONG_PARAGRAPHS[n % len(say.LONG_PARAGRAPHS)]
        n += 1
        await voice.say(paragraph.format(n=n, elapsed=spoken(round(elapsed))))
    await voice.say(say.LONG_END.format(duration=spoken(seconds)))


async def _tool(request: ModelRequest, voice: _Voice, rest: str) -> Completion | None:
    if not any(tool.name == "wait" for tool in request.tools):
        await voice.say(say.TOOL_MISSING)
        return None
    numbers = re.findall(r"\d+(?:\.\d+)?", rest)[:MOST_CALLS]
    await voice.say(say.TOOL_CALLING)
    for number in numbers or [str(WAIT_SECONDS)]:
        seconds = min(float(number), LONGEST_SECONDS)
        await voice.call("wait", msgspec.json.encode({"seconds": seconds}).decode())
    return msgspec.structs.replace(voice.completion(request), finish_reason="tool-calls")


async def _fail(_request: ModelRequest, voice: _Voice, _rest: str) -> None:
    await voice.say(say.FAIL_OPENING)
    raise ModelError(say.FAIL_ERROR, code="MODEL_ERROR", retryable=False)


async def _stall(_request: ModelRequest, voice: _Voice, _rest: str) -> None:
    await voice.say(say.STALL_OPENING)
    await trio.sleep_forever()  # until a deadline of the attempt, or the person, cancels it


# words


def _texts(request: ModelRequest) -> Iterator[str]:
    for entry in request.entries:
        if isinstance(entry, UserEntry | AssistantStep):
            yield entry.text


def _last_text(request: ModelRequest) -> str:
    for entry in reversed(request.entries):
        if isinstance(entry, UserEntry):
            return entry.text
    return ""


def _split_word(text: str) -> tuple[str, str]:
    """The first word in small letters, and what follows it and one space, exactly."""
    match = re.match(r"\s*(\w*)[.,!?:]*\s?", text)
    assert match
    return match[1].lower(), text[match.end() :]


def _tool_answer(results: ToolResults) -> str:
    lines = []
    for n, result in enumerate(results.results, 1):
        verdict = "failed" if result.is_error else "answered"
        output = result.output
        shown = output if isinstance(output, str) else msgspec.json.encode(output).decode()
        lines.append(f"{n}. `{result.call.name}` {verdict}: {shown}")
    return say.TOOL_DONE.format(results="\n".join(lines))


def _number(text: str, *, default: float, most: float, unit: float = 1) -> float:
    found = re.search(r"\d+(?:\.\d+)?", text)
    return min(float(found[0]) * unit, most) if found else default


def _unit(text: str) -> float:
    if re.search(r"\d\s*(?:h|hour)", text):
        return 3600
    return 60 if re.search(r"\d\s*m(?:in|\b)", text) else 1
