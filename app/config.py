"""Settings: unbroken.toml, then UNBROKEN_* of the environment, then the command line.

Durations are seconds, or text like "90s", "10m", "2h"; 0 and "off" mean none where a field allows
it. This module is where a default is stated; docs/configuration.md is checked against it.
"""

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import platformdirs
from msgspec import Meta

from app.config_faults import DURATION, fault, meant, shown
from app.errors import InvalidError
from app.models.config import Limits, ModelConfig, check

PREFIX = "UNBROKEN_"
# Variables of ours that are no settings: for whom the environment is the only place to say it.
OTHER_VARIABLES = ("UNBROKEN_CONFIG", "UNBROKEN_TOKEN", "UNBROKEN_BENCH_MODEL")
# The single file tells the program in it of itself (app/unpacked.py); nobody else sets this.
_INTERNAL = "UNBROKEN_EXECUTABLE"
# 100 years: more is a slip of the pen, and breaks arithmetic further on.
LONGEST_SECONDS = 100 * 366 * 86400.0
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}

Duration = Annotated[float, Meta(ge=0, description="duration")]
Interval = Annotated[float, Meta(gt=0, description="duration that cannot be off")]
OptionalDuration = Annotated[float | None, Meta(description="duration or off")]
Count = Annotated[int, Meta(ge=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set. Each field's comment is its documentation."""

    host: str = "127.0.0.1"  # address to listen on
    port: Annotated[int, Meta(ge=0, le=65535)] = 8137  # 0: any free one
    base_path: str = "/"  # path the server is mounted under, where a proxy passes it on
    token_file: str = ""  # file of the access token; empty: access-token in the data folder
    cert: str = ""  # certificate chain (PEM); with `key`: serve HTTPS
    key: str = ""  # its private key (PEM)
    data: str = ""  # folder of the database; empty: the platform's user data folder
    model: str | None = None  # name of the default model
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    turn_timeout: OptionalDuration = 3600.0  # a whole turn, wall clock
    header_timeout: OptionalDuration = 300.0  # a model request up to its first content
    chunk_timeout: OptionalDuration = 120.0  # silence within a model response
    alive_timeout: OptionalDuration = 600.0  # the same, counting comments and pings as signs
    max_retries: Annotated[int, Meta(ge=0)] = 5  # of one model request
    tool_timeout: OptionalDuration = 300.0  # one tool call
    grace: Duration = 10.0  # what running turns get at a shutdown
    heartbeat: Interval = 5.0  # silence on a stream before a comment is sent; cannot be off
    retention: OptionalDuration = 86400.0  # streams are kept so long after their end
    max_streams: Count = 10_000  # turns running or queued at once
    max_recoveries: Annotated[int, Meta(ge=0)] = 3  # of one turn, after crashes
    max_steps: Count = 50  # model responses in one turn
    max_body: Count = 1_048_576  # bytes of a request body
    max_attachment: Count = 10_485_760  # bytes of an attached file
    models: dict[str, dict[str, Any]] = {}  # [models.NAME] tables

    @property
    def database(self) -> Path:
        return self.folder / "unbroken.db"

    @property
    def folder(self) -> Path:
        if self.data:
            return Path(self.data).expanduser().absolute()
        return Path(platformdirs.user_data_dir("unbroken", appauthor=False))

    @property
    def limits(self) -> Limits:
        """What a model has that says nothing of its own."""
        return Limits(
            header=self.header_timeout,
            chunk=self.chunk_timeout,
            alive=self.alive_timeout,
            max_retries=self.max_retries,
        )

    def model_configs(self) -> list[ModelConfig]:
        """The `[models.NAME]` tables, in their order.

        Raises InvalidError (CONFIG_INVALID), naming the table and the field; those that `load` gave
        are known to be good.
        """
        return _model_configs(self, "")


# Of a model; each has a setting of the same name that is its default.
_MODEL_DURATIONS = ("header_timeout", "chunk_timeout", "alive_timeout")


def _model_configs(settings: Settings, where: str) -> list[ModelConfig]:
    defaults = {name: getattr(settings, name) for name in (*_MODEL_DURATIONS, "max_retries")}
    configs = [
        _model_config(name, {**defaults, **table, "name": name}, where)
        for name, table in settings.models.items()
    ]
    try:
        check(configs)
    except InvalidError as error:
        raise _invalid(error.text, where) from None
    return configs


def _model_config(model: str, values: dict[str, Any], where: str) -> ModelConfig:
    read: dict[str, Any] = {}
    for field, value in values.items():
        name = f"models.{model}.{field}"
        if field not in _MODEL_HINTS:
            near = meant(field, set(_MODEL_HINTS) - {"name"})
            near = near or "; what is meant for the provider goes into `options`"
            raise _invalid(f"{name}: a model has no such field{near}", where)
        if field in _MODEL_DURATIONS:
            read[field] = 0.0 if value is None else seconds(name, value, where)
        else:
            read[field] = _converted(name, value, _MODEL_HINTS[field], where)
    return ModelConfig(**read)


def load(env: Mapping[str, str], given: Mapping[str, Any], config: Path | None = None) -> Settings:
    """Settings of this start, all of them good, those of the models too.

    Args:
        env: the environment; UNBROKEN_PORT sets `port`, and so on.
        given: what the command line says; None values are ignored.
        config: the file; None: UNBROKEN_CONFIG, else unbroken.toml in the working folder, if any.

    Raises InvalidError (CONFIG_INVALID) that names the source and the setting, and what is right.
    """
    path, table = _file(env, config)
    said = {name: (str(path), value) for name, value in table.items()}
    for name in Settings.__struct_fields__:
        variable = f"{PREFIX}{name.upper()}"
        if env.get(variable) and name != "models":
            said[name] = (variable, env[variable])
    for name, value in given.items():
        if value is not None:
            said[name] = (f"--{name.replace('_', '-')}", value)
    settings = Settings(
        **{name: _read(name, value, where) for name, (where, value) in said.items()}
    )
    _model_configs(settings, str(path))
    return settings


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """A sentence for each UNBROKEN_* variable that says nothing to us: most likely a slip."""
    known = {name.upper() for name in Settings.__struct_fields__ if name != "models"}
    known |= {name.removeprefix(PREFIX) for name in OTHER_VARIABLES}
    names = [name.removeprefix(PREFIX) for name in sorted(env) if name.startswith(PREFIX)]
    return [
        f"{PREFIX}{name} is no variable of Unbroken and is ignored{meant(name, known, PREFIX)}"
        for name in names
        if env[f"{PREFIX}{name}"] and name not in known and f"{PREFIX}{name}" != _INTERNAL
    ]


def _file(env: Mapping[str, str], config: Path | None) -> tuple[Path, dict[str, Any]]:
    named = config or (Path(env["UNBROKEN_CONFIG"]) if env.get("UNBROKEN_CONFIG") else None)
    path = named or Path("unbroken.toml")
    try:
        # With the mark that some editors put before the text.
        return path, tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        if named is None:
            return path, {}
        raise _invalid(f"{path} does not exist") from None
    except OSError as error:
        raise _invalid(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _invalid(f"{path} cannot be read: it is not UTF-8 (at line {line})") from None
    except tomllib.TOMLDecodeError as error:
        hint = "; a text stands in quotes" if str(error).startswith("Invalid value") else ""
        raise _invalid(f"{path} cannot be read: {error}{hint}") from None


_HINTS = get_type_hints(Settings, include_extras=True)
_MODEL_HINTS = get_type_hints(ModelConfig, include_extras=True)


def _read(name: str, value: Any, where: str) -> Any:
    if name not in _HINTS:
        raise _invalid(f"{name}: there is no such setting{meant(name, _HINTS)}", where)
    hint = _HINTS[name]
    if hint == OptionalDuration:
        return seconds(name, value, where) or None
    if hint in (Duration, Interval):
        found = seconds(name, value, where)
        if hint == Interval and not found:
            raise _invalid(
                f"{name}: {shown(value)} is not a duration above 0; write 5 or 5s", where
            )
        return found
    if name == "models":
        return _tables(value, where)
    if name == "host" and not str(value).strip():
        raise _invalid("host: empty is no address; 0.0.0.0 listens on all there are", where)
    if name == "model" and isinstance(value, dict):
        raise _invalid("model: the table of a model is called [models.NAME]", where)
    return _converted(name, value, hint, where)


def _tables(value: Any, where: str) -> Any:
    for model, table in value.items() if isinstance(value, dict) else [("NAME", value)]:
        if not isinstance(table, dict):
            text = f"models.{model}: {shown(table)} is not a table; write [models.{model}] above"
            raise _invalid(f"{text} its fields", where)
    return value


def seconds(name: str, value: Any, where: str = "") -> float:
    """A duration as written by a person; 0.0 for "off". Raises InvalidError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value) if value <= LONGEST_SECONDS else math.nan
    else:
        text = str(value).strip().lower()
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)", text)
        found = float(match[1]) * UNITS[match[2]] if match else math.nan
        if text in ("off", "none"):
            found = 0.0
    if not 0 <= found <= LONGEST_SECONDS:  # nor is nan
        raise _invalid(f"{name}: {shown(value)} is not {DURATION}", where)
    return found


def _converted(name: str, value: Any, hint: Any, where: str) -> Any:
    """The value as that type; a text may stand for a number. Raises InvalidError."""
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError:
        raise _invalid(f"{name}: {fault(value, hint)}", where) from None


def _invalid(text: str, where: str = "") -> InvalidError:
    return InvalidError(f"{text} (from {where})" if where else text, code="CONFIG_INVALID")
