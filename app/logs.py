"""The log on stderr: for eyes on a terminal, else one line of logfmt an event.

Ids that give access, tokens and bodies are never logged (A3); so tracebacks come without the values
of variables, which structlog's usual renderers show.
"""

import logging
import os
from contextlib import suppress
from typing import TextIO

import structlog
from structlog.typing import Processor

# Each of their requests at level info; what matters of it is in our own events.
# botocore also writes down what it signs, at level debug, a session's token included.
QUIET = ("httpx2", "httpcore2", "quart.app", "botocore", "urllib3")


def log_to(stream: TextIO, level: str) -> None:
    """Send all that is logged, by us and by libraries, to `stream` in one form.

    Args:
        level: debug, info, warning or error.
    """
    number = getattr(logging, level.upper(), logging.INFO)
    beginning, ending = _for_eyes() if stream.isatty() else _for_programs()
    structlog.configure(
        processors=[structlog.processors.add_log_level, *beginning, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: SteadyLogger(stream),
    )
    names = [structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name]
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*names, *beginning], processors=[strip, *ending]
        )
    )
    logging.basicConfig(level=number, handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


class SteadyLogger(structlog.PrintLogger):
    """Where the log goes may end before we do (a closed terminal, `| head`, a full disk): nobody
    who has something to say may fail by it. The standard library's handlers are as patient."""

    def msg(self, message: str) -> None:
        with suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg


# Each: what an event gets, and how it becomes text.


def _for_eyes() -> tuple[list[Processor], list[Processor]]:
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    console = structlog.dev.ConsoleRenderer(
        colors=colours, exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )
    return [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)], [console]


def _for_programs() -> tuple[list[Processor], list[Processor]]:
    order = ["timestamp", "level", "event"]
    return (
        [structlog.processors.TimeStamper(fmt="iso", utc=True)],
        [
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=order),
        ],
    )
