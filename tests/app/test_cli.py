"""The command line, as a person meets it: what it says, in one line, and how it ends."""

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from app import health
from app.banner import banner
from app.config_folder import prepare
from app.errors import InvalidError, UnavailableError
from app.models.catalogue import ModelInfo
from store.backup import back_up
from tests.crash.server import RunningServer, running_server

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


class Shell:
    """A person's terminal: a folder, a home, no settings from elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}

    def run(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            cwd=self.folder,
            env={**self.variables, **changes},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def start(self, *arguments: str, **changes: str) -> list[str]:
        """The lines that a server says when it is ready; it is stopped then."""
        lines = []
        with subprocess.Popen(
            [sys.executable, "-m", "app", "--port", "0", *arguments],
            cwd=self.folder,
            env={**self.variables, **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if line.startswith("  stop"):
                    process.terminate()
        assert process.returncode == 0, lines
        return lines


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def port_of(server: RunningServer) -> str:
    return server.url.rpartition(":")[2].strip("/")


# Starting


def test_help_lists_the_commands_and_loads_neither_server_nor_store(shell: Shell) -> None:
    done = shell.run("--help")
    assert done.returncode == 0
    for command in ("serve", "send", "backup", "health", "licenses", "service"):
        assert f"\n  {command} " in done.stdout
    for option in ("--host", "--port", "--data", "--open"):  # those of serve need no command
        assert f"\n  {option} " in done.stdout
    code = "import sys, app.__main__; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"trio", "sqlalchemy", "quart", "httpx2", "structlog"} & set(modules)


def test_version_names_the_commit_and_the_libraries(shell: Shell) -> None:
    done = shell.run("--version")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("unbroken 0.1.0, commit ")
    assert ", SQLite 3." in lines[1]
    assert ", trio 0." in lines[2]


def test_start_says_where_it_is_where_the_data_is_which_model_and_how_to_stop(
    tmp_path: Path,
) -> None:
    models = [ModelInfo("ollama/a", "ollama", "a", False), ModelInfo("demo", "demo", "demo", True)]
    lines = banner("http://127.0.0.1:8137", tmp_path / "unbroken.db", "ollama/a", models)
    assert lines == [
        "Unbroken is ready at http://127.0.0.1:8137",
        f"  data   {tmp_path}/unbroken.db",
        "  model  ollama/a",
        "  stop   Ctrl+C; running answers go on at the next start",
    ]


def test_start_without_a_model_says_how_to_connect_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    demo = [ModelInfo("demo", "demo", "demo", True)]
    lines = banner("http://127.0.0.1:8137", tmp_path / "data" / "unbroken.db", "demo", demo)
    assert lines[1] == "  data   ~/data/unbroken.db"
    text = "\n".join(lines[2:])
    assert "a demonstration" in text
    for way in ("OPENAI_API_KEY", "Ollama", "unbroken.toml"):
        assert way in text


def test_start_says_which_model_of_the_provider_it_is(tmp_path: Path) -> None:
    models = [ModelInfo("openai", "openai", "gpt-5-mini", False)]
    assert banner("http://x", tmp_path, "openai", models)[2] == "  model  openai (gpt-5-mini)"
    models = [ModelInfo("openai", "openai", "", False)]  # one that the server is asked for later
    assert banner("http://x", tmp_path, "openai", models)[2] == "  model  openai"


def test_start_tells_of_a_key_that_is_missing_and_starts_all_the_same(shell: Shell) -> None:
    (shell.folder / "unbroken.toml").write_text(
        "[models.one]\nmodel = 'x'\napi_key_env = 'NO_SUCH_KEY'\n"
        "[models.two]\nmodel = 'y'\napi_key_file = 'no-such-file'\n"
    )
    assert shell.start()[2:] == [
        "  model  one (x), and 1 more to choose from",
        "  note   The model one has no key: the variable NO_SUCH_KEY is not set.",
        "  note   The model two has no key: the file no-such-file cannot be read "
        "(No such file or directory).",
        "  stop   Ctrl+C; running answers go on at the next start",
    ]


def test_start_with_a_key_of_anthropic_alone_takes_its_model(shell: Shell) -> None:
    lines = shell.start(ANTHROPIC_API_KEY="key")
    assert lines[2] == "  model  anthropic (claude-sonnet-4-5)"


def test_a_variable_that_is_misspelled_is_told(shell: Shell, server: RunningServer) -> None:
    done = shell.run("health", "--port", port_of(server), UNBROKEN_PROT="1")
    assert done.returncode == 0
    assert done.stderr == (
        "Warning: UNBROKEN_PROT is no variable of Unbroken and is ignored; "
        "did you mean UNBROKEN_PORT?\n"
    )


def test_start_counts_the_other_models(tmp_path: Path) -> None:
    models = [ModelInfo(name, "x", name, False) for name in ("a", "b", "c")]
    assert banner("http://x", tmp_path, "b", models)[2] == "  model  b, and 2 more to choose from"


@pytest.mark.parametrize(
    ("arguments", "variables", "text"),
    [
        (["--config", "none.toml"], {}, "none.toml does not exist"),
        ([], {"UNBROKEN_PORT": "many"}, "port: "),
        ([], {"UNBROKEN_TURN_TIMEOUT": "soon"}, "turn_timeout: 'soon' is not a duration"),
        (["--model", "nobody"], {}, "There is no model named nobody"),
        (["--host", "192.0.2.1"], {}, "192.0.2.1"),
        (["--data", "/dev/null/x"], {}, "/dev/null/x cannot be used: /dev/null is a file, not a"),
        (["--data", "file"], {}, "file is a file, not a folder. --data names another"),
        (["--data", "/proc/x"], {}, "The data folder /proc/x cannot be used: /proc/x: No such"),
        (["--data", "no-database"], {}, "no-database/unbroken.db cannot be used: file is not a da"),
        (["--data", "a-folder"], {}, "a-folder/unbroken.db cannot be used: unable to open"),
        (["--data", "newer"], {}, "The database is of schema 9999, this version of Unbroken knows"),
        (["--config", "broken.toml"], {}, "broken.toml cannot be read: Invalid value (at line 2, "),
        (["--config", "a-folder"], {}, "a-folder cannot be read: Is a directory"),
        (["--cert", "none.pem", "--key", "none.pem"], {}, "The certificate none.pem cannot be rea"),
        (["--cert", "file", "--key", "none.pem"], {}, "The private key none.pem cannot be read: N"),
        (["--cert", "file", "--key", "file"], {}, "The certificate file and its key file cannot "),
        (["--key", "file"], {}, "A key without its certificate: give both, --cert and --key"),
        (
            ["--token-file", "a-folder"],
            {},
            "The token file a-folder cannot be read: Is a directory",
        ),
        (["--token-file", "file"], {}, "The token file file has to be readable by its owner alone"),
        ([], {"OPENAI_BASE_URL": "x"}, "OPENAI_BASE_URL has to be http(s)://host:port/path"),
    ],
)
def test_what_stands_in_the_way_of_a_start_is_one_line(
    shell: Shell, arguments: list[str], variables: dict[str, str], text: str
) -> None:
    (shell.folder / "file").write_text("hello")
    (shell.folder / "file").chmod(0o644)
    (shell.folder / "broken.toml").write_text("port = 1\nhost = here\n")
    for name in ("no-database", "a-folder/unbroken.db", "newer"):
        (shell.folder / name).mkdir(parents=True)
    (shell.folder / "no-database" / "unbroken.db").write_text("no database at all. " * 99)
    with closing(sqlite3.connect(shell.folder / "newer" / "unbroken.db")) as database, database:
        database.execute("CREATE TABLE migration (number INTEGER, applied_at INTEGER)")
        database.execute("INSERT INTO migration VALUES (9999, 0)")
    done = shell.run("serve", *arguments, **{"UNBROKEN_PORT": "0", **variables})
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_data_folder_that_may_not_be_written_into_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(InvalidError, match="cannot be used: this user may not write into it"):
        prepare(tmp_path)


def test_a_data_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    prepare(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    prepare(tmp_path / "a" / "b")


def test_nobody_else_reads_a_database_in_a_folder_that_was_there(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with running_server(tmp_path) as server:
        modes = {path.name: path.stat().st_mode & 0o777 for path in server.data.glob("*.db*")}
    del modes["unbroken.db.lock"]  # holds the number of a process
    assert modes == dict.fromkeys(("unbroken.db", "unbroken.db-wal", "unbroken.db-shm"), 0o600)


def test_a_port_that_is_taken_is_one_line(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = shell.run("--port", port, "--model", "demo")
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: Port {port} of 127.0.0.1 is already in use by another program. "
        "--port takes another, 0 any that is free.\n"
    )


def test_a_data_folder_in_use_is_one_line(shell: Shell, server: RunningServer) -> None:
    done = shell.run("--port", "0", "--model", "demo", "--data", str(server.data))
    assert done.returncode == 1
    assert f"in use by process {server.pid}" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        *([], ["serve"], ["send"], ["doctor"], ["health"], ["backup"], ["licenses"], ["service"]),
        *(["service", "install"], ["service", "uninstall"], ["service", "status"]),
    ],
)
def test_help_fits_a_terminal_and_leaves_no_option_unexplained(
    shell: Shell, command: list[str]
) -> None:
    done = shell.run(*command, "--help", COLUMNS="80")
    assert done.returncode == 0
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    options = done.stdout.partition("\nOptions:\n")[2].partition("\nCommands:\n")[0]
    for entry in re.split(r"\n(?=  --)", f"\n{options}")[1:]:
        names, _, text = entry.strip().partition("  ")
        text = text or entry.partition("\n")[2]
        assert text.strip().endswith((".", "]")), names


def test_help_has_a_short_option_too(shell: Shell) -> None:
    assert shell.run("-h").stdout == shell.run("--help").stdout
    assert shell.run("send", "-h").stdout == shell.run("send", "--help").stdout


def test_a_setting_that_is_no_option_is_told_with_the_ways_to_give_it(shell: Shell) -> None:
    done = shell.run("--turn-timeout", "2h")
    assert done.returncode == 2
    assert "UNBROKEN_TURN_TIMEOUT=… in the environment, or turn_timeout = … in" in done.stderr
    assert "No such option '--prot'. (Did you mean" in shell.run("--prot", "1").stderr


# health


def test_health_is_good_while_the_server_accepts_work(shell: Shell, server: RunningServer) -> None:
    done = shell.run("health", "--port", port_of(server))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    assert shell.run("health", UNBROKEN_PORT=port_of(server)).returncode == 0


def test_health_of_no_server_is_bad(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    done = shell.run("health", "--port", port)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: No server answers at http://127.0.0.1:{port}/: ")


def test_health_asks_a_server_of_all_addresses_with_https_under_a_path(
    shell: Shell, tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("unbroken.test")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    settings = {"host": "0.0.0.0", "cert": str(cert), "key": str(key), "base_path": "/chat/"}
    with running_server(tmp_path, **settings) as server:
        port = server.url.partition("?")[0].strip("/").rpartition(":")[2].partition("/")[0]
        variables = {f"UNBROKEN_{name.upper()}": value for name, value in settings.items()}
        done = shell.run("health", "--port", port, **variables)
        assert server.url.partition("?")[0].endswith(f":{port}/chat/")  # what people open
    assert (done.returncode, done.stderr) == (0, "")


def test_a_certificate_without_its_key_is_told_of(shell: Shell, tmp_path: Path) -> None:
    trustme.CA().issue_cert("unbroken.test").cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    done = shell.run("--port", "0", "--cert", str(tmp_path / "cert.pem"))
    assert done.returncode == 1
    assert "is alone: --key names the file of its private key" in done.stderr


@pytest.mark.parametrize(("status", "good"), [(200, True), (503, False), (404, False)])
def test_health_is_good_only_if_the_server_says_so(status: int, good: bool) -> None:
    """503: it is shutting down. Something else may have the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{other.server_port}/"
        if good:
            health.ask(url)
        else:
            with pytest.raises(UnavailableError, match=f"it answered {status}"):
                health.ask(url)
        thread.join(SECONDS)


