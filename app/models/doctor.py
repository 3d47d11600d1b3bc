"""Examines each configured model as a person's message would use it: `unbroken doctor`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import trio

from app.models.catalogue import Catalogue, discover
from app.models.config import Limits, ModelConfig
from app.models.errors import ModelError, NotConfiguredError
from app.models.http import open_http
from app.models.interface import Model, ModelRequest, UserEntry
from app.models.reachability import PROBE_SECONDS, Probed, Reach, reach

# A model of this machine may have to be loaded first.
ANSWER_SECONDS = 60.0
# Long enough to come in pieces; the answer is cut off as soon as it did, so it costs a few words.
QUESTION = "Count from one to thirty in words, and say nothing else."
# Pieces of an answer, each out of a read of its own, that prove that it streams.
PIECES = 3


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one model.

    Args:
        reachable: somebody answers at its address; None: not asked.
        accepted: the key is good, or none is needed; None: not known.
        streams: the answer came in pieces; None: there was none.
        first_token: seconds from the request to the first word, or thought; None: there was none.
        problem: what is wrong, a sentence; "" where nothing is.
    """

    name: str
    provider: str
    model: str
    reachable: bool | None = None
    accepted: bool | None = None
    streams: bool | None = None
    first_token: float | None = None
    problem: str = ""

    @property
    def good(self) -> bool:
        return not self.problem


async def examine(
    catalogue: Catalogue, told: Callable[[Finding], None] = lambda _: None
) -> list[Finding]:
    """Ask every model that lies behind a network, one after the other.

    Takes ANSWER_SECONDS for each at most; `told` is given each finding as soon as it is there.
    Nothing is sent but to the model's own address.
    """
    findings = []
    for info in catalogue.list():
        findings.append(await _examine(catalogue.get(info.name)))
        told(findings[-1])
    return findings


async def examine_configured(
    configs: Iterable[ModelConfig],
    env: Mapping[str, str],
    limits: Limits,
    told: Callable[[Finding], None],
) -> list[Finding]:
    """The same for the models a server started with these settings would have. Raises like
    `discover`."""
    async with open_http() as http:
        return await examine(await discover(configs, env, http, limits), told)


def report(findings: Sequence[Finding]) -> str:
    """For the terminal: a line for each model, and under it what is wrong."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        mark = "ok " if finding.good else "BAD"
        lines.append(f"{mark} {finding.name:<{width}}  {_title(finding)}: {_summary(finding)}")
        if finding.problem:
            lines.append(f"    {' ' * width}  {finding.problem}")
    return "\n".join(lines)


def _title(finding: Finding) -> str:
    return " ".join(dict.fromkeys(filter(None, (finding.provider, finding.model))))


def _summary(finding: Finding) -> str:
    if finding.reachable is None:
        return "not asked" if finding.problem else "built in"
    said = ["reachable" if finding.reachable else "not reachable"]
    if finding.accepted is not None:
        said.append("key accepted" if finding.accepted else "key not accepted")
    if finding.streams is not None:
        said.append("streams" if finding.streams else "does not stream")
    if finding.first_token is not None:
        said.append(f"first word after {finding.first_token:.1f} s")
    return ", ".join(said)


async def _examine(model: Model) -> Finding:
    finding = Finding(name=model.name, provider=model.provider, model=model.model)
    if not isinstance(model, Probed):
        return finding
    found = Reach(False, f"No answer within {PROBE_SECONDS:g} seconds.")
    with trio.move_on_after(PROBE_SECONDS):
        found = await reach(model)
    if not found.reachable:
        return _with(finding, reachable=found.reachable, problem=found.problem)
    return _with(await _asked(model, finding), model=model.model)


async def _asked(model: Probed, finding: Finding) -> Finding:
    """Have it answer, until that proves what it can."""
    listener = _Listener()
    error: ModelError | None = None
    with trio.move_on_after(ANSWER_SECONDS) as scope:
        with listener.enough:
            try:
                await model.respond(_request(), listener)
            except ModelError as failure:
                error = failure
    finding = _with(finding, reachable=True, first_token=listener.first_token)
    if isinstance(error, NotConfiguredError):
        return _with(finding, problem=error.text)
    if error is not None:
        refused = error.code == "MODEL_UNAUTHORIZED"
        known = None if error.code == "MODEL_UNREACHABLE" else not refused
        return _with(finding, accepted=known, problem=error.text)
    if scope.cancelled_caught:
        text = f"No whole answer within {ANSWER_SECONDS:g} seconds."
        return _with(finding, accepted=listener.reads > 0 or None, problem=text)
    streams = listener.reads > 1
    problem = "" if streams else "The answer came all at once: something on the way holds it back."
    if not listener.reads:
        problem = "The answer was empty."
    return _with(finding, accepted=True, streams=streams, problem=problem)


def _request() -> ModelRequest:
    return ModelRequest([UserEntry([{"type": "text", "text": QUESTION}])])


def _with(finding: Finding, **members: Any) -> Finding:
    return msgspec.structs.replace(finding, **members)


class _Listener:
    """Implements Sink: notes when words come, and ends the answer when enough have."""

    def __init__(self) -> None:
        self.enough = trio.CancelScope()
        self.first_token: float | None = None
        # Reads from the network that brought words.
        self.reads = 0
        self._began = trio.current_time()
        # Set by words, cleared when the read they came in has been told.
        self._heard = False

    def text(self, delta: str) -> None:
        if not delta:
            return
        self._heard = True
        if self.first_token is None:
            self.first_token = trio.current_time() - self._began

    def reasoning(self, delta: str) -> None:
        self.text(delta)

    def final_text(self, text: str) -> None:
        self.text(text)

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._heard:
            self._heard = False
            self.reads += 1
        if self.reads >= PIECES:
            self.enough.cancel(reason="the doctor has heard enough")

    # what says nothing of a model's health

    def end_part(self) -> None:
        pass

    def tool_start(self, name: str, provider_id: str | None = None) -> str:
        return name

    def tool_delta(self, call_id: str, fragment: str) -> None:
        pass

    def tool_ready(self, call_id: str, input_text: str) -> None:
        pass

    def tool_settled(self, call_id: str, output: Any, *, is_error: bool = False) -> None:
        pass

    def checkpoint(self, data: bytes) -> None:
        pass

    def progress(self) -> None:
        pass

    def alive(self) -> None:
        pass
