"""A conversation taken along: the file's name, and what a person reads in it."""

from email.message import Message
from pathlib import Path

import pytest
from trio.testing import MockClock

from app.models.interface import Completion, ModelRequest, Sink
from app.tools import Toolbox
from app.tools.registry import ToolError
from tests.app.world import Paused, Probe, calls, fails, hangs, says
from tests.app.world import ScriptedModel as Scripted
from tests.web.wire import THREAD, Answer, Wire, wired

pytestmark = pytest.mark.requirement("F8")


async def export(wire: Wire, kind: str = "markdown") -> Answer:
    answer = await wire.get(f"/api/threads/{THREAD}/export?format={kind}")
    assert answer.status == 200, answer
    return answer


async def exported(wire: Wire) -> str:
    answer = await export(wire)
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    return answer.body.decode()


def names(answer: Answer) -> tuple[str, str]:
    """What an old program reads, and what all others do (RFC 6266)."""
    header = answer.headers["content-disposition"]
    assert header.isascii()
    plain, _, exact = header.partition("; filename*=")
    old, new = Message(), Message()
    old["Content-Disposition"] = plain
    new["Content-Disposition"] = f"attachment; filename*={exact}"
    assert old.get_content_disposition() == "attachment"
    found = old.get_filename(), new.get_filename()
    assert all(found), header
    return str(found[0]), str(found[1])


@pytest.mark.parametrize(
    ("title", "plain", "exact"),
    [
        ("What is a log?", "What is a log", "What is a log"),
        ("Ärger im Café", "Arger im Cafe", "Ärger im Café"),
        ("日本語", "conversation", "日本語"),
        ("日本語 2", "2", "日本語 2"),
        ("a：b／c＂d", "a b c d", "a：b／c＂d"),
        ('50% "off"; it\'s (ok)', "50 off ; it's (ok)", "50% off ; it's (ok)"),
        ("🎈", "conversation", "🎈"),
    ],
)
async def test_the_file_is_named_by_the_title(
    tmp_path: Path, title: str, plain: str, exact: str
) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("Yes."))) as wire:
        await wire.read(await wire.send("Hello"))
        await wire.ask("PATCH", f"/api/threads/{THREAD}", {"title": title})
        assert names(await export(wire)) == (f"{plain}.md", f"{exact}.md")
        assert names(await export(wire, "json")) == (f"{plain}.json", f"{exact}.json")


async def test_a_complete_answer_is_what_was_said(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("It is *so*."))) as wire:
        await wire.read(await wire.send("Is it?"))
        text = await exported(wire)
    assert text == "# Is it?\n\n## You\n\nIs it?\n\n## m\n\nIt is *so*.\n".replace(
        "## m\n", f"## {Scripted().name}\n"
    )


@pytest.mark.parametrize(
    ("script", "note"),
    [
        (
            fails("So f", code="MODEL_REQUEST_REFUSED", text="No.\n\nNot *that*.", retryable=False),
            "> The answer failed (MODEL_REQUEST_REFUSED): No.\n>\n> Not *that*.",
        ),
        (
            fails("So f", code="MODEL_UNAUTHORIZED", text="The key is wrong.", retryable=False),
            "> The answer failed (MODEL_UNAUTHORIZED): The key is wrong.",
        ),
    ],
)
async def test_why_an_answer_failed_is_said(tmp_path: Path, script: object, note: str) -> None:
    async with wired(tmp_path / "u.db", Scripted(script)) as wire:
        await wire.read(await wire.send())
        assert (await exported(wire)).endswith(f"\n\nSo f\n\n{note}\n")


async def test_an_answer_cut_at_the_limit_says_so(tmp_path: Path) -> None:
    async def cut(_request: ModelRequest, sink: Sink) -> Completion:
        sink.text("Once upon a")
        await sink.room()
        return Completion("length")

    async with wired(tmp_path / "u.db", Scripted(cut)) as wire:
        await wire.read(await wire.send())
        text = await exported(wire)
    assert text.endswith("\n\nOnce upon a\n\n> The answer was cut at the model's limit.\n")


async def test_what_was_stopped_what_runs_and_what_waits_are_told_apart(tmp_path: Path) -> None:
    running = Paused("So far")
    async with wired(tmp_path / "u.db", Scripted(running, hangs)) as wire:
        stream = await wire.send("one")
        await running.reached.wait()
        await wire.send("two")
        text = await exported(wire)
        assert text.endswith("\n\n> Not answered yet.\n")
        await wire.ask("DELETE", f"/api/streams/{stream}")
        await wire.read(stream)
        text = await exported(wire)
    assert "\n\nSo far\n\n> Stopped.\n\n## You\n\ntwo\n" in text
    assert text.endswith("\n\n> Still being written.\n")


async def test_what_a_deadline_ended_names_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with wired(tmp_path / "u.db", Scripted(hangs), turn_timeout=180.0) as wire:
        await wire.read(await wire.send())
        assert "\n\n> Stopped: the answer took longer than " in await exported(wire)


async def test_tools_are_named_with_what_became_of_them(tmp_path: Path) -> None:
    async def broken(_arguments: object) -> object:
        raise ToolError("out of order")

    tools = Toolbox([Probe("good"), Probe("bad", broken)])
    model = Scripted(calls("good", text="Let me see."), calls("bad"), says("Well."))
    async with wired(tmp_path / "u.db", model, tools=tools) as wire:
        await wire.read(await wire.send())
        text = await exported(wire)
    assert "\n\nLet me see.\n\n> Tool good: done\n\n> Tool bad: failed: out of order\n" in text
    assert text.endswith("\n\nWell.\n")
