"""The documentation says what is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from app import config
from app.banner import banner
from app.models.catalogue import ANTHROPIC_MODEL, OPENAI_MODEL, ModelConfig, ModelInfo

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "web" / "PROTOCOL.md")
]


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table after a line that starts with `heading`, its head left out."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = text[text.index(f"{heading}\n") :].splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[first + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def documented_defaults(heading: str) -> dict[str, object]:
    """What the table says, as TOML reads it; an empty cell: no default."""
    rows = table("docs/configuration.md", heading)
    cells = {name.strip("`"): default.strip("`") for name, default, _ in rows}
    return {
        name: tomllib.loads(f"value = {default}")["value"] if default else None
        for name, default in cells.items()
    }


def test_every_setting_is_documented_with_its_default() -> None:
    documented = documented_defaults("# Configuration")
    assert list(documented) == [
        name for name in config.Settings.__struct_fields__ if name != "models"
    ]
    assert config.load({}, documented) == config.Settings()


def test_every_field_of_a_model_is_documented_with_its_default() -> None:
    documented = documented_defaults("## Models")
    defaults = msgspec.to_builtins(ModelConfig(name="x"))
    del defaults["name"]
    assert documented == defaults


def test_the_readme_shows_what_a_first_start_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    database = tmp_path / ".local" / "share" / "unbroken" / "unbroken.db"
    demo = [ModelInfo("demo", "demo", "demo", True)]
    lines = banner("http://127.0.0.1:8137", database, "demo", demo)
    assert "```\n{}\n```".format("\n".join(lines)) in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md"])
def test_the_models_that_keys_alone_lead_to_are_named(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for name in ("OPENAI_API_KEY", OPENAI_MODEL, "ANTHROPIC_API_KEY", ANTHROPIC_MODEL):
        assert f"`{name}`" in text


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []
