"""The command line. The one place in this room that knows of the web, and only when it serves.

Each command imports what it needs when it runs: `--help` and `health` take a tenth of a second.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from app.config import Settings
    from app.lifetime import Services

Command = TypeVar("Command", bound=Callable[..., Any])


class DefaultToServe(click.Group):
    """`unbroken --port 9000` is `unbroken serve --port 9000`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


def print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from app import versions

        click.echo(versions.text())
        context.exit()


def settings_options(command: Command) -> Command:
    """The options that say where a server is, or is to be, and where its data is."""
    for option in (
        click.option(
            "--config",
            "file",
            type=click.Path(path_type=Path),
            help="Settings file.  [unbroken.toml]",
        ),
        click.option("--data", help="Folder of the database.  [the user data folder]"),
        click.option("--token-file", help="File of the access token.  [access-token in --data]"),
        click.option("--port", type=int, help="Port; 0: any free one.  [8137]"),
        click.option("--host", help="Address to listen on.  [127.0.0.1]"),
    ):
        command = option(command)
    return command


def serve_options(command: Command) -> Command:
    """Those of a server."""
    for option in (
        click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"])),
        click.option("--model", help="Name of the default model.  [the first there is]"),
        click.option("--key", help="Private key of the certificate (PEM)."),
        click.option("--cert", help="Certificate chain (PEM); with --key: HTTPS."),
    ):
        command = option(command)
    return settings_options(command)


@contextmanager
def sentences() -> Iterator[None]:
    """What stands in the way, as one line and exit code 1 instead of a traceback."""
    from app.errors import AppError, StoreError

    try:
        yield
    except BrokenPipeError:
        raise  # of the reader of our output: click ends silently
    except (AppError, StoreError, OSError) as error:
        raise click.ClickException(str(error)) from None
    except BaseExceptionGroup as group:
        expected, others = group.split((AppError, StoreError, OSError))
        if expected is None or others is not None:
            raise
        raise click.ClickException(str(_first(expected))) from None


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    one: BaseException = group
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    return one


@click.group(cls=DefaultToServe)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=print_version,
    help="Show the version, the commit and the libraries, and exit.",
)
def main() -> None:
    """Unbroken: a chat server for AI agents whose answers survive everything.

    Without a command it serves; `unbroken serve --help` lists the options.
    """


@main.command()
@serve_options
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def serve(file: Path | None, open_browser: bool, **given: Any) -> None:
    """Serve the chat until stopped with Ctrl+C or SIGTERM.

    Every setting can also be given as UNBROKEN_NAME in the environment or in unbroken.toml.
    """
    from app.collector import at_rest

    with sentences(), at_rest() as has_started:
        import webbrowser

        import trio

        from app import config
        from app.banner import banner, qr
        from app.lifetime import live
        from app.logs import log_to
        from web.edge import WebEdge

        def started(services: "Services", urls: list[str]) -> None:
            has_started()
            link = edge.link(settings, urls[0])
            models = services.catalogue
            click.echo("\n".join(banner(link, settings.database, models.default, models.list())))
            if "?token=" in link and sys.stdout.isatty():
                click.echo(qr(link), nl=False)
            if open_browser:
                webbrowser.open(link)

        settings = config.load(os.environ, given, file)
        log_to(sys.stderr, settings.log_level)
        env = {**os.environ, **({"UNBROKEN_MODEL": settings.model} if settings.model else {})}
        edge = WebEdge()
        trio.run(live, settings, env, edge, started, strict_exception_groups=True)


@main.command(short_help="Send a message, print the answer.")
@click.argument("text")
@click.option("--thread", help="Id of the thread to go on with.  [a new one]")
@click.option("--model", help="Name of the model that answers.  [the thread's]")
@click.option("--server", help="Address of the server, or the link it printed.  [the one here]")
@click.option("--live/--whole", default=None, help="As it comes; whole.  [a terminal: live]")
@settings_options
def send(
    text: str,
    thread: str | None,
    model: str | None,
    server: str | None,
    live: bool | None,
    file: Path | None,
    **given: Any,
) -> None:
    """Send TEXT to a running server and print the answer; "-": what comes on the standard input.

    A lost connection or a restart of the server does no harm. Ctrl+C stops the answer. The token,
    where one is asked for, is that of the link, of UNBROKEN_TOKEN, or of the server here.
    """
    with sentences():
        from app import config
        from app.remote import Remote
        from app.sending import Errand, carry_out

        text = sys.stdin.read() if text == "-" else text
        token = os.environ.get("UNBROKEN_TOKEN")
        if server is None:
            settings = config.load(os.environ, given, file)
            server, token = settings_url(settings), token or settings_token(settings)
        live = sys.stdout.isatty() if live is None else live

        def waiting(reason: str) -> None:
            click.echo(f"[{reason.rstrip('.')}. Waiting.]", err=True)

        with Remote(server, token, waiting=waiting) as remote:
            code = carry_out(remote, Errand(text, thread, model, live), sys.stdout, sys.stderr)
    sys.exit(code)


