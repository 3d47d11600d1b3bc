"""Bedrock's ConverseStream, for the tests of every adapter: frames written byte by byte."""

import json
import struct
from typing import Any
from zlib import crc32

from app.models import Http, Model
from app.models.bedrock import Bedrock
from app.models.bedrock_keys import Bearer, Fixed
from tests.app.models.wire import Call, Piece, Wire


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One message of the event stream (PROTOCOLS.md, D)."""
    head = b""
    for name, value in headers.items():
        encoded = value.encode()
        head += struct.pack(">B", len(name)) + name.encode() + b"\x07"
        head += struct.pack(">H", len(encoded)) + encoded
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    message = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return message + struct.pack(">I", crc32(message))


def event(kind: str, raw: bytes | None = None, **members: Any) -> bytes:
    """An event; `raw` instead of the JSON of its members."""
    headers = {
        ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return frame(headers, json.dumps({**members, "p": "abcd"}).encode() if raw is None else raw)


def exception(kind: str, **members: Any) -> bytes:
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, json.dumps(members).encode())


def error(code: str, message: str) -> bytes:
    """What no model of the service foresees."""
    return frame({":error-code": code, ":error-message": message, ":message-type": "error"}, b"")


def delta(index: int, **content: Any) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=content)


def stop_block(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def start_call(index: int, id_: str, name: str, **more: str) -> bytes:
    use = {"toolUseId": id_, "name": name, **more}
    return event("contentBlockStart", contentBlockIndex=index, start={"toolUse": use})


def text(index: int, *deltas: str) -> bytes:
    return b"".join([*(delta(index, text=piece) for piece in deltas), stop_block(index)])


def call(index: int, id_: str, name: str, *fragments: str) -> bytes:
    deltas = (delta(index, toolUse={"input": piece}) for piece in fragments)
    return b"".join([start_call(index, id_, name), *deltas, stop_block(index)])


START = event("messageStart", role="assistant")


def stop(reason: str = "end_turn", **usage: int) -> bytes:
    """The last two events."""
    usage = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10, **usage}
    return event("messageStop", stopReason=reason) + event(
        "metadata", usage=usage, metrics={"latencyMs": 5}
    )


class BedrockWire(Wire):
    name = "bedrock"
    kind = "application/vnd.amazon.eventstream"

    def model(self, http: Http, url: str) -> Model:
        return Bedrock(
            name="fake",
            http=http,
            base_url=url,
            model="fake.model-v1:0",
            region="us-east-1",
            source=Fixed(Bearer("key-12345678")),
        )

    def frames(self, *pieces: Piece, complete: bool = True) -> list[bytes]:
        frames = [START]
        index, speaking, reason = -1, False, "end_turn"
        for number, piece in enumerate(pieces):
            if isinstance(piece, Call):
                if speaking:
                    frames.append(stop_block(index))
                index, speaking, reason = index + 1, False, "tool_use"
                frames.append(start_call(index, f"tooluse_{index}", piece.name))
                frames += [delta(index, toolUse={"input": text}) for text in piece.fragments]
                if complete or number < len(pieces) - 1:
                    frames.append(stop_block(index))
                continue
            if not speaking:
                index, speaking = index + 1, True
            frames.append(delta(index, text=piece))
        if not complete:
            return frames
        if speaking:
            frames.append(stop_block(index))
        return [*frames, stop(reason)]

    def ping(self) -> bytes:
        """The wire has none; what it has is room for events that we do not know."""
        return event("somethingNew")

    def overloaded(self) -> bytes:
        return exception("serviceUnavailableException", message="Overloaded, sorry")

    def garbled(self) -> bytes:
        return event("contentBlockDelta", raw=b'{"contentBlockIn')

    def refusal(self, message: str) -> Any:
        return {"message": message}
