"""A running server, as a program talks to it: send a message, follow its answer, stop it.

Following is by long polls (web/PROTOCOL.md): each names the cursor it goes on from, so a lost
connection, a restart of the server and a lost response are one and the same: ask again.
"""

import random
import ssl
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec

from app import events as ev
from app.errors import AppError, InvalidError, UnavailableError

POLL_SECONDS = 25.0
# A poll answers within POLL_SECONDS; what takes longer than this besides is a dead connection.
SLACK_SECONDS = 10.0
CONNECT_SECONDS = 5.0
# Between tries: doubled each time, with jitter, so that many clients do not come back as one.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 5.0
# Answers that are no HTTP, one after the other and before any that was, of what is no Unbroken. One
# alone is that of a server that ends.
GARBLED_ANSWERS = 3
# A server that is started again is back within seconds; a laptop that sleeps does not count.
PATIENCE_SECONDS = 300.0


class RemoteError(AppError):
    """The server refused, or cannot be reached. `code` is the server's, or UNREACHABLE."""


def trusting(file: Path, *, any_name: bool = False) -> ssl.SSLContext:
    """Trusts the certificates in that PEM file, what they have signed, and nothing else.

    Args:
        any_name: the server's may be for another name than the one it is called by here.

    Raises InvalidError (CONFIG_INVALID) for a file that holds no certificate.
    """
    try:
        context = ssl.create_default_context(cafile=file)
    except ssl.SSLError:
        text = f"{file} holds no certificate (PEM)"
        raise InvalidError(text, code="CONFIG_INVALID") from None
    except OSError as error:
        text = f"{file} cannot be read: {error.strerror}"
        raise InvalidError(text, code="CONFIG_INVALID") from None
    # A server's own certificate is enough, also where another one has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = not any_name
    return context


class Receipt(msgspec.Struct, frozen=True):
    """The server has the message."""

    thread: str
    stream: str
    cursor: str


class _Entry(msgspec.Struct, frozen=True):
    event: msgspec.Raw


class _Poll(msgspec.Struct, frozen=True):
    events: list[_Entry]
    cursor: str
    ended: bool


class Remote:
    """Use as a context manager. All methods block.

    Args:
        url: where the server is, or the link that it prints, with the token in it.
        token: for a server that asks for one; None: that of the link, if any.
        tls: which certificates are trusted, from `trusting`; None: those that this system trusts.
        waiting: told why, once each time, when a request has to be made again.
        transport, sleep: for tests.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        waiting: Callable[[str], None] = lambda reason: None,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.url = _address(url)
        token = token or self.url.params.get("token")
        self.url = self.url.copy_with(query=None, path=self.url.path.rstrip("/") + "/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        seconds = POLL_SECONDS + SLACK_SECONDS
        self._client = httpx2.Client(
            base_url=self.url,
            headers={"User-Agent": "unbroken", **headers},
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            transport=transport,
            verify=True if tls is None else tls,
            # The server is ours and near; a proxy for the outside world knows no way to it.
            trust_env=False,
        )
        self._waiting = waiting
        self._sleep = sleep
        self._patience = patience
        self._answered = False  # an Unbroken was there before: no need to guess what is

    def __enter__(self) -> "Remote":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, thread: str, message: str, text: str, model: str | None) -> Receipt:
        """Send a message, once, however often the connection breaks: its id is `message`.

        Raises RemoteError; UNREACHABLE if nobody answers the first try.
        """
        body = {"id": message, "parts": [{"type": "text", "text": text}], "model": model}
        path = f"api/threads/{thread}/messages"
        response = self._persist("POST", path, first_must_connect=True, json=body)
        return msgspec.json.decode(response.content, type=Receipt)

    def check_thread(self, thread: str) -> None:
        """Raises RemoteError; THREAD_NOT_FOUND where there is none of that id."""
        try:
            self._persist("GET", f"api/threads/{quote(thread, safe='')}", first_must_connect=True)
        except RemoteError as error:
            if error.code != "THREAD_NOT_FOUND":
                raise
            text = f"There is no thread {thread} here: without --thread a new one is begun"
            raise RemoteError(text, code=error.code) from None

    def follow(self, cursor: str) -> "Following":
        """The events after the cursor, each once, to the outcome."""
        return Following(self, cursor)

    def poll(self, cursor: str) -> "_Poll":
        """What comes after the cursor; waits for it, also for the server. Raises RemoteError."""
        params = {"after": cursor, "wait": POLL_SECONDS}
        path = f"api/streams/{cursor.partition(':')[0]}"
        response = self._persist("GET", path, params=params)
        return msgspec.json.decode(response.content, type=_Poll)

    def stop(self, stream: str) -> None:
        """Stop the turn; waits for the server, which would go on with it. Raises RemoteError, or
        UnavailableError after PATIENCE_SECONDS without it."""
        self._persist("DELETE", f"api/streams/{stream}")

    def _persist(
        self, method: str, path: str, *, first_must_connect: bool = False, **rest: Any
    ) -> httpx2.Response:
        """The response of a request that may be made again, however often that takes."""
        pause, waited, garbled, told = FIRST_PAUSE_SECONDS, 0.0, 0, False
        while True:
            try:
                headers = {"Accept": "application/json"}
                response = _check(self._client.request(method, path, headers=headers, **rest))
                self._answered = True
                return response
            except httpx2.ConnectError as error:
                failure: AppError = self._unreachable(error)
                if first_must_connect:
                    raise failure from None
            except httpx2.HTTPError as error:
                failure = self._unreachable(error)
                garbled = garbled + 1 if isinstance(error, httpx2.RemoteProtocolError) else 0
                if garbled == GARBLED_ANSWERS and not self._answered:
                    raise failure from None
            except UnavailableError as error:
                failure = error
            first_must_connect = False  # somebody was there
            if waited >= self._patience:
                raise failure
            # What may be no Unbroken at all is not waited for, but asked once or twice more.
            if not told and (self._answered or not garbled):
                self._waiting(failure.text)
                told = True
            seconds = pause * random.uniform(0.5, 1.0)
            self._sleep(seconds)
            waited += seconds
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _unreachable(self, error: httpx2.HTTPError) -> RemoteError:
        say = _broken if self._answered else _unreachable
        return RemoteError(say(self.url, error), code="UNREACHABLE")


class Following:
    """Iterates over events. Unlike a generator it goes on after a KeyboardInterrupt."""

    def __init__(self, remote: Remote, cursor: str) -> None:
        self._remote = remote
        self._cursor = cursor
        self._ended = False  # set when the outcome is among `_found` or was before it
        self._found: deque[msgspec.Raw] = deque()

    def __iter__(self) -> "Following":
        return self

    def __next__(self) -> ev.AnyEvent:
        """Raises RemoteError, or UnavailableError after PATIENCE_SECONDS without the server."""
        while True:
            while not self._found:
                if self._ended:
                    raise StopIteration
                poll = self._remote.poll(self._cursor)
                self._found.extend(entry.event for entry in poll.events)
                self._cursor, self._ended = poll.cursor, poll.ended
            event = _event(bytes(self._found.popleft()))
            if event is not None:
                return event


def _address(url: str) -> httpx2.URL:
    """Raises InvalidError (CONFIG_INVALID)."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        parsed = httpx2.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host or (parsed.port or 1) > 65535:
        # Not shown: a token may be in it.
        text = "That is no address of a server; write one like http://127.0.0.1:8137"
        raise InvalidError(text, code="CONFIG_INVALID")
    return parsed


