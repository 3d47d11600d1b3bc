"""Search over the wire: what is found, and that no query, whatever it holds, is a fault of ours."""

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.app.world import ScriptedModel as Scripted
from tests.app.world import says
from tests.web.wire import wired


async def test_every_word_is_found_without_case_and_accents(tmp_path: Path) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("Crème brûlée, 100 %_of it"))) as wire:
        await wire.read(await wire.send())
        for query in ("creme BRULEE", "rûl", "100 %_", "it"):
            hits = (await wire.get(f"/api/search?q={quote(query)}")).json["hits"]
            assert [hit["role"] for hit in hits] == ["assistant"], query
            assert any(piece.get("hit") for piece in hits[0]["snippet"])
        for query in ("creme caramel", "100 %%", ""):
            assert (await wire.get(f"/api/search?q={quote(query)}")).json == {"hits": []}, query


@pytest.mark.parametrize(
    "query",
    [
        "%00",
        "abc%00def",
        "%FF%FE%C0",
        "%ED%A0%80abc",
        '"""abc',
        "abc%22%20OR%20%22",
        "a*b^c:d-e(f)",
        "NEAR(abc def)".replace(" ", "%20"),
        "%25" * 5_000,
        "%5C" * 5_000,
        "a+" * 7_000,
        "%EF%B7%BA" * 1_700,  # each becomes 18 letters
    ],
    ids=lambda query: query[:20],
)
async def test_any_query_is_answered(tmp_path: Path, query: str) -> None:
    async with wired(tmp_path / "u.db", Scripted(says("abc def"))) as wire:
        await wire.read(await wire.send())
        answer = await wire.get(f"/api/search?q={query}")
        assert answer.status == 200, answer.body
