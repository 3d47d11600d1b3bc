"""Frames of JSON that make no sense: the provider's fault, never ours, and gone with the turn."""

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.models import Http, Limits
from tests.app.models.fake_provider import END, Exchange, FakeProvider, Step, part
from tests.app.models.wire import Call, Wire
from tests.app.models.wire_responses import ResponsesWire
from tests.app.models.wires import WIRES
from tests.app.world import world

pytestmark = pytest.mark.requirement("S3", "O1")

SEEDS = 100
JUNK: list[Any] = [
    None, 5, -1, 1e300, True, "", "x", "2", [], {}, [None], {"a": None}, [[[]]], 10**30,
    {"type": "text"}, [{"type": "text", "text": None}],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all members, at whatever depth."""
    pairs = value.items() if isinstance(value, dict) else ()
    for key, member in enumerate(value) if isinstance(value, list) else pairs:
        yield (*path, key)
        yield from places(member, (*path, key))


def mutated(events: list[Any], dice: random.Random) -> list[Any]:
    """The events with some repeated, lost or swapped, and members lost or replaced by junk."""
    events = copy.deepcopy(events)
    for _ in range(dice.randint(1, 4)):
        at, other, chance = dice.randrange(len(events)), dice.randrange(len(events)), dice.random()
        if chance < 0.15 and len(events) > 2:
            del events[at]
        elif chance < 0.3:
            events.insert(other, copy.deepcopy(events[at]))
        elif chance < 0.4:
            events[at], events[other] = events[other], events[at]
        elif found := list(places(events[at])):
            *way, last = dice.choice(found)
            target = events[at]
            for key in way:
                target = target[key]
            if dice.random() < 0.25:
                del target[last]
            else:
                target[last] = copy.deepcopy(dice.choice(JUNK))
    return events


def script(wire: Wire, dice: random.Random) -> list[Step]:
    """A whole answer with a call of a tool, mutated. Frames without JSON stay as they are."""
    frames = b"".join(wire.frames("Hel", "lo", Call("probe", ('{"a', '": 1}')))).split(b"\n\n")
    heads, events = [], []
    for frame in frames:
        head, _, data = frame.partition(b"data: ")
        line, _, tail = data.partition(b"\n")
        if line[:1] == b"{":
            heads.append((head, tail))
            events.append(json.loads(line))
    bodies = mutated(events, dice)
    named = [heads[min(n, len(heads) - 1)] for n in range(len(bodies))]
    return [
        wire.opening(),
        *(
            part(b"%bdata: %b\n%b\n\n" % (head, json.dumps(body).encode(), tail))
            for (head, tail), body in zip(named, bodies, strict=True)
        ),
        END,
    ]


@pytest.mark.parametrize(
    "wire", [wire for wire in WIRES if wire.name != "bedrock"], ids=lambda wire: wire.name
)
async def test_no_answer_is_so_malformed_that_it_is_a_fault_of_ours(
    wire: Wire, provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    first: list[list[Step]] = []  # the answer to the next request; then well-formed ones

    def answer(exchange: Exchange) -> list[Step]:
        return wire.aside(exchange) or (first.pop() if first else wire.answer("fine"))

    provider.aside = answer
    model = wire.model(http, provider.url)
    async with world(tmp_path / "u.db", model, limits=Limits(max_retries=0)) as life:
        for seed in range(SEEDS):
            first.append(script(wire, random.Random(seed)))
            thread = f"thread-{seed:04d}"
            ends = [(await life.answer(thread=thread)).outcome for _ in range(2)]
            assert "INTERNAL" not in [end.code for end in ends], (seed, ends)
            first.clear()


@pytest.mark.parametrize(
    ("member", "junk"), [(b"call_id", b'["c1"]'), (b"call_id", b'{"a": []}'), (b"type", b'["x"]')]
)
async def test_a_call_that_cannot_be_one_spoils_no_later_answer(
    member: bytes, junk: bytes, provider: FakeProvider, http: Http, tmp_path: Path
) -> None:
    """Of OpenAI's Responses: their items are kept, and go back with each later request."""
    wire = ResponsesWire()
    frames = wire.frames("Hello", Call("probe", ("{}",)))
    item = re.compile(rb'("item": \{[^{]*"%b": )"[^"]*"' % member)
    strange = [item.sub(rb"\g<1>%b" % junk, frame) for frame in frames]
    assert strange != frames
    first = [[wire.opening(), *map(part, strange), END]]
    provider.aside = lambda _: first.pop() if first else wire.answer("fine")
    model = wire.model(http, provider.url)
    async with world(tmp_path / "u.db", model, limits=Limits(max_retries=0)) as life:
        assert (await life.answer()).outcome.code in ("FINISHED", "MODEL_PROTOCOL")
        assert (await life.answer()).outcome.code == "FINISHED"