def _unreachable(url: httpx2.URL, error: httpx2.HTTPError) -> str:
    """A sentence that says what to do about it, where that is known."""
    nobody = f"No Unbroken answers at {url}"
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in _OTHER_NAME:
            return f"The certificate of {url} is for another name: {cause.verify_message}"
        text = f"The certificate of {url} is not trusted here: {cause.verify_message}"
        return f"{text}. If it is the right one, --ca FILE names it"
    if isinstance(cause, ssl.SSLError):
        return f"{nobody} by https: {cause.reason or cause}. Perhaps it speaks http"
    if isinstance(cause, ConnectionRefusedError):
        return f"{nobody}: nothing listens there. Start one with `unbroken`, or name it by --server"
    if isinstance(error, httpx2.ConnectTimeout):
        return f"{nobody} within {CONNECT_SECONDS:g} seconds"
    if isinstance(error, httpx2.RemoteProtocolError) and url.scheme == "http":
        return f"{nobody}: {error} Perhaps it speaks https"
    return f"{nobody}: {error or type(error).__name__}"


def _broken(url: httpx2.URL, error: httpx2.HTTPError) -> str:
    """The same of a server that answered before."""
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return f"Nobody answers at {url} any more"
    return f"The connection to {url} broke"


# Of OpenSSL's verification: the certificate is good, and for somebody else.
_OTHER_NAME = (62, 63, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, EMAIL_, IP_ADDRESS_


def _cause(error: BaseException) -> BaseException:
    """The first one: what the system said, below what libraries made of it."""
    while below := error.__cause__ or error.__context__:
        error = below
    return error


class _Refusal(msgspec.Struct, frozen=True):
    code: str
    message: str


def _check(response: httpx2.Response) -> httpx2.Response:
    """Raises UnavailableError where the same request may work later, else RemoteError."""
    if response.is_success:
        return response
    status = response.status_code
    try:
        refusal = msgspec.json.decode(response.content, type=_Refusal)
    except msgspec.DecodeError:
        # Of a proxy before it; 502 to 504 are how those say that the server is away.
        refusal = _Refusal("UNREACHABLE", f"The server answered {status}")
    if status == 401:
        # The server speaks of a link to open: to a person with a browser.
        text = "The server asks for its access token: --server LINK, or UNBROKEN_TOKEN"
        raise RemoteError(text, code=refusal.code)
    if status in (502, 503, 504):
        raise UnavailableError(refusal.message, code=refusal.code)
    raise RemoteError(refusal.message, code=refusal.code)


def _event(data: bytes) -> ev.AnyEvent | None:
    """None for a type of a newer server, which is to be ignored. Raises RemoteError."""
    try:
        return ev.decode(data)
    except msgspec.ValidationError:
        fields = msgspec.json.decode(data)
        if fields.get("type") != "error":
            return None
        text = "The server has not kept the events of this answer"
        raise RemoteError(text, code=str(fields.get("code", "INTERNAL"))) from None
