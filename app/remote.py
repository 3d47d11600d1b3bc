"""A running server, as a program talks to it: send a message, follow its answer, stop it.

Following is by long polls (web/PROTOCOL.md): each names the cursor it goes on from, so a lost
connection, a restart of the server and a lost response are one and the same: ask again.
"""

import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import httpx2
import msgspec

from app import events as ev
from app.errors import AppError, UnavailableError

POLL_SECONDS = 25.0
# A poll answers within POLL_SECONDS; what takes longer than this besides is a dead connection.
SLACK_SECONDS = 10.0
CONNECT_SECONDS = 5.0
# Between tries: doubled each time, with jitter, so that many clients do not come back as one.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 5.0
# A server that is started again is back within seconds; a laptop that sleeps does not count.
PATIENCE_SECONDS = 300.0


class RemoteError(AppError):
    """The server refused, or cannot be reached. `code` is the server's, or UNREACHABLE."""


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
        waiting: told why, once each time, when a request has to be made again.
        transport, sleep: for tests.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        waiting: Callable[[str], None] = lambda reason: None,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.url = httpx2.URL(url)
        token = token or self.url.params.get("token")
        self.url = self.url.copy_with(query=None, path=self.url.path.rstrip("/") + "/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        seconds = POLL_SECONDS + SLACK_SECONDS
        self._client = httpx2.Client(
            base_url=self.url,
            headers={"User-Agent": "unbroken", **headers},
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            transport=transport,
            # The server is ours and near; a proxy for the outside world knows no way to it.
            trust_env=False,
        )
        self._waiting = waiting
        self._sleep = sleep
        self._patience = patience

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
        """Stop the turn. One try. Raises RemoteError."""
        try:
            _check(self._client.delete(f"api/streams/{stream}"))
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None

    def _persist(
        self, method: str, path: str, *, first_must_connect: bool = False, **rest: Any
    ) -> httpx2.Response:
        """The response of a request that may be made again, however often that takes."""
        pause, waited = FIRST_PAUSE_SECONDS, 0.0
        while True:
            try:
                headers = {"Accept": "application/json"}
                return _check(self._client.request(method, path, headers=headers, **rest))
            except httpx2.ConnectError as error:
                failure: AppError = self._unreachable(error)
                if first_must_connect:
                    raise failure from None
            except httpx2.HTTPError as error:
                failure = self._unreachable(error)
            except UnavailableError as error:
                failure = error
            first_must_connect = False  # somebody was there
            if waited >= self._patience:
                raise failure
            if not waited:
                self._waiting(failure.text)
            seconds = pause * random.uniform(0.5, 1.0)
            self._sleep(seconds)
            waited += seconds
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _unreachable(self, error: httpx2.HTTPError) -> RemoteError:
        text = f"No Unbroken answers at {self.url}: {error or type(error).__name__}"
        return RemoteError(text, code="UNREACHABLE")


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
