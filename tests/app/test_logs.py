"""The log's two forms, and what never gets into it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from app.logs import log_to
from app.models.bedrock_keys import Keys


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def test_programs_get_one_line_of_logfmt_an_event() -> None:
    stream = io.StringIO()
    log_to(stream, "info")
    structlog.get_logger().info("shutting down", signal="SIGTERM", grace=10.0)
    logging.getLogger("some.library").warning("slow: %s", "disk")
    ours, theirs = stream.getvalue().splitlines()
    assert ours.startswith("timestamp=20")
    assert ours.endswith('level=info event="shutting down" signal=SIGTERM grace=10.0')
    assert theirs.endswith('level=warning event="slow: disk" logger=some.library')


def test_eyes_get_a_short_time_and_no_colours_where_none_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Screen()
    log_to(stream, "info")
    structlog.get_logger().info("shutting down", grace=10.0)
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue()[8:].split() == ["[info", "]", "shutting", "down", "grace=10.0"]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    log_to(stream, "info")
    structlog.get_logger().info("shutting down")
    assert "\x1b" in stream.getvalue()


def test_the_level_holds_for_all_and_libraries_that_tell_every_request_are_quiet() -> None:
    stream = io.StringIO()
    log_to(stream, "warning")
    structlog.get_logger().info("ours")
    logging.getLogger("some.library").info("theirs")
    assert stream.getvalue() == ""
    log_to(stream, "info")
    logging.getLogger("httpx2").info("GET https://example.test/?key=secret")
    assert stream.getvalue() == ""


@pytest.mark.requirement("A3")
def test_what_signs_a_request_to_aws_is_in_no_log() -> None:
    """AWS's library writes the headers it signs, at level debug."""
    stream = io.StringIO()
    log_to(stream, "debug")
    keys = Keys("AKID", "the-secret", "the-session-token")
    signed = keys.sign("https://aws.invalid/", {}, b"", "eu-west-1")
    assert signed["X-Amz-Security-Token"] == "the-session-token"
    structlog.get_logger().debug("the log works")
    assert "the-se" not in stream.getvalue()
    assert "the log works" in stream.getvalue()


@pytest.mark.requirement("A3")
@pytest.mark.parametrize("stream", [io.StringIO(), Screen()], ids=["programs", "eyes"])
def test_a_traceback_shows_no_values(stream: io.StringIO) -> None:
    """Values of variables are tokens, keys and what a person wrote."""
    log_to(stream, "info")

    def fails(body: str) -> None:
        raise ValueError("broken")

    for log in (structlog.get_logger(), logging.getLogger("some.library")):
        try:
            fails("sec" + "ret")
        except ValueError:
            log.exception("it failed")
    text = stream.getvalue()
    assert text.count("ValueError: broken") == 2
    assert text.count("in fails") == 2
    assert "secret" not in text