@main.command(short_help="Check the configured models.")
@click.option("--model", help="Name of the default model.  [the first there is]")
@settings_options
def doctor(file: Path | None, **given: Any) -> None:
    """Ask every configured model one short question: is it there, is the key accepted, does it
    stream, how long until its first word. Exits with 1 unless all are well."""
    with sentences():
        import trio

        from app import config
        from app.models.doctor import Finding, examine_configured
        from app.models.doctor import report as sentence

        settings = config.load(os.environ, given, file)
        env = {**os.environ, **({"UNBROKEN_MODEL": settings.model} if settings.model else {})}

        def told(finding: Finding) -> None:
            click.echo(sentence([finding]))

        findings = trio.run(
            examine_configured, settings.model_configs(), env, settings.limits, told
        )
    sys.exit(0 if all(finding.good for finding in findings) else 1)


@main.command(short_help="Exit with 0 if the server accepts work.")
@settings_options
def health(file: Path | None, **given: Any) -> None:
    """Exit with 0 if the server with these settings accepts work: for containers and monitors."""
    with sentences():
        from app import config
        from app.health import ask

        ask(settings_url(config.load(os.environ, given, file)))
    click.echo("ok")


@main.command(short_help="Copy everything into one file.")
@click.argument("copy", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--data", help="Folder of the database.  [the user data folder]")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Settings file.")
def backup(copy: Path, file: Path | None, **given: Any) -> None:
    """Write everything to the new file COPY, also while the server runs."""
    with sentences():
        from app import config
        from store.backup import back_up

        settings = config.load(os.environ, given, file)
        size = back_up(settings.database, copy)
    click.echo(f"{copy}: {size / 1e6:.1f} MB")


@main.command()
@click.option("--full", is_flag=True, help="With all texts.")
def licenses(full: bool) -> None:
    """Print the licences of everything inside."""
    from importlib.resources import files

    from app.licences import gather, render

    click.echo(render(gather(files("web") / "static" / "licences.json"), full=full))


@main.group(short_help="Run as a service of systemd.")
def service() -> None:
    """Run as a service of your own systemd: from login on, started again if it fails."""


@service.command()
@serve_options
def install(file: Path | None, **given: Any) -> None:
    """Install and start it, with these options of `unbroken serve`."""
    with sentences():
        from app import config
        from app import service_unit as unit

        config.load(os.environ, given, file)  # better now than in a log
        arguments = unit.arguments(file or unit.found(Path("unbroken.toml")), given)
        report(unit.install(unit.Places.of_user(), arguments, Path.home()))


@service.command()
def uninstall() -> None:
    """Stop and remove it; the data stays."""
    with sentences():
        from app import service_unit as unit

        report(unit.uninstall(unit.Places.of_user()))


@service.command()
def status() -> None:
    """Say whether it is installed and running; exit with 0 only then."""
    with sentences():
        from app import service_unit as unit

        report(unit.status(unit.Places.of_user()))


def report(found: Any) -> None:
    click.echo("\n".join(found.lines))
    if not found.good:
        sys.exit(1)


def settings_url(settings: "Settings") -> str:
    """Where a server with these settings is, seen from this machine."""
    wildcards = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "[::1]"}
    host = wildcards.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    base = settings.base_path.strip("/")
    scheme = "https" if settings.cert else "http"
    return f"{scheme}://{host}:{settings.port}/{base and f'{base}/'}"


def settings_token(settings: "Settings") -> str | None:
    """The token of a server with these settings; None where there is none yet."""
    from app.access import load_token

    path = Path(settings.token_file).expanduser() if settings.token_file else None
    path = path or settings.folder / "access-token"
    return load_token(path).token if path.exists() else None
