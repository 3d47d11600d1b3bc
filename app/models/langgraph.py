"""The adapter for an agent that a LangGraph server runs: its models, its tools, its memory.

The server's run goes on without us and keeps what it said, so a connection that breaks, and a crash
of ours, lose nothing. It ends its streams without a word, so whether the run has ended is asked.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
import trio

from app.models import langgraph_request as requests
from app.models import langgraph_state as states
from app.models.cancelling import is_for_good
from app.models.endpoint import Endpoint
from app.models.errors import ModelError
from app.models.faults import scrub
from app.models.http import Call
from app.models.interface import Completion, ModelRequest, ProviderState, Sink
from app.models.langgraph_run import Run, RunReader
from app.models.sse import EVENT_BYTES
from app.models.transcript import output_text

# Before each try to go on, if the one before brought nothing new: the first at once.
RESUME_PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)
# What the state of a run that has ended is worth waiting for: it tells where the next one begins.
STATE_SECONDS = 10.0
# What a server answers that does not know a thread or a run, or the request.
_UNKNOWN = (404, 405, 501)


class LangGraph(Endpoint):
    """Implements ResumableModel.

    Args:
        base_url: of the server.
        model: the assistant's id, or the graph's name; "" means the first one that is listed.
        api_key: sent as `x-api-key`.
        options: members of the request for a run: `config`, `context`, `stream_subgraphs`.
    """

    provider = "langgraph"

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """See Model. The tools of the request are not offered: the agent has its own."""
        self._check()
        if not self.model:
            self.model = await self._first_assistant()
        turn = request.turn or str(uuid4())
        thread, given, state = await self._begin(request, turn)
        run = Run(sink, thread, given.after)
        if state is not None and states.is_over(state):
            return self._complete(run, state)  # it ended while we were away
        if state is not None:
            self._check_tools(state)
        call = self._start(thread, requests.body(self.model, turn, given.members, self._options))
        return await self._guarded(run, call)

    async def resume(self, request: ModelRequest, sink: Sink, checkpoint: bytes) -> Completion:
        """See ResumableModel."""
        return await self._guarded(Run.restored(sink, checkpoint), None)

    async def probe(self) -> None:
        """See reachability.Probed."""
        self._check()
        await self._assistants()

    # where the run begins

    async def _begin(
        self, request: ModelRequest, turn: str
    ) -> tuple[str, requests.Input, states.State | None]:
        """The server's thread, what to send, and the state of a run of this turn if there was one.

        That one is gone on with, by sending nothing new.
        """
        base = requests.base_of(request, self.provider, self.model)
        if base is not None:
            given = requests.continued(base, turn)
            head = await self._state(base.thread)
            if head is not None and states.is_of(head, turn, given.sent):
                return base.thread, given._replace(members={"input": None}), head
            if head is not None and await self._has(base, head):
                members = {**given.members, "checkpoint_id": base.checkpoint}
                return base.thread, given._replace(members=members), None
        given = requests.whole(request, turn)
        thread = requests.thread_id(request, turn)
        if not await self._make(thread, request.thread):
            head = await self._state(thread)
            if head is not None and states.is_of(head, turn, given.sent):
                return thread, given._replace(members={"input": None}), head
        return thread, given, None

    async def _has(self, base: requests.Base, head: states.State) -> bool:
        """Whether the server still has the checkpoint: else it would begin with nothing."""
        if states.checkpoint_of(head) == base.checkpoint:
            return True
        state = await self._state(base.thread, f"/{quote(base.checkpoint, safe='')}")
        return state is not None and states.checkpoint_of(state) is not None

    async def _make(self, thread: str, ours: str | None) -> bool:
        """Make a thread. Returns False if it is there already."""
        made = {"thread_id": thread, "if_exists": "raise", "metadata": {requests.THREAD: ours}}
        try:
            await self._http.ask(self._call("POST", "/threads", made))
        except ModelError as error:
            if error.status != 409:
                raise
            return False
        return True

    def _check_tools(self, state: states.State) -> None:
        """A tool that may have run is not run again (S5). Raises ModelError."""
        if tool := states.pending_tool(state):
            cause = states.failure_of(state)
            text = f"The agent broke off while the tool {tool} ran, so it is not asked again"
            text += f": {scrub(cause, self._secrets)}." if cause else "."
            raise ModelError(text, code="MODEL_ERROR", retryable=False)

    # the run

    async def _guarded(self, run: Run, call: Call | None) -> Completion:
        """Follow it, and end it if it is given up."""
        try:
            await self._follow(run, call)
            return self._complete(run, await self._last_state(run))
        except trio.Cancelled as cancelled:
            if is_for_good(cancelled):
                self._give_up(run)
            raise
        except ModelError:
            self._give_up(run)
            raise

    async def _follow(self, run: Run, call: Call | None) -> None:
        """Until it has ended, on as many connections as that takes.

        `call`: starts it; None: it was started. Raises ModelError if it did not end well.
        """
        failures = 0  # connections in a row that brought nothing new
        error = self._gone()
        while True:
            seen = run.event
            try:
                if call is not None:
                    await self._listen(run, call)
                    return
            except ModelError as exc:
                if not run.can_go_on(exc):
                    raise
                error = exc
            try:
                if await self._has_ended(run, error):
                    return
            except ModelError as exc:
                if not run.can_go_on(exc):
                    raise
                error = exc
            failures = failures + 1 if run.event == seen else 0
            if failures > len(RESUME_PAUSES):
                raise error
            await trio.sleep(RESUME_PAUSES[max(0, failures - 1)])
            call = self._join(run)

    async def _listen(self, run: Run, call: Call) -> None:
        """One connection. Raises MODEL_EOF at its end, unless the server said that it was one."""
        reader = RunReader(run, call)
        try:
            await self._http.exchange(call, run.sink, reader)
            reader.end()
        except ModelError as error:
            if call.method == "GET" and error.status in _UNKNOWN:
                raise self._lost(run, self._gone()) from None
            raise

    async def _has_ended(self, run: Run, error: ModelError) -> bool:
        """Whether it ended well. `error`: what its connection ended with.

        Raises ModelError if it ended otherwise, or nobody knows.
        """
        path = f"/threads/{run.thread}/runs/{quote(run.id, safe='')}"
        try:
            found = await self._http.ask(self._call("GET", path))
        except ModelError as exc:
            if exc.status not in _UNKNOWN:
                raise
            if run.stated and error.code == "MODEL_EOF":
                return True  # a server that does not tell: its last word was the agent's state
            raise self._lost(run, error) from None
        status = found.get("status") if isinstance(found, dict) else None
        if status in ("pending", "running"):
            return False
        if status == "success" or (status == "interrupted" and run.questions):
            run.ended = True
            return True
        run.ended = True
        if status == "error":
            state = await self._state(run.thread)
            failed = {"message": states.failure_of(state or {}) or "it does not say why"}
            raise run.failure(failed, who=self._who, secrets=self._secrets)
        text = f"{self._who} says that the run was ended there: {status}."
        raise ModelError(text, code="MODEL_ERROR", retryable=False)

    async def _last_state(self, run: Run) -> states.State | None:
        """The state the run ended with; None if it is not known: the next one begins anew then."""
        state = None
        with trio.move_on_after(STATE_SECONDS):
            try:
                state = await self._state(run.thread)
            except ModelError:
                pass  # the answer is complete
        return state if state is not None and states.run_of(state) in (None, run.id) else None

    def _complete(self, run: Run, state: states.State | None) -> Completion:
        run.merge.end(run.values if state is None else state.get("values"))
        questions = run.questions if state is None else states.questions_in(state)
        for question in questions:
            run.sink.end_part()
            run.sink.text(output_text(question))
        run.sink.end_part()
        kept = None
        if state is not None and (checkpoint := states.checkpoint_of(state)):
            last, asks = states.last_id(state), bool(questions)
            data = {"thread": run.thread, "checkpoint": checkpoint, "last": last, "asks": asks}
            kept = ProviderState(self.provider, self.model, data)
        return Completion(run.merge.finish_reason, run.merge.usage, kept)

    def _give_up(self, run: Run) -> None:
        """Nobody wants the run any more: the server need not go on."""
        if run.id and not run.ended:
            path = f"/threads/{run.thread}/runs/{quote(run.id, safe='')}/cancel"
            self._http.farewell(self._call("POST", path, {}))

    def _lost(self, run: Run, error: ModelError) -> ModelError:
        """The server does not know the run: there is nothing to join, or to end."""
        run.ended = True
        return error

    def _gone(self) -> ModelError:
        text = f"{self._who} has the rest of the answer no longer."
        return ModelError(text, code="MODEL_EOF", retryable=True)

    # requests

    async def _state(self, thread: str, which: str = "") -> states.State | None:
        """The state of a thread, the newest or that of a checkpoint; None if there is none."""
        try:
            call = self._call("GET", f"/threads/{thread}/state{which}")
            found = await self._http.ask(call, limit=EVENT_BYTES)
        except ModelError as error:
            if error.status not in _UNKNOWN:
                raise
            return None
        return found if isinstance(found, dict) else None

    async def _assistants(self) -> list[Any]:
        found = await self._http.ask(self._call("POST", "/assistants/search", {"limit": 1}))
        if not isinstance(found, list):
            text = f"{self._who} does not list its agents in the way of LangGraph: check base_url."
            raise ModelError(text, code="MODEL_PROTOCOL", retryable=False)
        return [one for one in found if isinstance(one, dict)]

    async def _first_assistant(self) -> str:
        found = await self._assistants()
        if not found:
            text = f"{self._who} lists no agents: set `model`."
            raise ModelError(text, code="MODEL_NOT_FOUND", retryable=False)
        return str(found[0].get("assistant_id"))

    def _start(self, thread: str, body: Mapping[str, Any]) -> Call:
        return self._call("POST", f"/threads/{thread}/runs/stream", body, stream=True)

    def _join(self, run: Run) -> Call:
        path = f"/threads/{run.thread}/runs/{quote(run.id, safe='')}/stream"
        # "-1": from the beginning.
        return self._call("GET", path, stream=True, last_event_id=run.event or "-1")

    def _call(
        self, method: str, path: str, body: Any = None, *, stream: bool = False, **headers: str
    ) -> Call:
        made = {
            "accept": "text/event-stream" if stream else "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        if body is not None:
            made["content-type"] = "application/json"
        if self._api_key:
            made["x-api-key"] = self._api_key
        return Call(
            url=f"{self.base_url}{path}",
            headers=made,
            body=b"" if body is None else msgspec.json.encode(body),
            method=method,
            secrets=self._secrets,
        )
