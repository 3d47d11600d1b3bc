"""A client that survives its server: sends, follows, resumes after its last id."""

import json
from contextlib import suppress
from typing import Any

import httpx2
import trio

from app import events as ev
from app.message import Fold
from tests.crash.server import PATIENCE_SECONDS, RunningServer

# What a request raises whose server was killed: refused, reset, or cut in the middle.
Broken = httpx2.TransportError


def new_http() -> httpx2.AsyncClient:
    """Streams may be silent for a while; nothing else takes long."""
    return httpx2.AsyncClient(timeout=PATIENCE_SECONDS, trust_env=False)


class Turn:
    """One message and its answer, as its client sees them."""

    def __init__(self, server: RunningServer, name: str, text: str) -> None:
        self.thread = f"thread-{name}"
        self.message = f"message-{name}"
        self.text = text
        self.stream = ""  # "" until the message was acknowledged
        self.frames: list[tuple[str, bytes]] = []  # ids with their events, complete ones only
        self.size = 0  # bytes of the events
        self.comments: list[str] = []
        self.acknowledged = trio.Event()
        self._server = server
        self._news = trio.Event()  # swapped at each frame and each comment

    # sending

    async def send(self, http: httpx2.AsyncClient) -> None:
        """Raises Broken."""
        body = {"id": self.message, "parts": [{"type": "text", "text": self.text}]}
        url = f"{self._server.url}/api/threads/{self.thread}/messages"
        response = await http.post(url, json=body)
        assert response.status_code == 202, response.text
        self.stream = response.json()["stream"]
        self.acknowledged.set()

    # following

    async def follow(self, http: httpx2.AsyncClient) -> None:
        """On one connection, until the server ends it. Raises Broken."""
        after = {"Last-Event-ID": self.frames[-1][0]} if self.frames else {}
        url = f"{self._server.url}/api/streams/{self.stream}"
        async with http.stream("GET", url, headers=after) as response:
            assert response.status_code == 200
            rest = b""
            async for piece in response.aiter_raw():
                *complete, rest = (rest + piece).split(b"\n\n")
                for frame in complete:
                    self._take(frame)

    async def follow_as_far_as_it_lives(self, http: httpx2.AsyncClient) -> None:
        """The same for a server that will be killed."""
        with suppress(Broken):
            await self.follow(http)

    async def finish(self, http: httpx2.AsyncClient) -> None:
        """Go on as a client does: send again what was not acknowledged, follow to the outcome."""
        with trio.fail_after(PATIENCE_SECONDS):
            if not self.stream:
                await self.send(http)
            while not self.ended:
                await self.follow(http)

    def _take(self, frame: bytes) -> None:
        if frame.startswith(b":"):
            self.comments.append(frame[1:].decode().strip())
        else:
            head, _, event = frame.partition(b"\ndata: ")
            assert head.startswith(b"id: "), frame
            self.frames.append((head.removeprefix(b"id: ").decode(), event))
            self.size += len(event)
        news, self._news = self._news, trio.Event()
        news.set()

    async def until(
        self, *, frames: int = 0, size: int = 0, kind: str = "", comment: str = ""
    ) -> None:
        """Wait until the follower has seen so many frames, so many bytes of events, an event of
        this kind, this comment. Raises trio.TooSlowError after PATIENCE_SECONDS."""
        with trio.fail_after(PATIENCE_SECONDS):
            while not (
                len(self.frames) >= frames
                and self.size >= size
                and (not kind or kind in self.kinds)
                and (not comment or comment in self.comments)
            ):
                await self._news.wait()

    # what it knows

    @property
    def kinds(self) -> list[str]:
        return [json.loads(event)["type"] for _, event in self.frames]

    @property
    def ended(self) -> bool:
        return bool(self.frames) and self.kinds[-1] == "outcome"

    @property
    def outcome(self) -> dict[str, Any]:
        assert self.ended, self.kinds[-3:]
        found: dict[str, Any] = json.loads(self.frames[-1][1])
        return found

    def fold(self) -> Fold:
        fold = Fold()
        for _, event in self.frames:
            fold.apply(ev.decode(event))
        return fold

    # comparing with the server

    async def whole(self, http: httpx2.AsyncClient) -> "Turn":
        """The log from its first event on, as somebody sees it who comes now."""
        other = Turn(self._server, "", "")
        other.stream = self.stream
        await other.follow(http)
        return other

    async def snapshot(self, http: httpx2.AsyncClient) -> Any:
        response = await http.get(f"{self._server.url}/api/threads/{self.thread}")
        assert response.status_code == 200, response.text
        return response.json()
