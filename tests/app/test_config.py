"""Settings: where they come from, durations, and what is said of a wrong one."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings, load, seconds, unknown_variables
from app.errors import InvalidError
from app.models.catalogue import discover
from app.models.config import Limits
from app.models.http import open_http


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def toml(text: str, name: str = "unbroken.toml") -> Path:
    path = Path(name)
    path.write_text(text, "utf-8")
    return path


def refused(
    env: dict[str, str] | None = None,
    given: dict[str, Any] | None = None,
    config: Path | None = None,
) -> str:
    """What the person is told."""
    with pytest.raises(InvalidError) as error:
        load(env or {}, given or {}, config).model_configs()
    assert error.value.code == "CONFIG_INVALID"
    assert "\n" not in error.value.text
    return error.value.text


# Where they come from


def test_without_anything_there_are_the_defaults() -> None:
    assert load({}, {}) == Settings()


def test_the_environment_wins_over_the_file_and_the_command_line_over_both() -> None:
    toml("port = 1\nhost = 'file'\nmax_steps = 7")
    env = {"UNBROKEN_PORT": "2", "UNBROKEN_HOST": "environment"}
    settings = load(env, {"port": 3, "host": None})
    assert (settings.port, settings.host, settings.max_steps) == (3, "environment", 7)


def test_the_file_may_be_named() -> None:
    toml("port = 1")
    other = toml("port = 2", "other.toml")
    third = toml("port = 3", "third.toml")
    assert load({}, {}).port == 1
    assert load({"UNBROKEN_CONFIG": str(other)}, {}).port == 2
    assert load({"UNBROKEN_CONFIG": str(other)}, {}, third).port == 3


def test_an_empty_variable_says_nothing() -> None:
    toml("port = 1")
    assert load({"UNBROKEN_PORT": "", "UNBROKEN_CONFIG": ""}, {}).port == 1


def test_a_named_file_must_be_there() -> None:
    assert refused(config=Path("none.toml")) == "none.toml does not exist"
    assert refused({"UNBROKEN_CONFIG": "none.toml"}) == "none.toml does not exist"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"port = 1\nhost = ", "Invalid value (at end of document); a text stands in quotes"),
        (b"port = 1\nhost = here", "(at line 2, column 8); a text stands in quotes"),
        (b"port = 1\nport = 2", "Cannot overwrite a value (at end of document)"),
        (b"\n[models\n", "(at line 2, column 8)"),
        (b"port = 1\nhost = '\xff'", "it is not UTF-8 (at line 2)"),
    ],
)
def test_a_file_that_cannot_be_read(content: bytes, reason: str) -> None:
    Path("unbroken.toml").write_bytes(content)
    told = refused()
    assert told.startswith("unbroken.toml cannot be read: ")
    assert told.endswith(reason)


def test_a_folder_is_no_file() -> None:
    Path("unbroken.toml").mkdir()
    assert refused() == "unbroken.toml cannot be read: Is a directory"


def test_the_mark_that_some_editors_begin_a_file_with_is_passed_over() -> None:
    Path("unbroken.toml").write_bytes(b"\xef\xbb\xbfport = 1")
    assert load({}, {}).port == 1


def test_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert load({}, {"data": "here"}).database == tmp_path / "here" / "unbroken.db"
    assert load({}, {"data": "~/there"}).folder == tmp_path / "home" / "there"
    assert load({}, {}).folder.is_absolute()


# Wrong ones


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "many"),
        ("port", "70000"),
        ("port", "-1"),
        ("max_retries", "-1"),
        ("max_streams", "0"),
        ("max_steps", "1.5"),
        ("log_level", "loud"),
        ("turn_timeout", "soon"),
        ("heartbeat", "0"),
        ("heartbeat", "off"),
        ("grace", "-1"),
    ],
)
def test_a_wrong_value_is_named_with_its_source(name: str, value: str) -> None:
    variable = f"UNBROKEN_{name.upper()}"
    told = refused({variable: value})
    assert told.startswith(f"{name}: ")
    assert told.endswith(f" (from {variable})")
    option = name.replace("_", "-")
    assert refused(given={name: value}).endswith(f" (from --{option})")
    path = toml(f"{name} = {value!r}", "other.toml")
    assert refused(config=path).endswith(" (from other.toml)")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("prot = 8137", "prot: there is no such setting; did you mean port?"),
        ("max_retry = 3", "max_retry: there is no such setting; did you mean max_retries?"),
        ("tools_timeout = 3", "tools_timeout: there is no such setting; did you mean tool_timeout"),
        ("colour = 'red'", "colour: there is no such setting (from unbroken.toml)"),
        ("[model.x]", "model: the table of a model is called [models.NAME]"),
    ],
)
def test_an_unknown_setting_is_named_with_the_nearest_one(content: str, told: str) -> None:
    toml(content)
    assert refused().startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("port = 70000", "port: 70000 is not a whole number from 0 to 65535"),
        ("port = true", "port: true is not a whole number from 0 to 65535"),
        ("port = [1]", "port: a list is not a whole number from 0 to 65535"),
        ("max_steps = 0", "max_steps: 0 is not a whole number of 1 or more"),
        ("host = 3", "host: 3 is not a text"),
        ("model = 3", "model: 3 is not a text"),
        ("log_level = 'x'", "log_level: 'x' is not one of debug, info, warning, error"),
        ("heartbeat = 'off'", "heartbeat: 'off' is not a duration above 0; write 5 or 5s"),
        ("models = 3", "models.NAME: 3 is not a table; write [models.NAME] above its fields"),
        ("models.x = 3", "models.x: 3 is not a table; write [models.x] above its fields"),
        (f"port = '{'9' * 999}'", f"port: '{'9' * 59}… is not a whole number"),
    ],
)
def test_what_would_be_right_is_said(content: str, told: str) -> None:
    toml(content)
    assert refused().startswith(told)


def test_a_variable_that_is_most_likely_a_slip_is_told() -> None:
    """Only told: others name variables so too, such as Kubernetes for a service of our name."""
    env = {
        "UNBROKEN_PROT": "1",
        "UNBROKEN_SERVICE_HOST": "10.0.0.1",
        "UNBROKEN_NOTHING": "",
        "UNBROKEN_EXECUTABLE": "/usr/bin/unbroken",
        "UNBROKEN_CONFIG": "",
        "UNBROKEN_TOKEN": "x",
        "UNBROKEN_BENCH_MODEL": "1",
        "UNBROKEN_MODELS": "x",
        "PROT": "1",
    }
    env |= {f"UNBROKEN_{name.upper()}": "x" for name in Settings.__struct_fields__[:-1]}
    assert Settings.__struct_fields__[-1] == "models"
    assert unknown_variables(env) == [
        "UNBROKEN_MODELS is no variable of Unbroken and is ignored; did you mean UNBROKEN_MODEL?",
        "UNBROKEN_PROT is no variable of Unbroken and is ignored; did you mean UNBROKEN_PORT?",
        "UNBROKEN_SERVICE_HOST is no variable of Unbroken and is ignored",
    ]


# Durations


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("10m", 600),
        ("2h", 7200),
        ("1 d", 86400),
        (" 2H ", 7200),
        ("0", 0),
        ("off", 0),
        ("None", 0),
        (90, 90),
        (0.5, 0.5),
        (0, 0),
    ],
)
def test_a_duration(text: Any, value: float) -> None:
    assert seconds("x", text) == value


@pytest.mark.parametrize(
    "value",
    [
        *("", "soon", "-1", "1y", "1h30m", "1e3", "\u0661s", "inf", "nan", "1.s", ".5s"),
        *("9" * 400, "99999999d", -1, -0.5, True, False, [], {}),
        *(float("inf"), float("nan"), 1e300),
    ],
)
def test_what_is_no_duration(value: Any) -> None:
    with pytest.raises(InvalidError, match=r"x: .* is not a duration; write 90, 90s") as error:
        seconds("x", value)
    assert error.value.code == "CONFIG_INVALID"


@given(st.floats(0, 1e5), st.sampled_from(["s", "m", "h"]))
def test_durations_as_written_are_durations_as_meant(number: float, unit: str) -> None:
    factor = {"s": 1, "m": 60, "h": 3600}[unit]
    assert seconds("x", f"{number:.3f}{unit}") == pytest.approx(round(number, 3) * factor)


@pytest.mark.requirement("T3")
@pytest.mark.parametrize(
    "name", ["turn_timeout", "header_timeout", "chunk_timeout", "tool_timeout", "retention"]
)
@pytest.mark.parametrize("off", ["0", "off", "OFF", 0])
def test_a_deadline_can_be_off(name: str, off: Any) -> None:
    assert getattr(Settings(), name) > 0
    assert getattr(load({}, {name: off}), name) is None
    assert getattr(load({}, {name: "2m"}), name) == 120


def test_a_heartbeat_is_a_duration_too() -> None:
    assert load({"UNBROKEN_HEARTBEAT": "500ms"}, {}).heartbeat == 0.5


# Models


@pytest.mark.requirement("S1")
def test_a_model_has_its_own_limits_or_the_common_ones() -> None:
    toml(
        """
        chunk_timeout = "1m"
        alive_timeout = "off"
        max_retries = 1
        [models.own]
        model = "x"
        header_timeout = "2m"
        alive_timeout = 30
        max_retries = 9
        [models.common]
        model = "y"
        [models.off]
        header_timeout = "off"
        chunk_timeout = 0
        """
    )
    own, common, off = load({}, {}).model_configs()
    assert (own.name, own.model) == ("own", "x")
    assert own.limits == Limits(header=120, chunk=60, alive=30, max_retries=9)
    assert common.limits == Limits(header=300, chunk=60, alive=None, max_retries=1)
    assert off.limits == Limits(header=None, chunk=None, alive=None, max_retries=1)


@pytest.mark.requirement("S1")
async def test_a_model_that_was_found_has_the_common_limits() -> None:
    """Also with no model configured a setting of the environment is heard."""
    env = {"UNBROKEN_CHUNK_TIMEOUT": "1m", "UNBROKEN_ALIVE_TIMEOUT": "off"}
    env |= {"UNBROKEN_MODEL": "openai", "OPENAI_API_KEY": "key"}
    settings = load(env, {})
    async with open_http() as http:
        catalogue = await discover(settings.model_configs(), env, http, settings.limits)
    for info in catalogue.list():
        assert catalogue.limits(info.name) == Limits(header=300, chunk=60, alive=None)


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("modle = 'x'", ".modle: a model has no such field; did you mean model?"),
        ("api_key = 'x'", ".api_key: a model has no such field; did you mean api_key_"),
        ("temperature = 1", ".temperature: a model has no such field; what is meant for"),
        ("model = 3", ".model: 3 is not a text"),
        ("kind = 'telepathy'", ".kind: 'telepathy' is not one of chat_completions, responses, an"),
        ("chunk_timeout = 'soon'", ".chunk_timeout: 'soon' is not a duration; write 90"),
        ("options = 'x'", ".options: 'x' is not a table"),
        ("background = 'x'", ".background: 'x' is not true or false"),
        ("max_retries = -1", ".max_retries: -1 is not a whole number of 0 or more"),
        ("kind = 'anthropic'", ": the kind anthropic needs `model`"),
        ("base_url = 'x'", ": base_url has to be http(s)://"),
        ("api_key_env = 'sk-secret'", ": api_key_env is the name of a variable, not the key"),
    ],
)
def test_a_wrong_model_is_named_with_what_would_be_right(field: str, told: str) -> None:
    toml(f"[models.mine]\n{field}")
    text = refused()
    assert text.startswith(f"models.mine{told}")
    assert text.endswith(" (from unbroken.toml)")
    assert "secret" not in text


def test_no_address_is_not_all_addresses() -> None:
    with pytest.raises(InvalidError, match=r"host: empty is no address; 0\.0\.0\.0 .*--host"):
        load({}, {"host": ""})
