"""The command line. The one place in this room that knows of the web, and only when it serves.

Each command imports what it needs when it runs: `--help` takes a tenth of a second.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.cli_errors import sentences
from app.cli_options import CONFIG, DATA, ENTERING, FINDING, MODEL, SERVING, TakesSettings, options

if TYPE_CHECKING:
    from app.config import Settings
    from app.lifetime import Services


class DefaultToServe(click.Group):
    """`unbroken --port 9000` is `unbroken serve --port 9000`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help", "--version")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Those of serving as well: they need no command."""
        super().format_options(ctx, formatter)
        records = [option.get_help_record(ctx) for option in self.commands["serve"].params]
        with formatter.section("Options of serve, also without it"):
            formatter.write_dl([record for record in records if record])


def print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from app import versions

        click.echo(versions.text())
        context.exit()


def loaded(file: Path | None, given: dict[str, Any]) -> "Settings":
    """The settings; what is most likely a slip in the environment is told. Raises InvalidError."""
    from app import config

    for sentence in config.unknown_variables(os.environ):
        click.echo(f"Warning: {sentence}", err=True)
    return config.load(os.environ, given, file)


@click.group(cls=DefaultToServe, context_settings={"help_option_names": ["-h", "--help"]})
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

    Without a command it serves.

    \b
    Examples:
      unbroken --open                 serve, and open the page
      unbroken send "What is a log?"  ask the server that runs here
      unbroken doctor                 check the models
    """


@main.command(cls=TakesSettings)
@options(*SERVING)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def serve(file: Path | None, open_browser: bool, **given: Any) -> None:
    """Serve the chat until stopped with Ctrl+C or SIGTERM.

    Running answers then get 10 seconds to end; what is not done goes on at the next start. A second
    Ctrl+C does not wait for them.

    Every setting can also be given as UNBROKEN_NAME in the environment or as a line of
    unbroken.toml; docs/configuration.md lists them all.

    \b
    Examples:
      unbroken --port 9000 --data ~/other-chats
      unbroken --model openai/gpt-5
      unbroken --host 0.0.0.0 --cert cert.pem --key key.pem
      UNBROKEN_TURN_TIMEOUT=2h unbroken
    """
    from app.collector import at_rest

    with sentences(), at_rest() as has_started:
        import signal

        import trio

        from app.banner import banner, qr
        from app.config_folder import prepare
        from app.lifetime import live
        from app.logs import log_to
        from web.edge import WebEdge

        async def started(services: "Services", urls: list[str]) -> None:
            has_started()
            link = edge.link(settings, urls[0])
            found = services.catalogue
            lines = banner(link, settings.database, found.default, found.list(), found.problems)
            click.echo("\n".join(lines))
            if "?token=" in link and sys.stdout.isatty():
                click.echo(qr(link), nl=False)
            if open_browser:
                import webbrowser

                # In a thread: a browser of the terminal comes back when it is left.
                if not await trio.to_thread.run_sync(webbrowser.open, link, abandon_on_cancel=True):
                    click.echo("No browser was found here: open the address yourself.", err=True)

        settings = loaded(file, given)
        log_to(sys.stderr, settings.log_level)
        edge = WebEdge()
        prepare(settings.folder)
        with sentences(settings.database):
            trio.run(
                live, settings, environment(settings), edge, started, strict_exception_groups=True
            )
        # What is left is the end of the interpreter, which says ugly things of one more Ctrl+C.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def environment(settings: "Settings") -> dict[str, str]:
    """The environment, in which the default model is the one of the settings."""
    return {**os.environ, **({"UNBROKEN_MODEL": settings.model} if settings.model else {})}


@main.command(short_help="Send a message, print the answer.")
@click.argument("text")
@click.option("--thread", metavar="ID", help="Thread to go on with.  [a new one]")
@click.option("--model", metavar="NAME", help="Model that answers.  [the thread's, or the default]")
@click.option("--server", metavar="LINK", help="Server, or the link it printed.  [the one here]")
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Certificate (PEM) to trust: the server's own, or the one that signed it.",
)
@click.option(
    "--live/--whole",
    default=None,
    help="Print the answer as it comes, or at its end.  [live on a terminal]",
)
@options(*ENTERING)
def send(
    text: str,
    thread: str | None,
    model: str | None,
    server: str | None,
    ca: Path | None,
    live: bool | None,
    file: Path | None,
    **given: Any,
) -> None:
    """Send TEXT to a running server and print the answer; "-": what comes on the standard input.

    A lost connection or a restart of the server does no harm. Ctrl+C stops the answer, a second one
    leaves it to the server where that cannot be reached. The token,
    where one is asked for, is that of the link, of UNBROKEN_TOKEN, or of the server here.

    Exits with 0 for an answer, 1 for a failure, 130 for one that was stopped.

    \b
    Examples:
      unbroken send "What is a log?"
      git diff | unbroken send - --model openai/gpt-5
      unbroken send --server "https://chat.lan/?token=..." --ca cert.pem "Hi"
    """
    text = said(text)
    with sentences():
        from app.cli_server import own_certificate, own_token, own_url
        from app.remote import Remote, trusting
        from app.sending import Errand, carry_out

        token = os.environ.get("UNBROKEN_TOKEN")
        tls = trusting(ca) if ca else None
        if server is None:
            settings = loaded(file, given)
            server, token = own_url(settings), token or own_token(settings)
            tls = tls or own_certificate(settings)
        live = sys.stdout.isatty() if live is None else live

        def waiting(reason: str) -> None:
            click.echo(f"[{reason.rstrip('.')}. Waiting.]", err=True)

        with Remote(server, token, tls=tls, waiting=waiting) as remote:
            code = carry_out(remote, Errand(text, thread, model, live), sys.stdout, sys.stderr)
    sys.exit(code)


def said(text: str) -> str:
    """The message: the argument, or the standard input for "-". Raises UsageError for none."""
    where = "The standard input" if text == "-" else "TEXT"
    try:
        if text == "-":
            text = sys.stdin.buffer.read().decode()
        text.encode()  # what the shell passed on may be no text either
    except UnicodeError:
        raise click.UsageError(f"{where} is no text in UTF-8.") from None
    if not text.strip():
        raise click.UsageError(f"{where} is empty: there is nothing to send.")
    return text


@main.command(short_help="Check the configured models.")
@options(CONFIG, MODEL)
def doctor(file: Path | None, **given: Any) -> None:
    """Ask every configured model one short question: is it there, is the key accepted, does it
    stream, how long until its first word. Takes a minute for each at most, and costs a few words.
    Exits with 1 unless all are well."""
    with sentences():
        import trio

        from app.models.doctor import Finding, examine_configured
        from app.models.doctor import report as sentence

        settings = loaded(file, given)

        def told(finding: Finding) -> None:
            click.echo(sentence([finding]))

        findings = trio.run(
            examine_configured,
            settings.model_configs(),
            environment(settings),
            settings.limits,
            told,
        )
    sys.exit(0 if all(finding.good for finding in findings) else 1)


@main.command(short_help="Exit with 0 if the server accepts work.")
@options(*FINDING)
def health(file: Path | None, **given: Any) -> None:
    """Exit with 0 if the server with these settings accepts work, with 1 if it does not say so
    within 5 seconds: for containers and monitors."""
    with sentences():
        from app.cli_server import own_url
        from app.health import ask

        ask(own_url(loaded(file, given)))
    click.echo("ok")


@main.command(short_help="Copy everything into one file.")
@click.argument("copy", type=click.Path(path_type=Path, dir_okay=False))
@options(DATA, CONFIG)
def backup(copy: Path, file: Path | None, **given: Any) -> None:
    """Write everything to the new file COPY, also while the server runs. To use it, put it into a
    data folder under the name unbroken.db.

    \b
    Example:
      unbroken backup ~/unbroken-backup.db
    """
    with sentences():
        from app.errors import InvalidError, NotFoundError
        from store.backup import back_up

        database = loaded(file, given).database
        if not database.is_file():
            raise NotFoundError(f"There is no database at {database}; --data names its folder")
        if not copy.parent.is_dir():
            raise InvalidError(f"There is no folder {copy.parent} for the copy; make it first")
        size = back_up(database, copy)
    click.echo(f"{copy}: {size / 1e6:.1f} MB")


@main.command()
@click.option("--full", is_flag=True, help="With the text of each licence.")
def licenses(full: bool) -> None:
    """Print the licences of everything inside."""
    from importlib.resources import files

    from app.licences import gather, render

    click.echo(render(gather(files("web") / "static" / "licences.json"), full=full))
    if not full:
        click.echo("\nThe text of each: unbroken licenses --full", err=True)


@main.group(short_help="Run as a service of systemd.")
def service() -> None:
    """Run as a service of your own systemd: from login on, started again if it fails.

    Keys of models go into ~/.config/unbroken/environment, as lines like OPENAI_API_KEY=sk-...
    """


@service.command(cls=TakesSettings, short_help="Install and start it.")
@options(*SERVING)
def install(file: Path | None, **given: Any) -> None:
    """Install and start it, with these options of `unbroken serve`, and the unbroken.toml of this
    folder if there is one. Once more with others: they replace the first."""
    with sentences():
        from app import service_unit as unit

        loaded(file, given)  # better now than in a log
        arguments = unit.arguments(file or unit.found(Path("unbroken.toml")), given)
        report(unit.install(unit.Places.of_user(), arguments, Path.home()))


@service.command(short_help="Stop and remove it; the data stays.")
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
