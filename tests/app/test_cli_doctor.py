"""`unbroken doctor` from the outside."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main

pytestmark = pytest.mark.requirement("E3")


def doctor(folder: Path, config: str) -> tuple[int, str]:
    (folder / "unbroken.toml").write_text(config)
    result = CliRunner().invoke(main, ["doctor", "--config", str(folder / "unbroken.toml")])
    return result.exit_code, result.output


def test_the_demonstration_is_well(tmp_path: Path) -> None:
    code, output = doctor(tmp_path, '[models.demo]\nkind = "demo"\n')
    assert code == 0
    assert output.startswith("ok  demo")


def test_what_nobody_answers_at_is_bad(tmp_path: Path) -> None:
    config = '[models.gone]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "x"\n'
    code, output = doctor(tmp_path, config)
    assert code == 1
    assert output.startswith("BAD gone")


def test_a_wrong_configuration_is_one_line(tmp_path: Path) -> None:
    code, output = doctor(tmp_path, '[models.x]\nkind = "nothing"\n')
    assert code == 1
    assert output.startswith("Error: ")
    assert "models.x" in output
