"""OpenAI's Responses, for the tests of every adapter, and a server that keeps what it says."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trio

from app.models import Http, Model
from app.models.responses import Responses
from tests.app.models.fake_provider import END, FIN, Exchange, FakeProvider, Step, head, part, reply
from tests.app.models.wire import Call, Piece, Wire, sse

Event = dict[str, Any]


def response(status: str = "in_progress", **members: Any) -> dict[str, Any]:
    """A response object as OpenAI sends it."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "fake",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
        **members,
    }


USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 10,
}


class Script:
    """The events of a response, numbered, item by item."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.output: list[dict[str, Any]] = []
        self.add("response.created", response=response("queued"))
        self.add("response.in_progress", response=response())

    def add(self, kind: str, **members: Any) -> None:
        self.events.append({"type": kind, "sequence_number": len(self.events), **members})

    def text(self, *deltas: str, done: bool = True, refusal: bool = False) -> "Script":
        """A message of one part. Not `done`: it stops behind the last delta."""
        name = "refusal" if refusal else "text"
        kind = "refusal" if refusal else "output_text"
        whole = "".join(deltas)
        extra = {} if refusal else {"annotations": [], "logprobs": []}
        item = self._begin({"type": "message", "role": "assistant", "content": []}, "msg")
        place = {"item_id": item["id"], "output_index": len(self.output), "content_index": 0}
        empty = {"type": kind, name: "", **extra}
        self.add("response.content_part.added", **place, part=empty)
        logs = {} if refusal else {"logprobs": []}
        for delta in deltas:
            self.add(f"response.{kind}.delta", **place, delta=delta, **logs)
        if done:
            content = {**empty, name: whole}
            self.add(f"response.{kind}.done", **place, **{name: whole}, **logs)
            self.add("response.content_part.done", **place, part=content)
            self._end({**item, "content": [content]})
        return self

    def thought(self, *summaries: Sequence[str], encrypted: str | None = "s3cret") -> "Script":
        """Reasoning with a summary in parts, each of some deltas."""
        item = self._begin({"type": "reasoning", "summary": []}, "rs", status=False)
        place = {"item_id": item["id"], "output_index": len(self.output)}
        parts = []
        for index, deltas in enumerate(summaries):
            at, whole = {**place, "summary_index": index}, "".join(deltas)
            empty = {"type": "summary_text", "text": ""}
            self.add("response.reasoning_summary_part.added", **at, part=empty)
            for delta in deltas:
                self.add("response.reasoning_summary_text.delta", **at, delta=delta)
            self.add("response.reasoning_summary_text.done", **at, text=whole)
            parts.append({**empty, "text": whole})
            self.add("response.reasoning_summary_part.done", **at, part=parts[-1])
        self._end({**item, "summary": parts, "encrypted_content": encrypted})
        return self

    def call(
        self, name: str, *fragments: str, call_id: str | None = None, done: bool = True
    ) -> "Script":
        call_id = call_id or f"call_{len(self.output)}"
        made = {"type": "function_call", "name": name, "call_id": call_id, "arguments": ""}
        item, whole = self._begin(made, "fc"), "".join(fragments)
        place = {"item_id": item["id"], "output_index": len(self.output)}
        for fragment in fragments:
            self.add("response.function_call_arguments.delta", **place, delta=fragment)
        if done:
            self.add("response.function_call_arguments.done", **place, arguments=whole)
            self._end({**item, "arguments": whole})
        return self

    def end(self, status: str = "completed", **members: Any) -> "Script":
        members = {"output": self.output, "usage": USAGE, **members}
        self.add(f"response.{status}", response=response(status, **members))
        return self

    def _begin(self, item: dict[str, Any], prefix: str, *, status: bool = True) -> dict[str, Any]:
        item = {"id": f"{prefix}_{len(self.output)}", **item}
        if status:
            item["status"] = "in_progress"
        self.add("response.output_item.added", output_index=len(self.output), item=item)
        return item

    def _end(self, item: dict[str, Any]) -> None:
        item = {**item, "status": "completed"} if "status" in item else item
        self.add("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)


def frames(events: Iterable[Event]) -> list[bytes]:
    return [sse(event, event["type"]) for event in events]


@dataclass
class Kept:
    """A response that the server keeps. `cuts`: after how many events each connection breaks."""

    script: Script
    cuts: list[int] = field(default_factory=list)
    cancelled: trio.Event = field(default_factory=trio.Event)

    @property
    def whole(self) -> dict[str, Any]:
        """As it is at its end."""
        last = self.script.events[-1].get("response")
        return last if isinstance(last, dict) else response("in_progress")


class KeepingServer:
    """Plays background mode: streams, drops, resumes after a number, is polled and cancelled.

    `statuses`: what a poll answers before the end, one each. `refuses`: whether a stream can no
    longer be resumed, as OpenAI says when it is five minutes old.
    """

    def __init__(self, provider: FakeProvider) -> None:
        self.kept: dict[str, Kept] = {}
        self.statuses: list[str] = []
        self.refuses = False
        self.forgets = False
        self._next: list[Kept] = []
        provider.aside = self._answer

    def keep(self, script: Script, *cuts: int) -> Kept:
        kept = Kept(script, list(cuts))
        self._next.append(kept)
        return kept

    def _answer(self, exchange: Exchange) -> list[Step] | None:
        url = urlsplit(exchange.path)
        query = parse_qs(url.query)
        _, _, name = url.path.partition("/responses/")
        id_, _, verb = name.partition("/")
        if exchange.method == "POST" and not id_:
            return self._create()
        if id_ not in self.kept or self.forgets:
            return reply(404, {"error": {"message": f"Response with id '{id_}' not found."}})
        kept = self.kept[id_]
        if verb == "cancel":
            kept.cancelled.set()
            return reply(200, {**response("cancelled"), "id": id_})
        if "stream" not in query:
            status = self.statuses.pop(0) if self.statuses else None
            return reply(200, {**(response(status) if status else kept.whole), "id": id_})
        if self.refuses:
            text = "This response can no longer be streamed because it is more than 5 minutes old."
            return reply(400, {"error": {"message": text, "type": "invalid_request_error"}})
        return self._stream(kept, after=int(query["starting_after"][0]))

    def _create(self) -> list[Step] | None:
        if not self._next:
            return None
        kept = self._next.pop(0)
        id_ = f"resp_{len(self.kept) + 1}"
        self.kept[id_] = kept
        text = json.dumps(kept.script.events).replace('"resp_1"', f'"{id_}"')
        kept.script.events = json.loads(text)
        return self._stream(kept, after=-1)

    def _stream(self, kept: Kept, *, after: int) -> list[Step]:
        events = [event for event in kept.script.events if event["sequence_number"] > after]
        sent = map(part, frames(events))
        if kept.cuts:
            return [head(), *list(sent)[: kept.cuts.pop(0)], FIN]
        return [head(), *sent, END]


class ResponsesWire(Wire):
    name = "responses"

    def model(self, http: Http, url: str) -> Model:
        return Responses(
            name="fake", http=http, base_url=f"{url}/v1", model="fake", api_key="key-12345678"
        )

    def frames(self, *pieces: Piece, complete: bool = True) -> list[bytes]:
        script, deltas = Script(), list[str]()
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            if isinstance(piece, Call):
                if deltas:
                    script.text(*deltas)
                deltas = []
                script.call(piece.name, *piece.fragments, done=complete or not last)
            else:
                deltas.append(piece)
        if deltas:
            script.text(*deltas, done=complete)
        return frames((script.end() if complete else script).events)

    def overloaded(self) -> bytes:
        error = {"code": "server_is_overloaded", "message": "Overloaded, sorry", "param": None}
        return sse({"type": "error", "sequence_number": 99, **error}, "error")

    def garbled(self) -> bytes:
        return b'event: response.output_text.delta\ndata: {"type": "response.outp\n\n'
