"""A LangGraph server for the tests, with messages as langgraph-api writes them."""

import json
from dataclasses import dataclass, field
from typing import Any

import trio

from app.models import Http, Model
from app.models.langgraph import LangGraph
from tests.app.models.fake_provider import (
    END,
    FIN,
    HANG,
    Exchange,
    FakeProvider,
    Step,
    head,
    part,
    reply,
)
from tests.app.models.wire import Piece, Wire

ME = "00000000-0000-4000-8000-000000000001"


def human(text: str = "Hi", id_: str = ME) -> dict[str, Any]:
    """What the person said; with the id ME, what was sent last."""
    return {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "human",
        "name": None,
        "id": id_,
    }


def ai(id_: str, content: Any = "", *calls: tuple[str, str, Any], **members: Any) -> dict[str, Any]:
    """A whole message. `calls`: id, name and input of each."""
    return {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "ai",
        "name": None,
        "id": id_,
        "tool_calls": [
            {"name": name, "args": args, "id": call, "type": "tool_call"}
            for call, name, args in calls
        ],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        **members,
    }


def piece(id_: str, content: Any = "", **members: Any) -> dict[str, Any]:
    """A piece of a message."""
    return {
        **ai(id_, content),
        "type": "AIMessageChunk",
        "tool_call_chunks": [],
        "chunk_position": None,
        **members,
    }


def last(id_: str, **members: Any) -> dict[str, Any]:
    """The piece that says that it is the last."""
    return piece(id_, chunk_position="last", **members)


