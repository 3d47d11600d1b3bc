"""The adapter for OpenAI's Responses API.

In background mode the provider writes the response whether anybody listens or not, and numbers its
events. Then a connection that breaks, and also a crash of ours, costs nothing: the rest is asked
for. The price is a later first word, and that the provider stores the response.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Unpack
from urllib.parse import quote

import msgspec
import trio

from app.models import responses_request
from app.models.cancelling import is_for_good
from app.models.endpoint import Arguments
from app.models.errors import ModelError
from app.models.event_reader import EventReader
from app.models.http import Call
from app.models.interface import Completion, ModelRequest, ProviderState, Sink
from app.models.openai_endpoint import OpenAIEndpoint
from app.models.responses_answer import Answer
from app.models.sse import EVENT_BYTES

# Before each try to go on, if the one before brought nothing new: the first at once, and together
# longer than a gateway takes to restart.
RESUME_PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)
# A response that can no longer be streamed is asked for in whole: so often, and no longer than
# OpenAI keeps it, about 10 minutes.
POLL_SECONDS = 2.0
POLLS = 300


class Responses(OpenAIEndpoint):
    """Implements ResumableModel.

    Args:
        base_url: up to and without `/responses`.
        background: see above. Cancelling tells the provider to stop.
    """

    provider = "responses"

    def __init__(self, *, background: bool = False, **arguments: Unpack[Arguments]) -> None:
        super().__init__(**arguments)
        self._background = background
        # Cleared when the model turns out to have no reasoning; then it is not asked for it again.
        self._encrypted = True

    async def respond(self, request: ModelRequest, sink: Sink) -> Completion:
        """See Model."""
        await self._choose()
        answer = self._answer(sink)
        with self._given_up(answer):
            if lost := await self._ask(request, answer, sink):
                await self._follow(answer, sink, lost)
        return self._completion(answer)

    async def resume(self, request: ModelRequest, sink: Sink, checkpoint: bytes) -> Completion:
        """See ResumableModel."""
        answer = self._answer(sink)
        answer.restore(checkpoint)
        with self._given_up(answer):
            await self._follow(answer, sink, self._gone())
        return self._completion(answer)

    # the request

    async def _ask(self, request: ModelRequest, answer: Answer, sink: Sink) -> ModelError | None:
        """The first connection. Returns what it broke with, if the response goes on without it."""
        try:
            await self._exchange(self._create(request), answer, sink)
        except ModelError as error:
            if self._can_go_on(answer, error):
                return error
            # "Encrypted content is not supported with this model."
            if not (error.status == 400 and self._encrypted and "ncrypted" in error.text):
                raise
        else:
            return None
        self._encrypted = False
        return await self._ask(request, answer, sink)

    def _create(self, request: ModelRequest) -> Call:
        body = responses_request.body(
            request,
            provider=self.provider,
            model=self.model,
            options=self._options,
            background=self._background,
            encrypted=self._encrypted,
        )
        return self._call("POST", "", body=msgspec.json.encode(body), stream=True)

    async def _exchange(self, call: Call, answer: Answer, sink: Sink) -> None:
        reader = _Reader(answer, sink, call)
        await self._http.exchange(call, sink, reader)
        reader.end()

    # the rest of a response that was begun

    async def _follow(self, answer: Answer, sink: Sink, error: ModelError) -> None:
        """Follow a response to its end, on as many connections as it takes.

        Raises ModelError: `error` or a newer one if nothing more comes.
        """
        failures = 0  # tries in a row that brought nothing new
        while failures < len(RESUME_PAUSES) and not _can_only_poll(error):
            await trio.sleep(RESUME_PAUSES[failures])
            seen = answer.sequence
            try:
                await self._exchange(self._continue(answer), answer, sink)
                return
            except ModelError as exc:
                if not (self._can_go_on(answer, exc) or _can_only_poll(exc)):
                    raise
                error = exc
            failures = 0 if answer.sequence > seen else failures + 1
        if not _can_only_poll(error):
            raise error
        await self._poll(answer, sink)

    async def _poll(self, answer: Answer, sink: Sink) -> None:
        """Ask for the whole response until it is one, and show what is new in it."""
        failures = 0
        for _ in range(POLLS):
            try:
                found = await self._http.ask(self._retrieve(answer), limit=EVENT_BYTES)
            except ModelError as error:
                failures += 1
                if error.status == 404:
                    raise self._gone() from None
                if not error.retryable or failures == len(RESUME_PAUSES):
                    raise
            else:
                failures = 0
                if isinstance(found, dict):
                    answer.take_response(found)
                if answer.ended:
                    return
            await sink.room()
            await trio.sleep(POLL_SECONDS)
        text = f"{self._who} did not end the answer within {POLLS * POLL_SECONDS:g} s."
        raise ModelError(text, code="MODEL_STALLED", retryable=True)

    def _can_go_on(self, answer: Answer, error: ModelError) -> bool:
        """Whether it was the connection that failed, and not the response."""
        lost = error.code in ("MODEL_EOF", "MODEL_UNREACHABLE", "MODEL_PROTOCOL")
        begun = answer.background and answer.id and not answer.ended
        return bool(begun and error.retryable and (lost or error.status is not None))

    @contextmanager
    def _given_up(self, answer: Answer) -> Iterator[None]:
        """If it is, the provider need not write it to its end."""
        try:
            yield
        except trio.Cancelled as cancelled:
            if is_for_good(cancelled):
                self._say_so(answer)
            raise
        except ModelError:
            self._say_so(answer)
            raise

    def _say_so(self, answer: Answer) -> None:
        if answer.background and answer.id and not answer.ended:
            self._http.farewell(self._call("POST", f"/{quote(answer.id, safe='')}/cancel"))

    def _gone(self) -> ModelError:
        text = f"{self._who} has the rest of the answer no longer."
        return ModelError(text, code="MODEL_EOF", retryable=True)

    # parts

    def _answer(self, sink: Sink) -> Answer:
        return Answer(
            sink,
            who=self._who,
            background=self._background,
            secrets=self._secrets,
        )

    def _completion(self, answer: Answer) -> Completion:
        state = ProviderState(self.provider, self.model, {"output": answer.output})
        return Completion(answer.finish_reason, answer.usage, state if answer.output else None)

    def _continue(self, answer: Answer) -> Call:
        return self._retrieve(answer, f"stream=true&starting_after={answer.sequence}", stream=True)

    def _retrieve(self, answer: Answer, query: str = "", *, stream: bool = False) -> Call:
        include = f"include[]={responses_request.ENCRYPTED}" if self._encrypted else ""
        query = "&".join(filter(None, (query, include)))
        path = f"/{quote(answer.id, safe='')}"
        return self._call("GET", f"{path}?{query}" if query else path, stream=stream)

    def _call(self, method: str, path: str, *, body: bytes = b"", stream: bool = False) -> Call:
        return Call(
            url=f"{self.base_url}/responses{path}",
            headers={
                "accept": "text/event-stream" if stream else "application/json",
                "content-type": "application/json",
                **self._authorization(),
            },
            body=body,
            method=method,
            secrets=self._secrets,
        )


class _Reader(EventReader):
    """One connection's part of a response."""

    def __init__(self, answer: Answer, sink: Sink, call: Call) -> None:
        super().__init__(sink, who=call.who, secrets=call.secrets)
        self._answer = answer
        # Events up to here were seen on an earlier connection: some servers repeat them.
        self._seen = answer.sequence

    def feed(self, data: bytes) -> bool:
        answer, before = self._answer, self._answer.sequence
        try:
            return super().feed(data)
        finally:
            # Also after an event that is an error: those before it are shown.
            if answer.background and answer.id and answer.sequence != before:
                self.sink.checkpoint(answer.checkpoint())

    def take(self, name: str, value: Any) -> bool:
        if not isinstance(value, dict):
            raise self.garbled()
        if value.get("type") == "error" or (value.get("error") and "type" not in value):
            raise self.failed(value)
        self.spoke = True
        sequence = value.get("sequence_number")
        if isinstance(sequence, int):
            if sequence <= self._seen:
                self.sink.progress()
                return True
            self._answer.sequence = sequence
        self._answer.take({"type": name, **value})
        self.complete = self.done = self._answer.ended
        return True

    def take_whole(self, value: Any) -> None:
        if not isinstance(value, dict) or value.get("error"):
            raise self.failed(value)
        self.spoke = True
        self._answer.take_response(value)
        self.complete = self._answer.ended


def _can_only_poll(error: ModelError) -> bool:
    """OpenAI streams a response no more when it is five minutes old; others never do it twice."""
    status = error.status or 0
    return 400 <= status < 500 and status not in (401, 403, 408, 409, 429)
