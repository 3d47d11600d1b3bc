"""What the model said is what is shown and stored, byte for byte, on every wire, however cut."""

import itertools
import random
from pathlib import Path

import pytest

from app import events as ev
from app.models import Http, Limits
from tests.app.models.fake_provider import END, FakeProvider, Step, part
from tests.app.models.wire import Wire
from tests.app.models.wires import WIRES
from tests.app.world import world

pytestmark = pytest.mark.requirement("M1", "M3")

each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)

ROW = ["|", "|", "|", "\n"]
TEXTS = {
    "a table of bare pipes": [*ROW, "|", "-", "|", "-", "|", "\n", *ROW * 9],
    "repeated lines": ["the same line\n"] * 20 + ["the same", " line\n", "the same line\n"],
    "every delta a prefix of what is there": ["a", "a", "ab", "a", "aba", "abaab", "a"],
    "empty deltas": ["", "one", "", "", " two", ""],
    "white space": [" ", " ", "\n", "\n\n", "\t", " x", " ", "\r\n", " "],
    "an emoji of many parts": ["👩", "\u200d", "👩", "\u200d", "👧", "e", "\u0301", "🇩", "🇪"],
    "a fence": ["`", "``", "py\n", "print('|')\n", "`", "`", "`", "\n"],
    "looks like the wire": ["data: x\n\n", "event: error\n", "[DONE]", ": ping\n\n", "\u2028\x85"],
    "quotes and controls": ['"', "\\", "\\n", "\x00", "\x1f", "</script>", "\x7f"],
}
MEGABYTES_10 = 10 * 1024 * 1024


def whole(frames: list[bytes]) -> list[Step]:
    return [part(frame) for frame in frames]


def bytewise(frames: list[bytes]) -> list[Step]:
    """Each byte in a chunk of its own: UTF-8 sequences, escapes and frames are all cut."""
    return [part(bytes([byte])) for frame in frames for byte in frame]


def at_once(frames: list[bytes]) -> list[Step]:
    return [part(b"".join(frames))]


async def check(
    wire: Wire, provider: FakeProvider, http: Http, path: Path, body: list[Step], text: str
) -> None:
    provider.aside = wire.aside
    provider.play(wire.opening(), *body, END)
    limits = Limits(max_retries=0)
    async with world(path / "u.db", wire.model(http, provider.url), limits=limits) as life:
        accepted = await life.send()
        seen = await life.read(accepted.turn.stream_id)
        view = await life.services.threads.snapshot("thread-01")
    assert seen.outcome.code == "FINISHED", seen.outcome.text
    deltas = [event.delta for event in seen.events if isinstance(event, ev.TextDelta)]
    assert "".join(deltas) == text
    assert seen.text == text
    stored = [part["text"] for part in view.messages[-1].parts if part["type"] == "text"]
    assert "".join(stored) == text


@each_wire
@pytest.mark.parametrize("cut", [whole, bytewise, at_once])
@pytest.mark.parametrize("name", TEXTS)
async def test_text_is_exact(
    wire: Wire, name: str, cut: object, provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    assert callable(cut)
    body = cut(wire.frames(*TEXTS[name]))
    await check(wire, provider, http, tmp_path, body, "".join(TEXTS[name]))


@each_wire
@pytest.mark.parametrize("cut", [whole, bytewise])
async def test_a_surrogate_pair_cut_between_two_deltas_is_one_character(
    wire: Wire, cut: object, provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    assert callable(cut)
    body = cut(wire.frames("| \ud83d", "\ude00 |", "\ud83d", "", "\ude01"))
    await check(wire, provider, http, tmp_path, body, "| 😀 |😁")


@each_wire
async def test_half_a_surrogate_pair_does_not_stop_the_answer(
    wire: Wire, provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    body = whole(wire.frames("a\ude00b", "c\ud83d"))
    await check(wire, provider, http, tmp_path, body, "a\ufffdbc\ufffd")


@each_wire
@pytest.mark.parametrize("seed", range(3))
async def test_random_text_in_random_cuts(
    wire: Wire, seed: int, provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    alphabet = ["|", "| ", "\n", "", "||", "a", "|--|", "  ", "é", "😀", "👩\u200d👧", "```", "aa"]
    pieces = rng.choices(alphabet, k=400)
    stream = b"".join(wire.frames(*pieces))
    cuts = sorted({0, len(stream), *rng.sample(range(len(stream)), 200)})
    body: list[Step] = [part(stream[a:b]) for a, b in itertools.pairwise(cuts)]
    await check(wire, provider, http, tmp_path, body, "".join(pieces))


@each_wire
@pytest.mark.requirement("S3")
async def test_a_single_event_of_ten_megabytes(
    wire: Wire, provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    text = "| cell " * (MEGABYTES_10 // 7)
    stream = b"".join(wire.frames("before\n", text, "\nafter"))
    size = 64 * 1024
    body: list[Step] = [part(stream[at : at + size]) for at in range(0, len(stream), size)]
    await check(wire, provider, http, tmp_path, body, f"before\n{text}\nafter")