def call_piece(
    id_: str, index: int, args: str = "", call: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """A piece of a call of a tool."""
    made = {"name": name, "args": args, "id": call, "index": index, "type": "tool_call_chunk"}
    return piece(id_, tool_call_chunks=[made])


def result(
    call: str, content: Any, name: str = "look", id_: str = "", **more: Any
) -> dict[str, Any]:
    """What a tool gave."""
    return {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "tool",
        "name": name,
        "id": id_ or f"result-of-{call}",
        "tool_call_id": call,
        "artifact": None,
        "status": "success",
        **more,
    }


def state(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"messages": list(messages), **members}


# a server

Events = list[tuple[str, Any]]


def event(name: str, value: Any, id_: str = "") -> bytes:
    """One frame, as langgraph-api writes it: CRLF, the id last."""
    lines = [f"event: {name}", f"data: {json.dumps(value)}"]
    return "\r\n".join([*lines, *([f"id: {id_}"] if id_ else []), "", ""]).encode()


@dataclass
class AgentRun:
    """A run that the server keeps.

    Args:
        events: what it says.
        cuts: after how many events each connection breaks; the last one does not.
        status: what it has come to; the last of them stays.
        todo: what the graph had still to do, `next` in its state.
        tasks: of its state: errors, and questions to the person.
    """

    events: Events
    cuts: list[int] = field(default_factory=list)
    status: list[str] = field(default_factory=lambda: ["success"])
    todo: list[str] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    cancelled: trio.Event = field(default_factory=trio.Event)

    @property
    def values(self) -> Any:
        states = [value for name, value in self.events if name == "values"]
        return states[-1] if states else {}


class AgentServer:
    """Keeps threads, their checkpoints and runs, and can be told to forget or to hang."""

    def __init__(self, provider: FakeProvider) -> None:
        self.threads: dict[str, list[dict[str, Any]]] = {}
        self.runs: dict[str, AgentRun] = {}
        self.numbered = True  # its events have ids
        self.resumes = True  # it honours Last-Event-ID; else it tells all from the beginning
        self.tells = True  # it says what a run has come to
        self.hangs = False  # a stream stays open when all is said
        self.agents = [{"assistant_id": "agent-1", "graph_id": "agent"}]
        self._next: list[AgentRun] = []
        self._ours: dict[str, str] = {}  # by thread: the id that `human` stands for
        provider.aside = self._answer

    def run(self, *events: tuple[str, Any], cuts: tuple[int, ...] = (), **members: Any) -> AgentRun:
        """Queue a run; `metadata` comes by itself."""
        made = AgentRun(list(events), list(cuts), **members)
        self._next.append(made)
        return made

    def forget(self) -> None:
        """As a development server does that is started again."""
        self.threads.clear()
        self.runs.clear()

    def _answer(self, exchange: Exchange) -> list[Step] | None:
        match exchange.path.strip("/").split("/"):
            case ["assistants", "search"]:
                return reply(200, self.agents)
            case ["threads"]:
                return self._make(exchange.json["thread_id"])
            case ["threads", thread, *_] if thread not in self.threads:
                return reply(404, {"detail": f"Thread with ID {thread} not found"})
            case ["threads", thread, "state", *which]:
                return self._state(thread, *which)
            case ["threads", thread, "runs", "stream"]:
                return self._start(thread, exchange)
            case ["threads", _, "runs", run, *_] if run not in self.runs or not self.tells:
                return reply(404, {"detail": "Not Found"})
            case ["threads", _, "runs", run]:
                status = self.runs[run].status
                return reply(200, {"status": status.pop(0) if len(status) > 1 else status[0]})
            case ["threads", thread, "runs", run, "stream"]:
                return self._stream(thread, run, exchange.headers["last-event-id"])
            case ["threads", _, "runs", run, "cancel"]:
                self.runs[run].cancelled.set()
                return reply(202, {})
        return None

    def _make(self, thread: str) -> list[Step]:
        if thread in self.threads:
            return reply(409, {"detail": f"Thread with ID {thread} already exists"})
        self.threads[thread] = []
        return reply(200, {"thread_id": thread, "status": "idle", "values": None})

    def _state(self, thread: str, which: str = "") -> list[Step]:
        found = [s for s in self.threads[thread] if s["checkpoint"]["checkpoint_id"] == which]
        empty = {"values": {}, "next": [], "tasks": [], "metadata": None, "created_at": None}
        nothing = {**empty, "checkpoint": {"checkpoint_id": which or None}}
        return reply(200, [nothing, *(found if which else self.threads[thread])][-1])

    def _start(self, thread: str, exchange: Exchange) -> list[Step] | None:
        if not self._next:
            return None
        run, id_ = self._next.pop(0), f"run-{len(self.runs) + 1}"
        if sent := (exchange.json.get("input") or {}).get("messages"):
            self._ours[thread] = sent[-1]["id"]
        told = json.dumps(run.events).replace(ME, self._ours.get(thread, ME))
        run.events = [(name, value) for name, value in json.loads(told)]
        run.events.insert(0, ("metadata", {"run_id": id_, "attempt": 1}))
        self.runs[id_] = run
        checkpoint = f"cp-{sum(map(len, self.threads.values())) + 1}"
        self.threads[thread].append(
            {
                "values": run.values,
                "next": run.todo,
                "tasks": run.tasks,
                "metadata": {**exchange.json["metadata"], "run_id": id_},
                "created_at": "2026-11-30T16:13:40.975243+00:00",
                "checkpoint": {"checkpoint_id": checkpoint, "thread_id": thread},
            }
        )
        return self._stream(thread, id_, "-1")

    def _stream(self, thread: str, id_: str, after: str) -> list[Step]:
        run = self.runs[id_]
        place = f"/threads/{thread}/runs/{id_}"
        opening = head(200, "text/event-stream; charset=utf-8", content_location=place)
        frames = [
            event(name, value, f"{1000 + number}-0" if self.numbered else "")
            for number, (name, value) in enumerate(run.events)
        ]
        if self.resumes and after != "-1":
            frames = frames[int(after.removesuffix("-0")) - 999 :]
        sent = [part(frame) for frame in frames]
        if run.cuts:
            return [opening, *sent[: run.cuts.pop(0)], FIN]
        return [opening, *sent, HANG if self.hangs else END]


class LangGraphWire(Wire):
    """A server of few words: it keeps nothing, and does not say what a run has come to."""

    name = "langgraph"
    runs_tools = True

    def model(self, http: Http, url: str) -> Model:
        return LangGraph(
            name="fake", http=http, base_url=url, model="agent", api_key="key-12345678"
        )

    def frames(self, *pieces: Piece, complete: bool = True) -> list[bytes]:
        frames = [event("metadata", {"run_id": "run-1", "attempt": 1}, "1-0")]
        frames.append(event("values", state(human())))
        text = "".join(one for one in pieces if isinstance(one, str))
        made, calls = [], []
        for piece_ in pieces:
            if isinstance(piece_, str):
                made.append(piece("a", piece_))
                continue
            calls.append((f"call_{len(calls)}", piece_.name, {}))
            made.append(call_piece("a", len(calls), "", calls[-1][0], piece_.name))
            made += [call_piece("a", len(calls), fragment) for fragment in piece_.fragments]
        frames += [event("messages", [one, {"langgraph_node": "model"}]) for one in made]
        if complete:
            frames.append(event("messages", [last("a"), {}]))
            frames.append(event("values", state(human(), ai("a", text, *calls))))
        return frames

    def overloaded(self) -> bytes:
        return event("error", {"error": "OverloadedError", "message": "Overloaded, sorry"})

    def garbled(self) -> bytes:
        return b'event: messages\r\ndata: [{"content": "ha\r\n\r\n'

    def refusal(self, message: str) -> Any:
        return {"detail": message}

    def aside(self, exchange: Exchange) -> list[Step] | None:
        if exchange.path == "/threads":
            return reply(200, {"thread_id": exchange.json["thread_id"]})
        if exchange.path.endswith("/cancel"):
            return reply(202, {})
        if exchange.method == "GET":
            return reply(404, {"detail": "Not Found"})
        return None
