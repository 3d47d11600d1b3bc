"""Attached files over the wire."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from app.clock import WallClock
from app.housekeeping import UNUSED_MS, Housekeeping
from tests.app.world import ScriptedModel as Scripted
from tests.app.world import says
from tests.web.wire import Answer, Wire, wired

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
HTML = b"<script>alert(1)</script>"


FILE = "file-0001"
DATA = b"what is in the file"


async def put(wire: Wire, id_: str, data: bytes, name: str = "a.txt") -> Answer:
    return await wire.ask("PUT", f"/api/attachments/{id_}?name={quote(name)}", data)


async def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        for id_, data, kind in (
            ("file-0001", PNG, "image/png"),
            ("file-0002", "Grüße\r\n".encode(), "text/plain"),
            ("file-0003", HTML, "text/plain"),
        ):
            made = await put(wire, id_, data, "Übung/../a b.txt")
            assert made.status == 201
            view = {"id": id_, "name": "a b.txt", "mediaType": kind, "size": len(data)}
            assert made.json == view
            found = await wire.get(f"/api/attachments/{id_}")
            assert (found.status, found.body) == (200, data)
            assert found.headers["content-type"].startswith(kind)
            assert "immutable" in found.headers["cache-control"]
            part = {"type": "file", "attachment": id_}
            text = {"type": "text", "text": "look"}
            body = {"id": f"message-{id_}", "parts": [text, part]}
            sent = await wire.ask("POST", "/api/threads/thread-01/messages", body)
            assert sent.status == 202
            shown = (await wire.snapshot())["messages"][-2]["parts"][1]
            assert shown == {**part, **{k: v for k, v in view.items() if k != "id"}}


@pytest.mark.requirement("A4")
async def test_no_file_is_ever_a_page_of_ours(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        await put(wire, "file-0001", HTML, "a.html")
        answer = await wire.get("/api/attachments/file-0001")
        assert answer.headers["content-disposition"] == "attachment"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"
        await put(wire, "file-0002", PNG)
        inline = await wire.get("/api/attachments/file-0002")
        assert inline.headers["content-disposition"] == "inline"


async def test_the_same_id_again_changes_nothing_and_says_what_is_there(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        first = await put(wire, "file-0001", b"first")
        for data in (b"first", b"another one"):
            again = await put(wire, "file-0001", data)
            assert (again.status, again.json) == (201, first.json)
        assert (await wire.get("/api/attachments/file-0001")).body == b"first"


async def test_a_file_may_be_larger_than_a_message_but_not_than_its_limit(tmp_path: Path) -> None:
    limits = {"max_body": 10_000, "max_attachment": 3_000_000}
    async with wired(tmp_path / "u.db", Scripted(says("a")), **limits) as wire:
        assert (await put(wire, "file-0001", b"x" * 3_000_000)).status == 201
        refused = await put(wire, "file-0002", b"x" * 3_000_001)
        assert (refused.status, refused.code) == (413, "BODY_TOO_LARGE")
        assert "3000000" in refused.json["message"]
        assert (await wire.get("/api/attachments/file-0002")).status == 404


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"a\0b", b"\xff\xfe", b"RIFF1234WAVE\xff", b"%PDF\xff"]
)
async def test_only_images_and_texts_are_taken(tmp_path: Path, data: bytes) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        refused = await put(wire, "file-0001", data, "a.png")
        assert (refused.status, refused.code) == (400, "ATTACHMENT_INVALID")
        assert (await wire.get("/api/attachments/file-0001")).status == 404


async def test_a_message_cannot_name_a_file_that_is_not_there(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        parts = [{"type": "file", "attachment": "file-9999"}]
        body = {"id": "message-01", "parts": parts}
        refused = await wire.ask("POST", "/api/threads/thread-01/messages", body)
        assert (refused.status, refused.code) == (404, "ATTACHMENT_NOT_FOUND")
        assert (await wire.get("/api/threads/thread-01")).status == 404


@pytest.mark.parametrize("first", ["thread-01", "thread-02"])
async def test_a_file_of_two_threads_outlives_one_of_them(tmp_path: Path, first: str) -> None:
    """As two tabs send it, each opened on a new chat with the same draft."""
    other = {"thread-01": "thread-02", "thread-02": "thread-01"}[first]
    model = Scripted(says("a"))
    async with wired(tmp_path / "u.db", model) as wire:
        await put(wire, FILE, DATA)
        for thread in ("thread-01", "thread-02"):
            await send(wire, thread)
        assert (await wire.ask("DELETE", f"/api/threads/{first}")).status == 204
        assert (await wire.get(f"/api/attachments/{FILE}")).body == DATA
    async with wired(tmp_path / "u.db", model) as wire:  # also after a restart
        await prune(wire, 2 * UNUSED_MS)
        assert (await wire.get(f"/api/attachments/{FILE}")).body == DATA
        await wire.read(await wire.send("again", id_="again-0001", thread=other))
        assert seen_by(model) == [DATA]
        assert (await wire.ask("DELETE", f"/api/threads/{other}")).status == 204
        assert (await wire.get(f"/api/attachments/{FILE}")).code == "ATTACHMENT_NOT_FOUND"


async def test_a_file_named_again_in_its_thread_is_freed_with_it(tmp_path: Path) -> None:
    """Sent twice, edited, answered again: one thread uses it, and the deletion frees its bytes."""
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        await put(wire, FILE, DATA)
        await send(wire, "thread-01", "message-a")
        repeated = await wire.ask("POST", "/api/threads/thread-01/messages", message("message-a"))
        assert repeated.json["repeated"]
        await send(wire, "thread-01", "message-b", parent=None)
        path = "/api/threads/thread-01/messages/message-a/answers"
        again = await wire.ask("POST", path, {"id": "again-0001"})
        await wire.read(again.json["stream"])
        assert await links(wire) == [(FILE, "thread-01")]
        await wire.ask("DELETE", "/api/threads/thread-01")
        assert (await wire.get(f"/api/attachments/{FILE}")).status == 404
        assert await links(wire) == []
        # The id is free, too.
        assert (await put(wire, FILE, b"another one")).json["size"] == 11


async def test_a_refused_message_uses_no_file(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        await put(wire, FILE, DATA)
        refused = message("message-a", "file-9999")
        answer = await wire.ask("POST", "/api/threads/thread-01/messages", refused)
        assert answer.code == "ATTACHMENT_NOT_FOUND"
        conflict = message("message-b", parent="message-9999")
        answer = await wire.ask("POST", "/api/threads/thread-01/messages", conflict)
        assert answer.code == "MESSAGE_NOT_FOUND"
        assert await links(wire) == []
        await prune(wire, UNUSED_MS + 1)
        assert (await wire.get(f"/api/attachments/{FILE}")).status == 404


async def test_a_file_that_was_never_sent_is_deleted_after_a_day(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("a"))) as wire:
        await put(wire, FILE, DATA)
        await prune(wire, UNUSED_MS - 60_000)
        assert (await wire.get(f"/api/attachments/{FILE}")).status == 200
        await prune(wire, UNUSED_MS + 60_000)
        assert (await wire.get(f"/api/attachments/{FILE}")).status == 404


def message(id_: str, *more_files: str, **more: Any) -> dict[str, Any]:
    files = [{"type": "file", "attachment": file} for file in (FILE, *more_files)]
    return {"id": id_, "parts": [{"type": "text", "text": "look"}, *files], **more}


async def send(wire: Wire, thread: str, id_: str | None = None, **more: Any) -> None:
    """Send a message with the file, and wait for the answer."""
    body = message(id_ or f"message-of-{thread}", **more)
    answer = await wire.ask("POST", f"/api/threads/{thread}/messages", body)
    assert answer.status == 202, answer
    await wire.read(answer.json["stream"])


async def prune(wire: Wire, ms: int) -> None:
    """Housekeeping, so much later."""
    later = WallClock(lambda: wire.services.clock.now_ms() + ms)
    await Housekeeping(wire.services.database, later, None).prune()


async def links(wire: Wire) -> list[tuple[str, str]]:
    query = "SELECT attachment, thread FROM attachment_use"
    return await wire.services.database.read(
        lambda c: [(row[0], row[1]) for row in c.exec_driver_sql(query)]
    )


def seen_by(model: Scripted) -> list[bytes]:
    """The files of the newest request."""
    entries = model.requests[-1].entries
    parts = [part for entry in entries for part in getattr(entry, "parts", [])]
    return [part["data"] for part in parts if part["type"] == "file"]
