"""Server-sent events from bytes (WHATWG HTML, section 9.2), for providers of all kinds.

Our own, because the line splitters of HTTP libraries cut at U+2028 and U+0085, which JSON may
contain raw, and because comments, empty frames and lines that are no SSE at all carry news here:
pings, and errors of servers that do not know better. Data stays bytes: JSON decoders want those,
and a UTF-8 sequence cut by the network is whole again when its line is.
"""

from dataclasses import dataclass

from app.models.errors import ModelError

# A whole response with its reasoning in one event is below 1 MB; 10 MB is a tested case.
EVENT_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """A dispatched event. `name` is "message" where the server gave none; `data` may be empty.

    `id`: the newest id the stream had by then, "" if none: where it can be resumed.
    """

    name: str
    data: bytes
    id: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A line that begins with a colon, without it and one space."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Unknown:
    """A line that is no SSE field. `field` is what stands before the first colon."""

    field: bytes
    value: bytes


Item = Event | Comment | Unknown


class Decoder:
    """Feed it pieces as they come; any cut gives the same items."""

    def __init__(self, *, limit: int = EVENT_BYTES) -> None:
        self._limit = limit
        self._started = False
        # The unfinished line, in the pieces it came in, and their length.
        self._pieces: list[bytes] = []
        self._length = 0
        # Set when a piece ended with CR: an LF that follows belongs to it.
        self._skip_lf = False
        # The unfinished event. `_named` and `_data` are cleared by dispatch.
        self._name = ""
        self._id = ""  # kept from event to event
        self._data: list[bytes] = []
        self._data_length = 0

    @property
    def pending(self) -> bool:
        """Whether an event has begun that the stream has not ended: it was cut short."""
        return bool(self._length or self._data)

    def feed(self, piece: bytes) -> list[Item]:
        """The items that are complete now.

        Raises ModelError (MODEL_PROTOCOL) for an event above the limit.
        """
        if self._skip_lf and piece:
            self._skip_lf = False
            if piece[0] == 0x0A:
                piece = piece[1:]
        if b"\n" not in piece and b"\r" not in piece:
            self._keep(piece)
            return []
        whole = b"".join((*self._pieces, piece))
        self._pieces.clear()
        self._length = 0
        if b"\r" in whole:
            self._skip_lf = whole.endswith(b"\r")
            whole = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = whole.split(b"\n")
        items: list[Item] = []
        for line in lines:
            self._line(line, items)
        self._keep(rest)
        return items

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)
            self._check()

    def _line(self, line: bytes, items: list[Item]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                items.append(Event(self._name or "message", b"\n".join(self._data), self._id))
                self._data = []
                self._data_length = 0
            self._name = ""
            return
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
            self._data_length += len(value) + 1
            self._check()
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif not field:
            items.append(Comment(value))
        elif field != b"retry":
            items.append(Unknown(field, value))

    def _check(self) -> None:
        if self._length + self._data_length > self._limit:
            text = f"The model server sent an event of more than {self._limit} bytes."
            raise ModelError(text, code="MODEL_PROTOCOL", retryable=False)
