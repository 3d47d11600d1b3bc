"""Anthropic's Messages, for the tests of every adapter."""

from typing import Any

from app.models import Http, Model
from app.models.anthropic import Anthropic
from tests.app.models.wire import Call, Piece, Wire, sse


def event(kind: str, **members: Any) -> bytes:
    return sse({"type": kind, **members}, kind)


def message(**members: Any) -> dict[str, Any]:
    """A message as `message_start` brings it."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
        **members,
    }


def start(**members: Any) -> bytes:
    return event("message_start", message=message(**members))


def block(index: int, begin: dict[str, Any], *deltas: dict[str, Any], stop: bool = True) -> bytes:
    """A block with its deltas, as frames in a row."""
    frames = [event("content_block_start", index=index, content_block=begin)]
    frames += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*frames, event("content_block_stop", index=index)] if stop else frames)


def text(index: int, *deltas: str) -> bytes:
    return block(
        index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": d} for d in deltas)
    )


def call(index: int, id_: str, name: str, *fragments: str) -> bytes:
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in fragments)
    return block(index, {"type": "tool_use", "id": id_, "name": name, "input": {}}, *deltas)


def stop(reason: str = "end_turn", **usage: int) -> bytes:
    """The last two events."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {"output_tokens": 3, **usage}
    return event("message_delta", delta=delta, usage=usage) + event("message_stop")


class AnthropicWire(Wire):
    name = "anthropic"

    def model(self, http: Http, url: str) -> Model:
        return Anthropic(name="fake", http=http, base_url=url, model="fake", api_key="key-12345678")

    def frames(self, *pieces: Piece, complete: bool = True) -> list[bytes]:
        frames = [start(), self.ping()]
        index, speaking, reason = -1, False, "end_turn"
        for number, piece in enumerate(pieces):
            if isinstance(piece, Call):
                if speaking:
                    frames.append(event("content_block_stop", index=index))
                index, speaking, reason = index + 1, False, "tool_use"
                begin = {"type": "tool_use", "id": f"toolu_{index}", "name": piece.name}
                frames.append(
                    event("content_block_start", index=index, content_block={**begin, "input": {}})
                )
                frames += [
                    event(
                        "content_block_delta",
                        index=index,
                        delta={"type": "input_json_delta", "partial_json": fragment},
                    )
                    for fragment in ("", *piece.fragments)
                ]
                if complete or number < len(pieces) - 1:
                    frames.append(event("content_block_stop", index=index))
                continue
            if not speaking:
                index, speaking = index + 1, True
                begin = {"type": "text", "text": ""}
                frames.append(event("content_block_start", index=index, content_block=begin))
            delta = {"type": "text_delta", "text": piece}
            frames.append(event("content_block_delta", index=index, delta=delta))
        if not complete:
            return frames
        if speaking:
            frames.append(event("content_block_stop", index=index))
        return [*frames, stop(reason)]

    def ping(self) -> bytes:
        return event("ping")

    def overloaded(self) -> bytes:
        error = {"type": "overloaded_error", "message": "Overloaded, sorry"}
        return event("error", error=error)

    def garbled(self) -> bytes:
        return b'event: content_block_delta\ndata: {"type": "content_bl\n\n'

    def refusal(self, message: str) -> Any:
        error = {"type": "some_error", "message": message}
        return {"type": "error", "error": error, "request_id": "req_1"}
