"""Agents of a LangGraph server: where a run begins, how it is followed, how it is ended."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from app.events import Usage
from app.models import (
    AssistantStep,
    Completion,
    Entry,
    Http,
    ModelError,
    ModelRequest,
    ProviderState,
    ResumableModel,
    ToolSpec,
    UserEntry,
)
from app.models.langgraph import RESUME_PAUSES, STATE_SECONDS, LangGraph
from app.models.langgraph_request import thread_id
from app.models.transcript import INTERRUPTED
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
from tests.app.models.recorder import Recorder
from tests.app.models.wire_langgraph import (
    AgentServer,
    Events,
    ai,
    call_piece,
    event,
    human,
    last,
    piece,
    result,
    state,
)

pytestmark = pytest.mark.requirement("M5")

RECORDINGS = Path(__file__).parent / "recordings" / "langgraph"
KEY = "key-12345678"


@dataclass
class Talk:
    """One conversation with an agent."""

    model: LangGraph
    server: AgentServer
    provider: FakeProvider
    entries: list[Entry] = field(default_factory=list)

    def request(self, turn: str, **members: Any) -> ModelRequest:
        return ModelRequest(list(self.entries), thread="thread-01", turn=turn, **members)

    def say(self, *texts: str) -> None:
        self.entries.append(UserEntry([{"type": "text", "text": text} for text in texts]))

    async def hear(self, turn: str, sink: Recorder | None = None, **members: Any) -> Completion:
        """The answer to what was said, which becomes part of the conversation."""
        sink = sink or Recorder()
        done = await self.model.respond(self.request(turn, **members), sink)
        self.entries.append(AssistantStep("".join(sink.texts), state=done.state))
        return done

    async def fail(self, turn: str, sink: Recorder | None = None) -> ModelError:
        with pytest.raises(ModelError) as caught:
            await self.model.respond(self.request(turn), sink or Recorder())
        return caught.value

    @property
    def asked(self) -> list[Any]:
        """The bodies of the requests for runs."""
        runs = [one for one in self.provider.requests if one.path.endswith("/runs/stream")]
        return [one.json for one in runs]

    def paths(self, begin: int = 0) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.provider.requests[begin:]]


@pytest.fixture
def server(provider: FakeProvider) -> AgentServer:
    return AgentServer(provider)


def agent(http: Http, url: str, **members: Any) -> LangGraph:
    members = {"name": "fake", "model": "agent", "api_key": KEY, **members}
    return LangGraph(http=http, base_url=url, **members)


@pytest.fixture
def talk(server: AgentServer, provider: FakeProvider, http: Http) -> Talk:
    talk = Talk(agent(http, provider.url), server, provider)
    talk.say("Hi")
    return talk


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    # Long enough for the loopback to deliver what was sent.
    autojump_clock.autojump_threshold = 0.02
    return autojump_clock


def said(*messages: dict[str, Any]) -> Events:
    return [("messages", [message, {"langgraph_node": "model"}]) for message in messages]


def hello(text: str = "Hel|lo", id_: str = "a") -> Events:
    """A run of one message, in two pieces."""
    one, two = text.split("|")
    whole = state(human(), ai(id_, one + two))
    return [*said(piece(id_, one), piece(id_, two), last(id_)), ("values", whole)]


# what a real server says (langgraph-api 0.16.7 with langgraph 1.2.24)


async def replayed(name: str, provider: FakeProvider, http: Http, sink: Recorder) -> Completion:
    """The adapter, and a server that says what was recorded of a real one."""
    script, kept = (RECORDINGS / f"{name}.sse", RECORDINGS / f"{name}.json")
    run = json.loads(kept.read_bytes())["metadata"]["run_id"]

    def answer(exchange: Exchange) -> list[Step] | None:
        match exchange.path.strip("/").split("/"):
            case ["threads"]:
                return reply(200, {"thread_id": exchange.json["thread_id"]})
            case ["threads", _, "state"]:
                return reply(200, json.loads(kept.read_bytes()))
            case ["threads", _, "runs", one] if one == run:
                return reply(200, {"status": "success"})
        return None

    provider.aside = answer
    provider.play(head(), part(script.read_bytes()), END)
    request = ModelRequest([UserEntry([{"type": "text", "text": "Hi"}])], thread="t", turn="1")
    return await agent(http, provider.url, model=name).respond(request, sink)


@pytest.mark.parametrize("name", ["tool", "tool-snapshots"])
async def test_a_recorded_run_with_a_tool(
    name: str, provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    done = await replayed(name, provider, http, sink)
    assert [one.kind for one in sink.parts] == ["text", "tool", "text"]
    assert sink.texts == ["Let me look.", "|| 3 cats"]
    search = sink.calls["call-1"]
    assert (search.name, search.provider_id) == ("search", "call_abc")
    assert json.loads(search.input_text or "") == {"q": "cats"}
    assert search.settled == ("found 3 cats", False)
    assert (done.finish_reason, done.usage) == ("stop", Usage(5, 7, 2))
    assert done.state is not None
    assert done.state.data["checkpoint"].startswith("1f1ece")


async def test_a_recorded_run_of_two_at_once(
    provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    done = await replayed("pair", provider, http, sink)
    assert sink.texts == ["left0 left1 left2 ", "right0 right1 right2 "]
    assert done.usage == Usage(10, 14, 4)


async def test_a_recorded_run_that_fails(
    provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    with pytest.raises(ModelError) as caught:
        await replayed("fail", provider, http, sink)
    assert sink.texts == ["half "]
    assert caught.value.text == "The agent at 127.0.0.1 failed: ValueError: graph exploded."
    assert not caught.value.retryable


# the request, and where it begins


async def test_the_first_answer_is_a_new_thread_with_the_whole_conversation(talk: Talk) -> None:
    talk.server.run(*hello())
    sink = Recorder()
    done = await talk.hear(
        "turn-1",
        sink,
        instructions="Be kind.",
        tools=[ToolSpec("look", "Looks.", {"type": "object"})],
    )
    thread = thread_id(talk.request("turn-1"), "turn-1")
    assert talk.paths() == [
        "POST /threads",
        f"POST /threads/{thread}/runs/stream",
        f"GET /threads/{thread}/runs/run-1",
        f"GET /threads/{thread}/state",
    ]
    made = talk.provider.requests[0]
    assert made.json == {
        "thread_id": thread,
        "if_exists": "raise",
        "metadata": {"unbroken_thread": "thread-01"},
    }
    assert made.headers["x-api-key"] == KEY
    [body] = talk.asked
    assert [(one["type"], one["content"]) for one in body["input"]["messages"]] == [
        ("system", "Be kind."),
        ("human", "Hi"),
    ]
    del body["input"]
    assert body == {
        "assistant_id": "agent",
        "stream_mode": ["messages-tuple", "values"],
        "stream_resumable": True,
        "on_disconnect": "continue",
        "multitask_strategy": "interrupt",
        "metadata": {"unbroken_turn": "turn-1"},
    }
    assert sink.texts == ["Hello"]
    data = {"thread": thread, "checkpoint": "cp-1", "last": "a", "asks": False}
    assert done.state == ProviderState("langgraph", "agent", data)


async def test_options_add_to_the_request(talk: Talk, http: Http) -> None:
    options = {
        "config": {"recursion_limit": 9},
        "metadata": {"who": "me"},
        "stream_mode": ["debug"],
    }
    talk.model = agent(http, talk.provider.url, options=options)
    talk.server.run(*hello())
    await talk.hear("turn-1")
    [body] = talk.asked
    assert body["config"] == {"recursion_limit": 9}
    assert body["metadata"] == {"who": "me", "unbroken_turn": "turn-1"}
    assert body["stream_mode"] == ["messages-tuple", "values"]


async def test_the_next_one_begins_where_it_ended_and_sends_what_is_new(talk: Talk) -> None:
    talk.server.run(*hello())
    first = await talk.hear("turn-1")
    talk.say("And?")
    sent = len(talk.provider.requests)
    talk.server.run(*hello("Mo|re", "b"))
    second = await talk.hear("turn-2")
    body = talk.asked[1]
    assert [one["content"] for one in body["input"]["messages"]] == ["And?"]
    assert body["checkpoint_id"] == "cp-1"
    assert first.state is not None
    assert second.state is not None
    assert second.state.data["thread"] == first.state.data["thread"]
    assert second.state.data["checkpoint"] == "cp-2"
    assert not any(path == "POST /threads" for path in talk.paths(sent))


async def test_another_answer_begins_there_too(talk: Talk) -> None:
    """It does not see the one that was left, and neither does a rewritten question."""
    talk.server.run(*hello())
    await talk.hear("turn-1")
    talk.say("And?")
    for turn in ("turn-2", "turn-3"):
        talk.server.run(*hello("Mo|re", "b"))
        await talk.model.respond(talk.request(turn), Recorder())
    assert [body.get("checkpoint_id") for body in talk.asked] == [None, "cp-1", "cp-1"]
    ids = [body["input"]["messages"][-1]["id"] for body in talk.asked]
    assert len(set(ids)) == 3


async def test_another_answer_to_the_first_question_has_a_thread_of_its_own(talk: Talk) -> None:
    for turn in ("turn-1", "turn-2"):
        talk.server.run(*hello())
        await talk.model.respond(talk.request(turn), Recorder())
    threads = {path for path in talk.paths() if path.endswith("/runs/stream")}
    assert len(threads) == 2


async def test_a_server_that_has_forgotten_is_told_everything(talk: Talk) -> None:
    talk.server.run(*hello())
    await talk.hear("turn-1")
    talk.server.forget()
    talk.say("And?")
    talk.server.run(*hello("Mo|re", "b"))
    await talk.hear("turn-2")
    said = [(one["type"], one["content"]) for one in talk.asked[1]["input"]["messages"]]
    assert said == [("human", "Hi"), ("ai", "Hello"), ("human", "And?")]
    assert "checkpoint_id" not in talk.asked[1]


async def test_and_one_that_has_forgotten_the_checkpoint(talk: Talk) -> None:
    """It would begin with nothing, without a word."""
    talk.server.run(*hello())
    await talk.hear("turn-1")
    [kept] = talk.server.threads.values()
    kept[0]["checkpoint"]["checkpoint_id"] = "another"
    talk.say("And?")
    talk.server.run(*hello("Mo|re", "b"))
    await talk.hear("turn-2")
    assert len(talk.asked[1]["input"]["messages"]) == 3


async def test_what_another_model_answered_is_told(talk: Talk) -> None:
    foreign = ProviderState("langgraph", "other", {"thread": "x", "checkpoint": "y"})
    talk.entries += [AssistantStep("Hello", state=foreign)]
    talk.say("And?")
    talk.server.run(*hello())
    await talk.hear("turn-2")
    said = [one["content"] for one in talk.asked[0]["input"]["messages"]]
    assert said == ["Hi", "Hello", "And?"]


@pytest.mark.requirement("C3")
async def test_what_was_cut_short_since_then_is_told(talk: Talk) -> None:
    talk.server.run(*hello())
    await talk.hear("turn-1")
    talk.say("And?")
    talk.entries.append(AssistantStep("Mo", interrupted=True))
    talk.say("Go on")
    talk.server.run(*hello("Mo|re", "b"))
    await talk.hear("turn-3")
    said = [(one["type"], one["content"]) for one in talk.asked[1]["input"]["messages"]]
    assert said == [("human", "And?"), ("ai", "Mo"), ("human", f"{INTERRUPTED}\n\nGo on")]


# the same answer asked for again


@pytest.mark.requirement("S4", "S5")
async def test_a_run_that_failed_is_gone_on_with_from_its_last_step(talk: Talk) -> None:
    called, found = ai("a", "Let me see.", ("call_1", "look", {})), result("call_1", "3")
    done = state(human(), called, found)
    talk.server.run(
        ("values", done),
        ("error", {"error": "RateLimitError", "message": "Slow down"}),
        status=["error"],
        todo=["model"],
    )
    error = await talk.fail("turn-1")
    assert (error.code, error.retryable) == ("MODEL_RATE_LIMITED", True)
    whole = state(human(), called, found, ai("b", "Cats."))
    talk.server.run(("values", done), *said(piece("b", "Cats.")), ("values", whole))
    await talk.hear("turn-1", sink := Recorder())
    assert talk.asked[1]["input"] is None
    assert "checkpoint_id" not in talk.asked[1]
    # What it had done is shown again, and is not done again.
    assert sink.texts == ["Let me see.", "Cats."]
    assert sink.calls["call-1"].settled == ("3", False)


@pytest.mark.requirement("S4")
async def test_a_later_answer_too(talk: Talk) -> None:
    talk.server.run(*hello())
    await talk.hear("turn-1")
    talk.say("And?")
    failed = ("error", {"error": "ConnectionError", "message": "An internal error occurred"})
    talk.server.run(("values", state(human())), failed, status=["error"], todo=["model"])
    assert (await talk.fail("turn-2")).retryable
    talk.server.run(*hello("Mo|re", "b"))
    await talk.hear("turn-2")
    assert [body.get("input") is None for body in talk.asked] == [False, False, True]


async def test_a_run_that_ended_while_we_were_away_is_not_made_again(talk: Talk) -> None:
    talk.server.run(*hello())
    await talk.model.respond(talk.request("turn-1"), Recorder())
    done = await talk.hear("turn-1", sink := Recorder())
    assert len(talk.asked) == 1
    assert sink.texts == ["Hello"]
    assert done.state is not None


@pytest.mark.requirement("S5")
async def test_a_tool_that_may_have_run_is_not_run_again(talk: Talk) -> None:
    called = state(human(), ai("a", "I look.", ("call_1", "transfer", {"eur": 9})))
    talk.server.run(
        ("values", called),
        ("error", {"error": "TimeoutError", "message": "30 s"}),
        status=["error"],
        todo=["tools"],
        tasks=[{"error": "TimeoutError('30 s')"}],
    )
    await talk.fail("turn-1")
    error = await talk.fail("turn-1")
    assert len(talk.asked) == 1
    assert not error.retryable
    assert error.text == (
        "The agent broke off while the tool transfer ran, so it is not asked again:"
        " TimeoutError('30 s')."
    )


async def test_a_thread_that_was_made_and_not_used(talk: Talk) -> None:
    talk.server.threads[thread_id(talk.request("turn-1"), "turn-1")] = []
    talk.server.run(*hello())
    await talk.hear("turn-1")
    assert len(talk.asked[0]["input"]["messages"]) == 1


async def test_a_server_that_forgets_the_metadata_of_runs_knows_our_message(talk: Talk) -> None:
    talk.server.run(*hello())
    await talk.model.respond(talk.request("turn-1"), Recorder())
    [[kept]] = talk.server.threads.values()
    kept["metadata"] = {}
    await talk.hear("turn-1", sink := Recorder())
    assert (len(talk.asked), sink.texts) == (1, ["Hello"])


# a question of the agent


async def test_a_question_of_the_agent_is_shown_and_answered(talk: Talk) -> None:
    question = [{"value": "Really?", "id": "i1"}]
    asking = state(human(), ai("a", "", ("call_1", "transfer", {})), __interrupt__=question)
    talk.server.run(("values", asking), todo=["tools"], tasks=[{"interrupts": question}])
    await talk.hear("turn-1", sink := Recorder())
    assert sink.texts == ["Really?"]
    talk.say("Yes")
    whole = [*asking["messages"], result("call_1", "done"), ai("b", "Done.")]
    talk.server.run(("values", state(*whole)))
    await talk.hear("turn-2", after := Recorder())
    body = talk.asked[1]
    assert body["command"] == {"resume": "Yes"}
    assert (body["checkpoint_id"], "input" in body) == ("cp-1", False)
    assert after.texts == ["Done."]
    assert [call.settled for call in after.calls.values()] == [("done", False)]


async def test_a_question_that_is_no_text(talk: Talk) -> None:
    question = [{"value": {"allow": ["yes", "no"]}}]
    talk.server.run(
        ("values", state(human(), __interrupt__=question)),
        status=["interrupted"],
        todo=["model"],
        tasks=[{"interrupts": question}],
    )
    await talk.hear("turn-1", sink := Recorder())
    assert sink.texts == ['{"allow":["yes","no"]}']


# following


async def test_it_can_be_resumed(talk: Talk) -> None:
    assert isinstance(talk.model, ResumableModel)


def everything() -> Events:
    """A run with a tool, a thought and two messages, as a server tells it."""
    called = ai("a", "Let me| see", ("call_1", "look", {"q": 1}))
    found, answer = result("call_1", "3"), ai("b", "|| 3")
    thought = piece("b", [{"type": "thinking", "thinking": "Hm"}])
    return [
        ("values", state(human())),
        *said(piece("a", "Let me"), piece("a", "| see")),
        *said(call_piece("a", 0, "", "call_1", "look"), call_piece("a", 0, '{"q":1}'), last("a")),
        ("values", state(human(), called)),
        *said(found),
        ("values", state(human(), called, found)),
        *said(thought, piece("b", "|"), piece("b", "|"), piece("b", " 3"), last("b")),
        ("values", state(human(), called, found, answer)),
    ]


def check(sink: Recorder) -> None:
    assert [(one.kind, one.text) for one in sink.parts] == [
        ("text", "Let me| see"),
        ("tool", "call-1"),
        ("reasoning", "Hm"),
        ("text", "|| 3"),
    ]
    [call] = sink.calls.values()
    assert (call.input_text, call.settled) == ('{"q":1}', ("3", False))
    assert not any(one.open for one in sink.parts)


@pytest.mark.requirement("S3", "M3")
@pytest.mark.parametrize("cut", range(len(everything()) + 1))
async def test_a_broken_connection_withdraws_nothing(cut: int, talk: Talk) -> None:
    run = talk.server.run(*everything(), cuts=(cut,), status=["running", "success"])
    sink = Recorder()
    await talk.hear("turn-1", sink)
    check(sink)
    join = next(one for one in talk.provider.requests if one.path.endswith("/run-1/stream"))
    assert join.headers["last-event-id"] == (f"{999 + cut}-0" if cut else "-1")
    assert run.status == ["success"]


async def test_many_breaks(talk: Talk) -> None:
    talk.server.run(*everything(), cuts=(4, 3, 1, 2, 1), status=["running"] * 5 + ["success"])
    await talk.hear("turn-1", sink := Recorder())
    check(sink)


@pytest.mark.parametrize("cut", range(2, len(everything()) + 1, 3))
async def test_a_server_that_tells_all_of_it_again(cut: int, talk: Talk) -> None:
    talk.server.resumes = False
    talk.server.run(*everything(), cuts=(cut,), status=["running", "success"])
    await talk.hear("turn-1", sink := Recorder())
    check(sink)


@pytest.mark.parametrize("cut", range(2, len(everything()) + 1, 3))
async def test_a_run_that_ended_while_nobody_listened(cut: int, talk: Talk) -> None:
    """The state has what was missed."""
    talk.server.run(*everything(), cuts=(cut,))
    await talk.hear("turn-1", sink := Recorder())
    assert "".join(sink.texts) == "Let me| see|| 3"
    assert [call.settled for call in sink.calls.values()] == [("3", False)]
    assert not any("/run-1/stream" in path for path in talk.paths())


async def test_a_clean_end_of_the_stream_is_no_end_of_the_run(talk: Talk) -> None:
    """The connection of a gateway that was restarted, say."""
    run = talk.server.run(*everything(), status=["running", "pending", "success"])
    answer = talk.provider.aside

    def shortened(exchange: Exchange) -> list[Step] | None:
        script = list(answer(exchange) or ()) or None
        if script and exchange.path.endswith("/runs/stream"):
            return [*script[:4], END]
        return script

    talk.provider.aside = shortened
    await talk.hear("turn-1", sink := Recorder())
    check(sink)
    assert run.status == ["success"]


async def test_a_server_that_says_end(talk: Talk) -> None:
    talk.server.run(*hello(), ("end", None))
    talk.server.hangs = True
    await talk.hear("turn-1", sink := Recorder())
    assert sink.texts == ["Hello"]
    assert not any(path.endswith("/runs/run-1") for path in talk.paths())


async def test_a_server_that_does_not_tell_how_a_run_ended(talk: Talk) -> None:
    """Then its last word has to be the state."""
    talk.server.tells = False
    talk.server.run(*hello())
    await talk.hear("turn-1", sink := Recorder())
    assert sink.texts == ["Hello"]
    talk.say("And?")
    talk.server.run(*hello("Mo|re", "b")[:-1])
    error = await talk.fail("turn-2")
    assert (error.code, error.retryable) == ("MODEL_EOF", True)


async def test_a_server_that_is_away_for_a_while(talk: Talk, clock: MockClock) -> None:
    talk.server.run(*everything(), cuts=(5,), status=["running", "success"])
    answer, away = talk.provider.aside, [0]

    def down(exchange: Exchange) -> list[Step] | None:
        if exchange.method == "GET" and away[0] < 4:
            away[0] += 1
            return [FIN] if away[0] % 2 else reply(503, "restarting")
        return list(answer(exchange) or ()) or None

    talk.provider.aside = down
    await talk.hear("turn-1", sink := Recorder())
    check(sink)


async def test_but_not_for_ever(talk: Talk, clock: MockClock) -> None:
    talk.server.run(*everything(), cuts=(5, *[0] * 9), status=["running"])
    began = trio.current_time()
    error = await talk.fail("turn-1")
    assert (error.code, error.retryable) == ("MODEL_EOF", True)
    assert sum(RESUME_PAUSES) <= trio.current_time() - began < 2 * sum(RESUME_PAUSES)
    await talk.server.runs["run-1"].cancelled.wait()


@pytest.mark.parametrize("forgets", ["run", "join"])
async def test_a_run_that_the_server_does_not_know_any_more(forgets: str, talk: Talk) -> None:
    talk.server.run(*everything(), cuts=(5,), status=["running"])
    answer = talk.provider.aside

    def forgetful(exchange: Exchange) -> list[Step] | None:
        lost = {"run": "/runs/run-1", "join": "/run-1/stream"}[forgets]
        if exchange.path.endswith(lost):
            return reply(404, {"detail": "Not Found"})
        return list(answer(exchange) or ()) or None

    talk.provider.aside = forgetful
    error = await talk.fail("turn-1")
    assert (error.code, error.retryable) == ("MODEL_EOF", True)
    assert not any("cancel" in path for path in talk.paths())


async def test_a_state_that_cannot_be_had_costs_only_where_to_begin(
    talk: Talk, clock: MockClock
) -> None:
    for script in ([HANG], reply(500, "no"), reply(404, {}), reply(200, []), reply(200, "?")):
        talk.server.run(*hello())
        answer = talk.provider.aside
        talk.provider.aside = lambda exchange, script=script, answer=answer: (
            script if exchange.path.endswith("/state") else answer(exchange)
        )
        began = trio.current_time()
        done = await talk.model.respond(talk.request(str(script)), sink := Recorder())
        assert (sink.texts, done.state) == (["Hello"], None)
        assert trio.current_time() - began <= STATE_SECONDS + 1
        talk.provider.aside = answer


async def test_a_state_of_somebody_elses_run_is_not_ours(talk: Talk) -> None:
    """Somebody used the thread in the Studio meanwhile."""
    talk.server.run(*hello())
    answer = talk.provider.aside

    def meddled(exchange: Exchange) -> list[Step] | None:
        if exchange.path.endswith("/state"):
            [[kept]] = talk.server.threads.values()
            kept["metadata"] = {"run_id": "another"}
            kept["values"] = state(human("?", "x"))
        return list(answer(exchange) or ()) or None

    talk.provider.aside = meddled
    done = await talk.model.respond(talk.request("turn-1"), sink := Recorder())
    assert (sink.texts, done.state) == (["Hello"], None)


async def test_agents_within_the_agent_speak_too_and_their_state_is_not_its(talk: Talk) -> None:
    talk.server.run(
        ("values", state(human())),
        ("messages|researcher:1", [piece("deep", "Digging."), {}]),
        ("messages|researcher:1", [last("deep"), {}]),
        ("values|researcher:1", state(human(), ai("deep", "?"))),
        ("updates", {"model": {}}),
        ("tasks|researcher:1", {}),
        *said(piece("a", "Done.")),
        ("values", state(human(), ai("a", "Done."))),
    )
    await talk.hear("turn-1", sink := Recorder())
    assert sink.texts == ["Digging.", "Done."]


async def test_a_ping_is_a_sign_of_life_while_a_tool_runs(talk: Talk) -> None:
    ping = part(b": heartbeat\r\n\r\n")
    before, after = everything()[:6], everything()[6:]

    async def progress(*steps: Step) -> int:
        frames = [part(event(*one, id_="1-0")) for one in after]
        start = [head(content_location="/threads/t/runs/run-9"), *steps]
        talk.provider.play(*start, *frames, END)
        answer = talk.provider.aside
        talk.provider.aside = lambda exchange: (
            None
            if exchange.path.endswith("/runs/stream")
            else reply(200, {"status": "success"})
            if exchange.path.endswith("/run-9")
            else answer(exchange)
        )
        await talk.model.respond(talk.request(str(steps)), sink := Recorder())
        talk.provider.aside = answer
        return sink.count("progress") - sink.count("checkpoint")

    quiet = [part(event(*one, id_="1-0")) for one in before]
    # The same events; pings before the call count for nothing, after it each is a sign.
    assert await progress(ping, ping, *quiet) == await progress(*quiet)
    assert await progress(*quiet, ping, ping) > await progress(*quiet)


# how a run ends


@pytest.mark.requirement("S3")
@pytest.mark.parametrize(
    ("name", "message", "code", "retryable"),
    [
        ("ValueError", "graph exploded", "MODEL_ERROR", False),
        ("GraphRecursionError", "Recursion limit of 25 reached", "MODEL_ERROR", False),
        ("RateLimitError", "Slow down", "MODEL_RATE_LIMITED", True),
        ("OverloadedError", "Overloaded", "MODEL_OVERLOADED", True),
        ("APIConnectionError", "Connection error.", "MODEL_ERROR", True),
        ("ReadTimeout", "", "MODEL_ERROR", True),
        ("InternalServerError", "500", "MODEL_ERROR", True),
        ("AuthenticationError", "bad key", "MODEL_UNAUTHORIZED", False),
        ("BadRequestError", "prompt is too long", "CONTEXT_TOO_LONG", False),
        ("UserInterrupt", "", "MODEL_ERROR", False),
        ("UserRollback", "", "MODEL_ERROR", False),
    ],
)
async def test_an_error_of_the_agent(
    talk: Talk, name: str, message: str, code: str, retryable: bool
) -> None:
    talk.server.run(*hello()[:1], ("error", {"error": name, "message": message}))
    error = await talk.fail("turn-1")
    assert (error.code, error.retryable) == (code, retryable)
    assert message.rstrip(".") in error.text
    assert not any("cancel" in path for path in talk.paths())  # it has ended already


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("error", "The agent at 127.0.0.1 failed: ValueError('no')."),
        ("interrupted", "the run was ended there: interrupted."),
        ("timeout", "the run was ended there: timeout."),
    ],
)
async def test_an_end_that_was_not_heard(talk: Talk, status: str, said: str) -> None:
    """Cancelled in the Studio, for example: the stream just ends."""
    talk.server.run(*hello()[:1], status=[status], tasks=[{"error": "ValueError('no')"}])
    error = await talk.fail("turn-1")
    assert error.text.endswith(said)
    assert not error.retryable


# a crash of ours


@pytest.mark.requirement("R1", "R4")
@pytest.mark.parametrize("meanwhile", ["running", "ended"])
async def test_wherever_we_crash_the_run_is_joined(meanwhile: str, talk: Talk) -> None:
    run = talk.server.run(*everything())
    before = Recorder()
    await talk.model.respond(talk.request("turn-1"), before)
    check(before)
    assert len(before.checkpoints) > 8
    for number, checkpoint in enumerate(before.checkpoints):
        run.status = ["running", "success"] if meanwhile == "running" else ["success"]
        asked = len(talk.provider.requests)
        done = await talk.model.resume(
            talk.request("turn-1"), after := before.at(number), checkpoint
        )
        if meanwhile == "running":
            check(after)
        assert "".join(after.texts) == "Let me| see|| 3"
        assert [call.settled for call in after.calls.values()] == [("3", False)]
        assert done.state is not None
        assert not any(path.startswith("POST") for path in talk.paths(asked))


async def test_a_checkpoint_is_small(talk: Talk) -> None:
    talk.server.run(*everything())
    sink = Recorder()
    await talk.model.respond(talk.request("turn-1"), sink)
    assert max(map(len, sink.checkpoints)) < 400


async def test_without_ids_of_events_there_is_no_checkpoint(talk: Talk) -> None:
    talk.server.numbered = False
    talk.server.run(*everything())
    await talk.hear("turn-1", sink := Recorder())
    check(sink)
    assert sink.checkpoints == []


@pytest.mark.requirement("R1")
async def test_what_cannot_be_joined_any_more_is_asked_for_anew(talk: Talk) -> None:
    talk.server.run(*everything())
    sink = Recorder()
    await talk.model.respond(talk.request("turn-1"), sink)
    talk.server.forget()
    with pytest.raises(ModelError) as caught:
        await talk.model.resume(talk.request("turn-1"), sink.at(5), sink.checkpoints[5])
    assert (caught.value.code, caught.value.retryable) == ("MODEL_EOF", True)


# a stop


async def listening(talk: Talk, nursery: trio.Nursery) -> Recorder:
    """A run that goes on and on, of which something was heard."""
    talk.server.hangs = True
    talk.server.run(*hello()[:2], status=["running"])
    sink = Recorder()
    nursery.start_soon(talk.model.respond, talk.request("turn-1"), sink)
    with trio.fail_after(5):
        while len(sink.text_deltas) < 2:
            await trio.testing.wait_all_tasks_blocked(0.005)
    return sink


@pytest.mark.requirement("C2")
async def test_a_stop_reaches_the_run_and_nobody_waits_for_it(talk: Talk) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await listening(talk, nursery)
            scope.cancel(reason="CANCELLED")
    assert scope.cancelled_caught
    with trio.fail_after(2):
        await talk.server.runs["run-1"].cancelled.wait()
    assert talk.paths()[-1].endswith("/runs/run-1/cancel")


@pytest.mark.requirement("C2", "S1")
async def test_and_so_does_a_deadline(talk: Talk, clock: MockClock) -> None:
    talk.server.hangs = True
    talk.server.run(*hello()[:2], status=["running"])
    with trio.move_on_after(120) as scope:
        await talk.model.respond(talk.request("turn-1"), Recorder())
    assert scope.cancelled_caught
    await talk.server.runs["run-1"].cancelled.wait()


@pytest.mark.requirement("T7", "R1")
async def test_a_shutdown_leaves_the_run_to_the_next_start(talk: Talk) -> None:
    async with trio.open_nursery() as nursery:
        sink = await listening(talk, nursery)
        nursery.cancel_scope.cancel(reason="shutdown")
    run = talk.server.runs["run-1"]
    run.events += hello()[2:]
    run.status = ["running", "success"]
    talk.server.hangs = False
    number = len(sink.checkpoints) - 1
    after = sink.at(number)
    await talk.model.resume(talk.request("turn-1"), after, sink.checkpoints[number])
    assert after.texts == ["Hello"]
    assert not run.cancelled.is_set()


# which agent, and whether there is one


async def test_the_first_agent_that_is_listed(talk: Talk, http: Http) -> None:
    talk.model = agent(http, talk.provider.url, model="", api_key=None)
    talk.server.run(*hello())
    await talk.hear("turn-1")
    assert talk.asked[0]["assistant_id"] == "agent-1"
    assert talk.model.model == "agent-1"
    assert "x-api-key" not in talk.provider.requests[0].headers


async def test_no_agent_is_listed(talk: Talk, http: Http) -> None:
    talk.model = agent(http, talk.provider.url, model="")
    talk.server.agents = []
    error = await talk.fail("turn-1")
    assert (error.code, error.text) == (
        "MODEL_NOT_FOUND",
        "127.0.0.1 lists no agents: set `model`.",
    )


async def test_another_kind_of_server(provider: FakeProvider, http: Http) -> None:
    provider.play(*reply(200, {"object": "list"}))
    with pytest.raises(ModelError, match="not list its agents in the way of LangGraph"):
        await agent(http, provider.url).probe()


async def test_a_probe(talk: Talk, http: Http) -> None:
    await talk.model.probe()
    assert talk.paths() == ["POST /assistants/search"]
    assert talk.model.place == agent(http, talk.provider.url, model="b").place
    with pytest.raises(ModelError, match=r"No key\."):
        await agent(http, talk.provider.url, missing="No key.").probe()


async def test_a_key_that_is_not_there(talk: Talk, http: Http) -> None:
    talk.model = agent(http, talk.provider.url, missing="No key.")
    assert (await talk.fail("turn-1")).code == "MODEL_UNAUTHORIZED"
    assert talk.provider.requests == []


async def test_a_thread_that_cannot_be_made(talk: Talk) -> None:
    talk.provider.aside = lambda exchange: reply(403, {"detail": f"{KEY} is no good"})
    error = await talk.fail("turn-1")
    assert (error.code, KEY in error.text) == ("MODEL_UNAUTHORIZED", False)


async def test_a_request_without_a_turn_is_one_of_its_own(talk: Talk) -> None:
    """The doctor's."""
    for _ in range(2):
        talk.server.run(*hello())
        await talk.model.respond(ModelRequest(talk.entries), Recorder())
    assert len(talk.server.threads) == 2
