"""Attached files over the wire."""

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import says
from tests.web.wire import Answer, Wire, wired

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
HTML = b"<script>alert(1)</script>"


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
