"""The command line. The one place in this room that knows of the web, and only when it serves."""

import logging
import os
import sys
import webbrowser
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import structlog
import trio

from app import config
from app.errors import AppError
from app.lifetime import Services, live
from store.errors import StoreError


class DefaultToServe(click.Group):
    """`unbroken --port 9000` is `unbroken serve --port 9000`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultToServe)
@click.version_option(version("unbroken"), prog_name="unbroken")
def main() -> None:
    """Unbroken: a chat server for AI agents whose answers survive everything.

    Without a command it serves; `unbroken serve --help` lists the options.
    """


@main.command()
@click.option("--host", help="Address to listen on.  [127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0: any free one.  [8137]")
@click.option("--token-file", help="File of the access token.  [access-token in the data folder]")
@click.option("--cert", help="Certificate chain (PEM); with --key: HTTPS.")
@click.option("--key", help="Private key of the certificate (PEM).")
@click.option("--data", help="Folder of the database.  [the user data folder]")
@click.option("--model", help="Name of the default model.  [the first there is]")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Settings file.  [unbroken.toml]"
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def serve(file: Path | None, open_browser: bool, **given: Any) -> None:
    """Serve the chat until stopped with Ctrl+C or SIGTERM.

    Every setting can also be given as UNBROKEN_NAME in the environment or in unbroken.toml.
    """
    from web.edge import WebEdge

    edge = WebEdge()

    def started(services: Services, urls: list[str]) -> None:
        link = edge.link(settings, urls[0])
        click.echo(f"Unbroken is ready at {link}")
        if "?token=" in link and sys.stdout.isatty():
            import segno

            segno.make(link, micro=False).terminal(compact=True)
        click.echo(f"  data:  {settings.folder}")
        click.echo(f"  model: {services.catalogue.default}")
        click.echo("  stop:  Ctrl+C")
        if open_browser:
            webbrowser.open(link)

    try:
        settings = config.load(os.environ, given, file)
        _log_to_stderr(settings.log_level)
        env = {**os.environ, **({"UNBROKEN_MODEL": settings.model} if settings.model else {})}
        trio.run(live, settings, env, edge, started, strict_exception_groups=True)
    except* (AppError, StoreError, OSError) as group:
        raise click.ClickException(str(_first(group))) from None


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    one: BaseException = group
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    return one


def _log_to_stderr(level: str) -> None:
    """One line an event. Ids that give access, tokens and bodies are never logged (A3)."""
    number = getattr(logging, level.upper(), logging.INFO)
    logging.basicConfig(
        level=number, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    for name in ("httpx2", "httpcore2", "quart.app"):
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
