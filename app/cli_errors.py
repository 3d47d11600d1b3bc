"""What the command line says when something stands in the way: one line, and no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


@contextmanager
def sentences(database: Path | None = None) -> Iterator[None]:
    """What is expected to go wrong ends the command with a line and exit code 1; Ctrl+C ends it
    with 130 and no line.

    Args:
        database: the one that is meant where the store says that it cannot be used.
    """
    from app.errors import AppError, StoreError

    try:
        yield
    except BrokenPipeError:
        raise  # of the reader of our output: click ends silently
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (AppError, StoreError, OSError) as error:
        raise click.ClickException(_sentence(error, database)) from None
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is None:
            raise click.exceptions.Exit(INTERRUPTED) from None
        expected, others = group.split((AppError, StoreError, OSError))
        if expected is None or others is not None:
            raise
        raise click.ClickException(_sentence(_first(expected), database)) from None


def _sentence(error: BaseException, database: Path | None) -> str:
    from store.errors import StoreUnavailableError

    if isinstance(error, StoreUnavailableError) and database is not None:
        # What SQLite says names no file.
        return f"The database {database} cannot be used: {error}. --data names another folder"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    one: BaseException = group
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    return one
