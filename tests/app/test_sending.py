"""`unbroken send`: a turn without a browser, whose answer survives what happens on the way."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

from app.events import AnyEvent
from app.remote import PATIENCE_SECONDS, Remote, RemoteError
from app.sending import Errand, carry_out, new_id
from tests.crash.server import RunningServer, running_server

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path, model="bench", grace="0") as server:
        yield server


def start(server: RunningServer, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "app", "send", "--server", server.url, *arguments],
        cwd=server.data,
        env={"HOME": str(server.data), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def thread_of(err: str) -> str:
    found = re.search(r"\[thread (\S+)\]\n$", err)
    assert found, err
    return found[1]


def messages(server: RunningServer, thread: str) -> list[dict[str, Any]]:
    url = f"{server.url}/api/threads/{thread}"
    with urllib.request.urlopen(url, timeout=SECONDS) as response:
        found: list[dict[str, Any]] = json.load(response)["messages"]
        return found


def text_of(message: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in message["parts"] if part["type"] == "text")


@pytest.mark.requirement("T6")
def test_a_turn_starts_without_a_browser_and_the_thread_goes_on(server: RunningServer) -> None:
    process = start(server, "m=3 size=40")
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    thread = thread_of(err)
    question, answer = messages(server, thread)
    assert text_of(question) == "m=3 size=40"
    assert out == f"{text_of(answer)}\n"
    assert answer["turn"]["outcome"]["outcome"] == "finished"

    process = start(server, "-", "--thread", thread, "--live")
    out, err = process.communicate("m=1 size=40", timeout=SECONDS)
    assert process.returncode == 0, err
    *_, question, answer = messages(server, thread)
    assert (text_of(question), f"{text_of(answer)}\n") == ("m=1 size=40", out)
    assert len(messages(server, thread)) == 4


@pytest.mark.requirement("T6", "R1")
def test_the_answer_goes_on_when_the_server_is_killed_and_started_again(
    server: RunningServer,
) -> None:
    """What is printed is the log's text, each word once, whatever was withdrawn."""
    process = start(server, "m=300 rate=100 size=40", "--live")
    assert process.stdout is not None
    shown = process.stdout.read(2000)
    server.kill9()
    server.start()
    rest, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    answer = messages(server, thread_of(err))[1]
    assert answer["turn"]["outcome"]["outcome"] == "finished"
    assert re.findall(r"~(\d{6}):", text_of(answer)) == [f"{n:06}" for n in range(300)]
    whole = f"{text_of(answer)}\n"
    assert (shown + rest).endswith(whole)


def test_ctrl_c_stops_the_answer_and_what_was_said_stays(server: RunningServer) -> None:
    process = start(server, "m=100000 rate=100 size=40", "--live")
    assert process.stdout is not None
    process.stdout.read(500)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    answer = messages(server, thread_of(err))[1]
    assert answer["turn"]["outcome"]["outcome"] == "cancelled"
    assert len(text_of(answer)) >= 500