# backup


def post(server: RunningServer, thread: str, text: str) -> None:
    body = {"id": f"message-{thread}", "parts": [{"type": "text", "text": text}]}
    request = urllib.request.Request(
        f"{server.url}/api/threads/{thread}/messages",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        assert response.status == 202


def test_backup_of_a_running_server_can_be_served(
    shell: Shell, server: RunningServer, tmp_path: Path
) -> None:
    """All that is committed is in one file; put into a data folder it is that server's copy."""
    post(server, "thread-backup", "long 60")
    copy = tmp_path / "restored" / "data" / "unbroken.db"
    copy.parent.mkdir(parents=True)
    done = shell.run("backup", str(copy), "--data", str(server.data))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{copy}: ")
    assert [path.name for path in copy.parent.iterdir()] == ["unbroken.db"]
    assert copy.stat().st_mode & 0o777 == 0o600
    with running_server(tmp_path / "restored") as restored:
        url = f"{restored.url}/api/threads/thread-backup"
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            messages = json.load(response)["messages"]
    assert messages[0]["parts"][0]["text"] == "long 60"
    assert messages[1]["turn"]["state"] == "running"


def test_backup_never_writes_over_a_file(shell: Shell, server: RunningServer) -> None:
    (shell.folder / "precious").write_text("mine")
    done = shell.run("backup", "precious", "--data", str(server.data))
    assert done.returncode == 1
    assert done.stderr == "Error: precious exists already\n"
    assert (shell.folder / "precious").read_text() == "mine"


def test_backup_of_no_database_says_so(shell: Shell) -> None:
    done = shell.run("backup", "copy.db", "--data", "nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: There is no database at ")


def test_backup_into_no_folder_says_so(shell: Shell, server: RunningServer) -> None:
    done = shell.run("backup", "none/copy.db", "--data", str(server.data))
    assert done.returncode == 1
    assert done.stderr == "Error: There is no folder none for the copy; make it first\n"


def test_backup_that_fails_leaves_nothing(tmp_path: Path) -> None:
    from store.errors import StoreUnavailableError

    (tmp_path / "unbroken.db").write_bytes(b"SQLite format 3\0" + os.urandom(8192))
    with pytest.raises(StoreUnavailableError, match="cannot be copied"):
        back_up(tmp_path / "unbroken.db", tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["unbroken.db"]
    with pytest.raises(StoreUnavailableError, match=r"copy\.db: No such file or directory$"):
        back_up(tmp_path / "unbroken.db", tmp_path / "no" / "folder" / "copy.db")


# licenses


def test_licences_of_all_that_is_inside_are_printed(shell: Shell) -> None:
    done = shell.run("licenses")
    assert "licenses --full" in done.stderr
    short = done.stdout.splitlines()
    assert short[0] == "unbroken 0.1.0: MIT"
    names = {line.split()[0].lower() for line in short}
    assert {"trio", "sqlalchemy", "quart", "hypercorn", "click"} <= names
    full = shell.run("licenses", "--full").stdout
    assert "Permission is hereby granted, free of charge" in full
    assert full.startswith("\n".join(short))
