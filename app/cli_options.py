"""The options that several commands share, each said once. Their defaults are in app/config.py."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Option = Callable[[Any], Any]


class TakesSettings(click.Command):
    """With the commonest settings as options; of the others it says how they are given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from app.config import PREFIX, Settings

            name = error.option_name.lstrip("-").replace("-", "_")
            if name not in Settings.__struct_fields__ or name == "models":
                raise
            text = f"{error.option_name} is no option, but a setting: {PREFIX}{name.upper()}=… in"
            text += f" the environment, or {name} = … in unbroken.toml."
            raise click.UsageError(text, ctx) from None


def option(*names: str, metavar: str, help: str, type: Any = None) -> Option:
    return click.option(*names, metavar=metavar, help=help, type=type)


HOST = option(
    "--host", metavar="ADDRESS", help="Address to listen on; 0.0.0.0: all of them.  [127.0.0.1]"
)
PORT = option("--port", metavar="PORT", type=int, help="Port to listen on; 0: any free.  [8137]")
THEIR_HOST = option(
    "--host", metavar="ADDRESS", help="Address that the server listens on.  [127.0.0.1]"
)
THEIR_PORT = option("--port", metavar="PORT", type=int, help="Port that it listens on.  [8137]")
DATA = option(
    "--data", metavar="DIR", help="Folder of the database.  [~/.local/share/unbroken on Linux]"
)
TOKEN_FILE = option(
    "--token-file",
    metavar="FILE",
    help="File of the access token.  [access-token in the data folder]",
)
CONFIG = option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Settings file.  [unbroken.toml in this folder, if there]",
)
MODEL = option("--model", metavar="NAME", help="Name of the default model.  [the first there is]")
LOG_LEVEL = click.option(
    "--log-level",
    metavar="LEVEL",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Of the log: debug, info, warning or error.  [info]",
)
CERT = option("--cert", metavar="FILE", help="Certificate chain (PEM); with --key: HTTPS.")
KEY = option("--key", metavar="FILE", help="Private key of the certificate (PEM).")

# What a server is started with, what leads to one that was started so, and to its token.
SERVING = (HOST, PORT, DATA, CONFIG, MODEL, TOKEN_FILE, CERT, KEY, LOG_LEVEL)
FINDING = (THEIR_HOST, THEIR_PORT, CONFIG)
ENTERING = (*FINDING, DATA, TOKEN_FILE)


def options(*chosen: Option) -> Option:
    """These options, listed in this order."""

    def decorate(command: Any) -> Any:
        for one in reversed(chosen):
            command = one(command)
        return command

    return decorate