def test_a_model_that_fails_is_exit_code_1_and_a_sentence(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        process = start(server, "fail")
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 1
        outcome = messages(server, thread_of(err))[1]["turn"]["outcome"]
    assert outcome["text"] in err
    assert "\n" in out


def test_a_server_that_asks_for_a_token_gets_the_one_it_made(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("0123456789abcdefghijklmnop\n")
    token_file.chmod(0o600)
    with running_server(tmp_path, token_file=str(token_file)) as server:
        server.url, link = server.url.partition("?")[0].rstrip("/"), server.url
        refused = start(server, "echo hello")
        _, err = refused.communicate(timeout=SECONDS)
        assert (refused.returncode, err.count("\n")) == (1, 1)
        assert err.startswith("Error: The server asks for its access token")
        for arguments, variables in (
            (["--server", link], {}),
            ([], {"UNBROKEN_TOKEN": "0123456789abcdefghijklmnop"}),
        ):
            process = start(server, "echo hello", *arguments, **variables)
            assert process.communicate(timeout=SECONDS)[0] == "hello\n"
        port = server.url.rpartition(":")[2]
        local = ["--port", port, "--token-file", str(token_file)]
        done = subprocess.run(
            [sys.executable, "-m", "app", "send", "echo here", *local],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.stdout == "here\n"


@pytest.mark.parametrize("text", ["", " \n\t", "-"])
def test_nothing_to_send_is_said_before_anybody_is_asked(tmp_path: Path, text: str) -> None:
    done = send(tmp_path, text, "--server", "http://127.0.0.1:9")
    assert done.returncode == 2
    what = b"The standard input" if text == "-" else b"TEXT"
    assert done.stderr.endswith(b"Error: " + what + b" is empty: there is nothing to send.\n")


@pytest.mark.parametrize(("text", "given"), [(b"\xff", b""), (b"-", b"caf\xe9")])
def test_what_is_no_text_is_not_sent(tmp_path: Path, text: bytes, given: bytes) -> None:
    done = send(tmp_path, text, "--server", "http://127.0.0.1:9", given=given)
    assert done.returncode == 2
    assert done.stderr.endswith(b" is no text in UTF-8.\n")


@pytest.mark.parametrize("url", ["foo", "127.0.0.1:8137", "ht tp://x", "http://", "http://h:99999"])
def test_what_is_no_address_is_refused_at_once(tmp_path: Path, url: str) -> None:
    done = send(tmp_path, "hello", "--server", url)
    assert done.returncode == 1
    assert done.stderr.startswith(b"Error: That is no address of a server; write one like http")


def test_a_server_that_does_not_run_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = send(tmp_path, "hello", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"Error: No Unbroken answers at http://127.0.0.1:{port}/: nothing listens there. "
        "Start one with `unbroken`, or name it by --server\n"
    )


def test_a_certificate_of_its_own_is_trusted_where_it_is_named(tmp_path: Path) -> None:
    ca, cert, key = certificates(tmp_path)
    with running_server(tmp_path, cert=str(cert), key=str(key)) as server:
        port = server.url.rpartition(":")[2].strip("/")
        url = f"https://localhost:{port}"

        refused = send(tmp_path, "echo hi", "--server", url)
        assert refused.returncode == 1
        assert refused.stderr.startswith(b"Error: The certificate of https://localhost:")
        assert refused.stderr.endswith(b". If it is the right one, --ca FILE names it\n")

        for trusted in (ca, cert):
            done = send(tmp_path, "echo hi", "--server", url, "--ca", str(trusted))
            assert (done.returncode, done.stdout) == (0, b"hi\n"), done.stderr

        other = send(tmp_path, "hi", "--server", f"https://127.0.0.1:{port}", "--ca", str(ca))
        assert other.returncode == 1
        assert b" is for another name: " in other.stderr

        for file, reason in (
            (key, b"holds no certificate"),
            (tmp_path / "none", b"cannot be read"),
        ):
            wrong = send(tmp_path, "hi", "--server", url, "--ca", str(file))
            assert (wrong.returncode, wrong.stderr.count(b"\n")) == (1, 1)
            assert reason in wrong.stderr

        # On its own machine it is known by its settings, whatever name its certificate has.
        done = send(tmp_path, "echo hi", "--port", port, UNBROKEN_CERT=str(cert))
        assert (done.returncode, done.stdout) == (0, b"hi\n"), done.stderr


def test_http_where_only_https_is_spoken_ends_soon(tmp_path: Path) -> None:
    _ca, cert, key = certificates(tmp_path)
    with running_server(tmp_path, cert=str(cert), key=str(key)) as server:
        port = server.url.rpartition(":")[2].strip("/")
        done = send(tmp_path, "hi", "--server", f"http://127.0.0.1:{port}")
        asked = unbroken(tmp_path, "health", "--port", port)
    assert done.returncode == 1
    assert done.stderr.endswith(b"Perhaps it speaks https\n")
    assert asked.returncode == 1
    assert b"Perhaps it speaks https" in asked.stderr


def test_https_where_there_is_none_is_said(server: RunningServer, tmp_path: Path) -> None:
    url = server.url.replace("http:", "https:")
    done = send(tmp_path, "hi", "--server", url)
    assert done.returncode == 1
    assert b" by https: " in done.stderr
    assert done.stderr.endswith(b". Perhaps it speaks http\n")


def send(
    folder: Path, text: str | bytes, *arguments: str, given: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    return unbroken(folder, "send", text, *arguments, given=given, **variables)


def unbroken(
    folder: Path, *arguments: str | bytes, given: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        cwd=folder,
        env={"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | variables,
        input=given,
        capture_output=True,
        timeout=SECONDS,
    )


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Of an authority, of a server called localhost, and that one's key."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    ca, cert, key = (folder / f"{name}.pem" for name in ("ca", "cert", "key"))
    authority.cert_pem.write_to_path(ca)
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    return ca, cert, key


# The client, against a server that misbehaves


class Script:
    """Answers requests by a list of replies; keeps what was asked."""

    def __init__(self, *replies: httpx2.Response | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[httpx2.Request] = []
        self.slept: list[float] = []
        self.told: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return httpx2.Response(reply.status_code, content=reply.content)

    def remote(self, url: str = "http://server.test:8137", token: str | None = None) -> Remote:
        transport = httpx2.MockTransport(self)
        return Remote(
            url, token, waiting=self.told.append, transport=transport, sleep=self.slept.append
        )


def json_reply(status: int = 200, **fields: Any) -> httpx2.Response:
    return httpx2.Response(status, json=fields)


RECEIPT = json_reply(202, thread="thread-1", stream="s1", cursor="s1:0")
END = {"type": "outcome", "outcome": "finished", "code": "FINISHED", "text": "", "retryable": False}
LOST = httpx2.ReadError("connection reset")
REFUSED = httpx2.ConnectError("connection refused")


def poll(cursor: str, *events: dict[str, Any], ended: bool = False) -> httpx2.Response:
    return json_reply(
        events=[{"id": None, "event": event} for event in events], cursor=cursor, ended=ended
    )


def test_a_message_whose_reply_is_lost_is_sent_again_under_the_same_id() -> None:
    script = Script(LOST, json_reply(503, code="SHUTTING_DOWN", message="later"), REFUSED, RECEIPT)
    with script.remote() as remote:
        receipt = remote.send("thread-1", "message-1", "hello", None)
    assert receipt.cursor == "s1:0"
    bodies = {request.content for request in script.requests}
    assert len(script.requests) == 4
    assert {json.loads(body)["id"] for body in bodies} == {"message-1"}
    assert len(bodies) == 1
    assert script.told == ["No Unbroken answers at http://server.test:8137/: connection reset"]


def test_following_goes_on_from_the_last_cursor_after_each_loss() -> None:
    script = Script(
        poll("s1:2", {"type": "start-step"}, {"type": "text-start", "id": "p"}),
        LOST,
        json_reply(502),
        poll("s1:2"),
        poll("s2:1", {"type": "text-delta", "id": "p", "delta": "x"}, {"type": "of-tomorrow"}),
        poll("s2:2", END | {"at": 0}, ended=True),
    )
    with script.remote() as remote:
        events: list[AnyEvent] = list(remote.follow("s1:0"))
    assert [type(event).__name__ for event in events] == [
        "StartStep", "TextStart", "TextDelta", "Outcome",
    ]  # fmt: skip
    asked = [(request.url.path, request.url.params["after"]) for request in script.requests]
    assert asked == [
        ("/api/streams/s1", "s1:0"), ("/api/streams/s1", "s1:2"), ("/api/streams/s1", "s1:2"),
        ("/api/streams/s1", "s1:2"), ("/api/streams/s1", "s1:2"), ("/api/streams/s2", "s2:1"),
    ]  # fmt: skip
    assert script.told == ["The connection to http://server.test:8137/ broke"]


def test_a_server_that_answered_before_is_not_said_to_be_another_thing() -> None:
    gone = httpx2.RemoteProtocolError("Server disconnected without sending a response.")
    script = Script(RECEIPT, gone, poll("s1:2", END | {"at": 0}, ended=True))
    with script.remote() as remote:
        remote.send("thread-1", "message-1", "hello", None)
        list(remote.follow("s1:0"))
    assert script.told == ["The connection to http://server.test:8137/ broke"]


def test_it_gives_up_when_the_server_stays_away() -> None:
    script = Script(RECEIPT, REFUSED)
    with script.remote() as remote:
        remote.send("thread-1", "message-1", "hello", None)
        with pytest.raises(RemoteError, match=r"Nobody answers at .* any more"):
            next(remote.follow("s1:0"))
    assert PATIENCE_SECONDS <= sum(script.slept) <= PATIENCE_SECONDS + 5
    assert max(script.slept) <= 5
    assert script.slept[0] < 0.3


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    script = Script(REFUSED)
    with script.remote() as remote, pytest.raises(RemoteError) as caught:
        remote.send("thread-1", "message-1", "hello", None)
    assert caught.value.code == "UNREACHABLE"
    assert script.slept == []


def test_a_thread_that_is_not_there_is_not_made(server: RunningServer) -> None:
    process = start(server, "Hi", "--thread", "thread-of-a-typo")
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (1, "")
    assert "There is no thread thread-of-a-typo here" in err
    with httpx2.Client(base_url=server.url) as http:
        assert http.get("/api/threads/thread-of-a-typo").status_code == 404


def test_what_speaks_something_else_is_told_of_once() -> None:
    script = Script(httpx2.RemoteProtocolError("illegal status line"))
    with script.remote() as remote, pytest.raises(RemoteError, match="Perhaps it speaks https"):
        remote.send("thread-1", "message-1", "hello", None)
    assert (len(script.requests), script.told) == (3, [])


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (json_reply(404, code="THREAD_NOT_FOUND", message="No such thread"), "THREAD_NOT_FOUND"),
        (httpx2.Response(400, content=b"<html>"), "UNREACHABLE"),
    ],
)
def test_what_is_refused_is_not_asked_again(reply: httpx2.Response, code: str) -> None:
    script = Script(reply)
    with script.remote() as remote, pytest.raises(RemoteError) as caught:
        remote.send("thread-1", "message-1", "hello", None)
    assert caught.value.code == code
    assert len(script.requests) == 1


def test_a_stop_reaches_a_server_that_is_away_for_a_moment() -> None:
    script = Script(RECEIPT, REFUSED, LOST, httpx2.Response(204))
    with script.remote() as remote:
        remote.stop(remote.send("thread-1", "message-1", "hello", None).stream)
    assert [request.method for request in script.requests] == ["POST", "DELETE", "DELETE", "DELETE"]
    assert script.told == ["Nobody answers at http://server.test:8137/ any more"]


def test_events_that_were_pruned_are_an_error() -> None:
    gap = poll("s1:0", {"type": "error", "code": "STREAM_RESUME_GAP", "thread": "t"})
    with Script(gap).remote() as remote, pytest.raises(RemoteError) as caught:
        list(remote.follow("s1:0"))
    assert caught.value.code == "STREAM_RESUME_GAP"


@pytest.mark.parametrize(
    ("url", "token", "path", "sent"),
    [
        ("http://server.test:1", None, "/api/streams/s1", None),
        ("http://server.test:1/?token=of-link", None, "/api/streams/s1", "Bearer of-link"),
        (
            "http://server.test:1/chat/?token=of-link",
            "given",
            "/chat/api/streams/s1",
            "Bearer given",
        ),
        ("http://server.test:1/chat", None, "/chat/api/streams/s1", None),
    ],
)
def test_the_link_that_a_server_prints_leads_to_it(
    url: str, token: str | None, path: str, sent: str | None
) -> None:
    script = Script(poll("s1:1", END | {"at": 0}, ended=True))
    with script.remote(url, token) as remote:
        list(remote.follow("s1:0"))
    (request,) = script.requests
    assert request.url.path == path
    assert request.headers.get("Authorization") == sent
    assert "token" not in request.url.params


def test_ctrl_c_without_the_server_ends_it() -> None:
    class Interrupting(Script):
        def __call__(self, request: httpx2.Request) -> httpx2.Response:
            if request.method == "GET":
                raise KeyboardInterrupt
            if request.method == "DELETE":
                raise REFUSED
            return super().__call__(request)

    script = Interrupting(RECEIPT)
    with script.remote() as remote, pytest.raises(RemoteError):
        carry_out(remote, Errand("hello", None, None, live=True), io.StringIO(), io.StringIO())


def test_ids_are_uuids_that_sort_by_time() -> None:
    ids = [new_id(seconds) for seconds in (1.7e9, 1.7e9 + 1, 1.8e9)]
    assert ids == sorted(ids)
    for id_ in ids:
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-\w{12}", id_)


def test_what_speaks_no_http_is_given_up_soon_unless_it_answered_before() -> None:
    garbled = httpx2.RemoteProtocolError("Server disconnected without sending a response.")
    script = Script(garbled)
    with pytest.raises(RemoteError, match="Perhaps it speaks https"):
        script.remote().send("thread-1", "message-1", "hi", None)
    assert len(script.requests) == 3

    script = Script(RECEIPT, garbled, garbled, garbled, garbled, RECEIPT)
    remote = script.remote()
    for message in ("message-1", "message-2"):
        assert remote.send("thread-1", message, "hi", None).stream == "s1"
