"""What the readers of event streams have in common: framing, and everything that is no event.

A subclass says what an event means. Tolerant by rule: what servers are known to get wrong is
understood, what is unknown is passed over, and only the provider's own word makes an answer
complete.
"""

from collections.abc import Mapping
from typing import Any

from app.models.errors import ModelError
from app.models.faults import from_object
from app.models.interface import Sink
from app.models.json_text import decode
from app.models.sse import EVENT_BYTES, Comment, Decoder, Event, Item, Unknown


class EventReader:
    """Implements http.Reader for one response.

    `complete` is set by `take` when nothing that follows can spoil the answer, `done` when nothing
    more is wanted; neither is ever cleared. `take` sets `spoke` with the first event it knows.
    `event_id` is that of the newest event taken, "" where the server gives none.
    """

    def __init__(self, sink: Sink, *, who: str, secrets: tuple[str, ...] = ()) -> None:
        self.complete = False
        self.done = False
        self.spoke = False
        self.event_id = ""
        self.sink = sink
        self.who = who
        self._secrets = secrets
        self._decoder = Decoder()
        # The body of a server that ignored `stream`; None for an event stream.
        self._whole: bytearray | None = None
        # Set by a line that is no SSE.
        self._strange = False

    # for the subclass

    def take(self, name: str, value: Any) -> bool:
        """One event, decoded. Returns whether it was a sign of the model (not a ping).

        Raises ModelError.
        """
        raise NotImplementedError

    def take_whole(self, value: Any) -> None:
        """The body of a server that answered with JSON instead of a stream. Raises ModelError."""
        self.take("message", value)

    def failed(self, error: Any) -> ModelError:
        """The error that an error object in the stream means."""
        return from_object(error, who=self.who, secrets=self._secrets)

    def garbled(self) -> ModelError:
        text = f"{self.who} sent a frame that is no part of an answer."
        return ModelError(text, code="MODEL_PROTOCOL", retryable=True)

    # Reader

    def opened(self, headers: Mapping[str, str]) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in ("text/html", "application/xhtml+xml"):
            raise self._not_ours("a web page")
        if kind == "application/json":
            self._whole = bytearray()

    def feed(self, data: bytes) -> bool:
        if self._whole is not None:
            self._whole += data
            if len(self._whole) > EVENT_BYTES:
                raise self._not_ours("more than can be an answer")
            return False
        try:
            events = [self._item(item) for item in self._decoder.feed(data)]
        except ModelError:
            if not self.complete:
                raise
            self.done = True
            return False
        return True in events

    def end(self) -> None:
        """The body has ended. Raises ModelError unless the answer is complete."""
        if self._whole is not None:
            self.take_whole(decode(bytes(self._whole), who=self.who))
        elif self._decoder.pending and not self.complete:
            self._last_words()
        if not self.complete:
            if self._strange and not self.spoke:
                raise self._not_ours("something that is no event stream")
            text = f"{self.who} ended the answer before it was complete."
            raise ModelError(text, code="MODEL_EOF", retryable=True)

    # frames

    def _item(self, item: Item) -> bool:
        if isinstance(item, Event):
            return self._event(item)
        if isinstance(item, Unknown):
            self._strange = True
            self._unknown(item)
        else:
            assert isinstance(item, Comment)
        return False

    def _event(self, event: Event) -> bool:
        data = event.data.strip()
        if not data:
            return False
        if data == b"[DONE]":
            self.done = True
            return True
        value = decode(data, who=self.who)
        if event.name == "error":
            raise self.failed(value)
        moved = self.take(event.name, value)
        self.event_id = event.id
        return moved

    def _unknown(self, line: Unknown) -> None:
        """Raises what a line that is no SSE says: llama.cpp's `error: {…}`, plain JSON, HTML."""
        if line.field.lstrip()[:1] == b"<":
            raise self._not_ours("a web page")
        text = line.value if line.field == b"error" else line.field + b":" + line.value
        try:
            value = decode(text, who=self.who)
        except ModelError:
            return
        if line.field == b"error" or (isinstance(value, dict) and value.get("error")):
            raise self.failed(value)

    def _last_words(self) -> None:
        """A last event that only lacks its empty line is taken, a cut one is not."""
        try:
            for item in self._decoder.feed(b"\n\n"):
                self._item(item)
        except ModelError as exc:
            if exc.code != "MODEL_PROTOCOL":
                raise

    def _not_ours(self, what: str) -> ModelError:
        text = f"{self.who} answered with {what}: check base_url."
        return ModelError(text, code="MODEL_PROTOCOL", retryable=False)


def count(value: Any) -> int | None:
    """A number of tokens; None for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 2**53 else None  # what every reader of JSON can hold
