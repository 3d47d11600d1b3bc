"""What a broken provider becomes: the fault matrix on a real socket (PROTOCOLS.md, E4)."""

import socket
import ssl
import time
from email.utils import formatdate
from typing import Any

import pytest
import trio
import trio.testing
import trustme

from app.models import Http, ModelError
from app.models.chat_completions import ChatCompletions
from tests.app.models.conftest import ask, closed_port
from tests.app.models.fake_provider import (
    DONE,
    END,
    FIN,
    HANG,
    RST,
    STOP,
    FakeProvider,
    Repeat,
    Step,
    Until,
    frame,
    head,
    part,
    reply,
    say,
)
from tests.app.models.recorder import Recorder

pytestmark = pytest.mark.requirement("S3")

KEY = "sk-verysecretkey1234567890"


def model_at(base_url: str, http: Http, **members: Any) -> ChatCompletions:
    members = {"name": "fake", "model": "fake", "api_key": KEY, **members}
    return ChatCompletions(http=http, base_url=base_url, **members)


@pytest.fixture
def model(provider: FakeProvider, http: Http) -> ChatCompletions:
    return model_at(provider.base_url, http)


async def failure(model: ChatCompletions, sink: Recorder | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.respond(ask("Hello"), sink or Recorder())
    return caught.value


# before there are headers


async def test_refused(http: Http) -> None:
    error = await failure(model_at(f"http://127.0.0.1:{await closed_port()}/v1", http))
    assert (error.code, error.retryable) == ("MODEL_UNREACHABLE", True)
    assert error.text == "127.0.0.1 could not be reached: Connection refused."


class NoNames(trio.abc.HostnameResolver):
    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    async def getnameinfo(self, *_: Any) -> Any:
        raise AssertionError("nobody asks")


async def test_unknown_name(http: Http) -> None:
    before = trio.socket.set_custom_hostname_resolver(NoNames())
    try:
        error = await failure(model_at("http://no.such.localhost:1/v1", http))
    finally:
        trio.socket.set_custom_hostname_resolver(before)
    assert (error.code, error.retryable) == ("MODEL_UNREACHABLE", True)
    assert "the name is not known" in error.text


@pytest.mark.parametrize("end", [FIN, RST])
async def test_closed_before_headers(model: Any, provider: FakeProvider, end: Step) -> None:
    provider.play(end)
    error = await failure(model)
    assert (error.code, error.retryable) == ("MODEL_UNREACHABLE", True)


async def test_an_untrusted_certificate_is_not_retried(
    nursery: trio.Nursery, http: Http, tls: ssl.SSLContext
) -> None:
    fake = FakeProvider()
    fake.ssl_context = tls
    await nursery.start(fake.serve)
    error = await failure(model_at(fake.base_url, http))
    assert (error.code, error.retryable) == ("MODEL_UNREACHABLE", False)
    assert "not secure" in error.text
    assert "certificate" in error.text


@pytest.fixture
def tls() -> ssl.SSLContext:
    """A server's context with a certificate of an authority that nobody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_plain_http_where_tls_is_expected_is_not_retried(
    provider: FakeProvider, http: Http, nursery: trio.Nursery
) -> None:
    async def answer_nonsense(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.aclose()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, answer_nonsense, listeners)
    error = await failure(model_at(f"https://127.0.0.1:{port}/v1", http))
    assert (error.code, error.retryable) == ("MODEL_UNREACHABLE", False)
    assert "not secure" in error.text


async def test_a_tls_handshake_cut_short_is_retried(http: Http, nursery: trio.Nursery) -> None:
    async def leave(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, leave, listeners)
    error = await failure(model_at(f"https://127.0.0.1:{port}/v1", http))
    assert (error.code, error.retryable) == ("MODEL_UNREACHABLE", True)


# statuses


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (301, "MODEL_PROTOCOL", False),
        (400, "MODEL_REQUEST_REFUSED", False),
        (401, "MODEL_UNAUTHORIZED", False),
        (402, "MODEL_RATE_LIMITED", False),
        (403, "MODEL_UNAUTHORIZED", False),
        (404, "MODEL_NOT_FOUND", False),
        (408, "MODEL_ERROR", True),
        (409, "MODEL_ERROR", True),
        (413, "CONTEXT_TOO_LONG", False),
        (422, "MODEL_REQUEST_REFUSED", False),
        (429, "MODEL_RATE_LIMITED", True),
        (500, "MODEL_ERROR", True),
        (502, "MODEL_ERROR", True),
        (503, "MODEL_OVERLOADED", True),
        (504, "MODEL_ERROR", True),
        (529, "MODEL_OVERLOADED", True),
    ],
)
async def test_a_status(
    model: Any, provider: FakeProvider, status: int, code: str, retryable: bool
) -> None:
    provider.play(*reply(status, {"error": {"message": "Said by the provider"}}))
    error = await failure(model)
    assert (error.code, error.retryable, error.retry_after) == (code, retryable, None)
    assert "Said by the provider." in error.text
    assert f"HTTP {status}" in error.text


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (
            429, {"error": {"message": "m", "type": "insufficient_quota",
                            "code": "insufficient_quota"}},
            "MODEL_RATE_LIMITED", False,
        ),
        (400, {"error": {"message": "m", "code": "context_length_exceeded"}},
         "CONTEXT_TOO_LONG", False),
        (400, {"object": "error", "type": "BadRequestError", "code": 400,
               "message": "This model's maximum context length is 4096 tokens. However, ..."},
         "CONTEXT_TOO_LONG", False),
        (400, {"error": {"message": "filtered", "code": "content_filter", "innererror":
                         {"code": "ResponsibleAIPolicyViolation"}}}, "CONTENT_FILTERED", False),
        (400, {"error": {"message": "m", "code": "model_not_found"}}, "MODEL_NOT_FOUND", False),
        (404, {"error": {"message": 'model "x" not found, try pulling it first',
                         "type": "api_error"}}, "MODEL_NOT_FOUND", False),
        (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
         "MODEL_OVERLOADED", True),
    ],
)  # fmt: skip
async def test_what_the_body_says_wins_over_the_status(
    model: Any, provider: FakeProvider, status: int, body: Any, code: str, retryable: bool
) -> None:
    provider.play(*reply(status, body))
    error = await failure(model)
    assert (error.code, error.retryable) == (code, retryable)


async def test_a_context_that_is_too_long_says_what_to_do(
    model: Any, provider: FakeProvider
) -> None:
    provider.play(*reply(413, "too big"))
    assert (await failure(model)).text == (
        "The conversation is too long for this model. Start a new thread, shorten the message, or"
        " choose a model with a larger context window (HTTP 413): too big."
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": "plain string"}, "plain string"),
        ({"message": "top level"}, "top level"),
        ({"detail": "from FastAPI"}, "from FastAPI"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, "field required"),
        ([{"error": {"message": "Gemini's list", "code": 500}}], "Gemini's list"),
        (
            {"error": {"message": "Provider returned error", "code": 500,
                       "metadata": {"raw": '{"error":{"message":"behind it"}}'}}},
            "Provider returned error: behind it",
        ),
        ("just text", "just text"),
        ("<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway"),
        ("", ""),
    ],
)  # fmt: skip
async def test_the_providers_words_reach_the_person(
    model: Any, provider: FakeProvider, body: Any, said: str
) -> None:
    provider.play(*reply(500, body))
    error = await failure(model)
    assert error.text == "127.0.0.1 failed (HTTP 500)" + (f": {said}." if said else ".")


async def test_long_words_are_trimmed_and_keys_kept_out(model: Any, provider: FakeProvider) -> None:
    said = f"Wrong key {KEY}, was Bearer abcdefghijkl, or sk-otherkey-0123456789\n" + "x" * 5000
    provider.play(*reply(401, {"error": {"message": said}}))
    text = (await failure(model)).text
    assert "Wrong key [key], was Bearer [key], or [key] xxx" in text
    assert len(text) < 700


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
    ],
)
async def test_retry_after(
    model: Any, provider: FakeProvider, headers: dict[str, str], seconds: float | None
) -> None:
    provider.play(*reply(429, {}, **headers))
    error = await failure(model)
    assert (error.retryable, error.retry_after) == (True, seconds)


async def test_retry_after_as_a_date(model: Any, provider: FakeProvider) -> None:
    provider.play(*reply(503, {}, retry_after=formatdate(time.time() + 3600, usegmt=True)))
    error = await failure(model)
    assert error.retry_after is not None
    assert 3500 < error.retry_after <= 3600


@pytest.mark.parametrize(("status", "said"), [(400, "true"), (500, "false")])
async def test_x_should_retry_wins(
    model: Any, provider: FakeProvider, status: int, said: str
) -> None:
    provider.play(*reply(status, {}, x_should_retry=said))
    assert (await failure(model)).retryable == (said == "true")


async def test_an_error_body_that_never_ends(
    model: Any, provider: FakeProvider, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    provider.play(head(500, "text/plain"), part(b"half a "), HANG)
    assert (await failure(model)).code == "MODEL_ERROR"


async def test_an_endless_error_body(model: Any, provider: FakeProvider) -> None:
    provider.play(head(500, "text/plain"), Repeat(part(b"x" * 50_000), 0))
    assert (await failure(model)).code == "MODEL_ERROR"
    assert provider.requests[0].bytes_sent < 10_000_000


# in the body


@pytest.mark.parametrize("end", [FIN, RST])
async def test_cut_in_the_body(
    model: Any, provider: FakeProvider, sink: Recorder, end: Step
) -> None:
    provider.play(head(), frame(say("half ")), end)
    error = await failure(model, sink)
    assert (error.code, error.retryable) == ("MODEL_EOF", True)
    assert error.text.startswith("127.0.0.1 broke off the answer")
    assert sink.all_text == "half "


async def test_a_clean_end_without_finish(model: Any, provider: FakeProvider) -> None:
    provider.play(head(), frame(say("half ")), END)
    error = await failure(model)
    assert (error.code, error.retryable) == ("MODEL_EOF", True)


async def test_a_close_that_only_looks_clean(model: Any, provider: FakeProvider) -> None:
    provider.play(head(chunked=False), b'data: {"choices": []}\n\n', FIN)
    error = await failure(model)
    assert (error.code, error.retryable) == ("MODEL_EOF", True)


@pytest.mark.parametrize("end", [FIN, RST])
async def test_a_cut_after_the_finish_does_not_spoil_the_answer(
    model: Any, provider: FakeProvider, end: Step
) -> None:
    provider.play(head(), frame(say("all")), frame(STOP), end)
    assert (await model.respond(ask("x"), Recorder())).finish_reason == "stop"


async def test_a_body_that_is_no_http(model: Any, provider: FakeProvider) -> None:
    provider.play(head(), frame(say("x")), b"no chunk size\r\n", FIN)
    error = await failure(model)
    assert (error.code, error.retryable) == ("MODEL_EOF", True)


@pytest.mark.parametrize("after", [[frame(DONE)], []])
async def test_a_server_that_never_closes_after_the_finish(
    model: Any,
    provider: FakeProvider,
    after: list[Step],
    autojump_clock: trio.testing.MockClock,
) -> None:
    autojump_clock.autojump_threshold = 0.05
    provider.play(head(), frame(say("all")), frame(STOP), *after, HANG)
    began = trio.current_time()
    assert (await model.respond(ask("x"), Recorder())).finish_reason == "stop"
    assert trio.current_time() - began < 3
    await provider.requests[0].closed.wait()


async def test_pings_after_the_finish_do_not_hold_the_answer(
    model: Any, provider: FakeProvider, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    provider.play(head(), frame(STOP), Repeat(part(b": ping\n\n"), 0.5))
    began = trio.current_time()
    assert (await model.respond(ask("x"), Recorder())).finish_reason == "stop"
    assert trio.current_time() - began < 4


# configuration


async def test_a_missing_key_fails_before_anything_is_sent(
    provider: FakeProvider, http: Http
) -> None:
    error = await failure(model_at(provider.base_url, http, api_key=None, missing="No key there."))
    assert (error.code, error.retryable, error.text) == (
        "MODEL_UNAUTHORIZED", False, "No key there.",
    )  # fmt: skip
    assert provider.connections == 0


async def test_an_impossible_key_is_not_shown(provider: FakeProvider, http: Http) -> None:
    error = await failure(model_at(provider.base_url, http, api_key="top\nsecret"))
    assert (error.code, error.retryable) == ("MODEL_REQUEST_REFUSED", False)
    assert "secret" not in error.text
    assert "secret" not in repr(error.__cause__)


@pytest.mark.parametrize("url", ["http://127.0.0.1:port/v1", "127.0.0.1/v1", "ftp://127.0.0.1"])
async def test_an_impossible_address(http: Http, url: str) -> None:
    error = await failure(model_at(url, http))
    assert (error.code, error.retryable) == ("MODEL_REQUEST_REFUSED", False)


async def test_a_model_without_name_is_the_first_listed(
    provider: FakeProvider, http: Http, sink: Recorder
) -> None:
    provider.play(*reply(200, {"object": "list", "data": [{"id": "one"}, {"id": "two"}]}))
    provider.stream(say("x"), STOP)
    model = model_at(provider.base_url, http, model="")
    await model.respond(ask("x"), sink)
    listed, asked = provider.requests
    assert (listed.method, listed.path) == ("GET", "/v1/models")
    assert listed.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json["model"] == model.model == "one"


@pytest.mark.parametrize(
    ("body", "code"),
    [({"data": []}, "MODEL_NOT_FOUND"), ({}, "MODEL_PROTOCOL"), ("<html>", "MODEL_PROTOCOL")],
)
async def test_a_model_without_name_where_none_is_listed(
    provider: FakeProvider, http: Http, body: Any, code: str
) -> None:
    provider.play(*reply(200, body))
    error = await failure(model_at(provider.base_url, http, model=""))
    assert (error.code, error.retryable) == (code, False)


# cancelling, and what it leaves behind


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    "script",
    [
        [HANG],
        [head(), HANG],
        [head(), frame(say("half")), HANG],
        [head(), frame(say("half")), part(b'data: {"choices"'), HANG],
        [head(500), part(b"half an error"), HANG],
    ],
    ids=["headers", "first event", "mid-body", "mid-event", "error body"],
)
async def test_cancelling_closes_the_connection_at_once(
    model: Any, provider: FakeProvider, nursery: trio.Nursery, script: list[Step]
) -> None:
    """CASES.md, P19: the provider sees the close within a second of the stop."""
    provider.play(*script)
    scope = trio.CancelScope()
    sink = Recorder()

    async def respond() -> None:
        with scope:
            await model.respond(ask("x"), sink)

    nursery.start_soon(respond)
    exchange = await provider.arrived()
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert not exchange.closed.is_set()
    scope.cancel(reason="the person stopped it")
    with trio.fail_after(1):
        await exchange.closed.wait()


@pytest.mark.requirement("C2")
async def test_cancelling_in_a_flood_closes_the_connection_at_once(
    model: Any, provider: FakeProvider
) -> None:
    provider.play(head(), Repeat(frame(say("on and on")), 0))
    with trio.CancelScope() as scope:

        class Enough(Recorder):
            def text(self, delta: str) -> None:
                super().text(delta)
                if self.count("text") == 50:
                    scope.cancel(reason="the person stopped it")

        await model.respond(ask("x"), Enough())
    assert scope.cancelled_caught
    with trio.fail_after(1):
        await provider.requests[0].closed.wait()


async def test_a_connection_is_used_again_after_a_whole_answer(
    model: Any, provider: FakeProvider
) -> None:
    for _ in range(3):
        provider.stream(say("x"), STOP, DONE)
        await model.respond(ask("x"), Recorder())
    assert [request.connection for request in provider.requests] == [1, 1, 1]


@pytest.mark.parametrize("script", [[head(), HANG], [head(), frame({"error": "x"}), HANG]])
async def test_a_stalled_connection_is_never_used_again(
    model: Any, provider: FakeProvider, script: list[Step]
) -> None:
    provider.play(*script)
    with trio.move_on_after(0.05):
        await failure(model)
    provider.stream(say("x"), STOP)
    await model.respond(ask("x"), Recorder())
    assert [request.connection for request in provider.requests] == [1, 2]


async def test_a_kept_connection_that_the_server_dropped_meanwhile(
    model: Any, provider: FakeProvider
) -> None:
    provider.play(head(), frame(STOP), frame(DONE), END, FIN)
    await model.respond(ask("x"), Recorder())
    await trio.testing.wait_all_tasks_blocked(0.05)  # the server has sent its FIN
    provider.stream(say("x"), STOP)
    await model.respond(ask("x"), Recorder())
    assert [request.connection for request in provider.requests] == [1, 2]


@pytest.mark.requirement("S2")
async def test_pings_for_ever_only_show_that_the_line_is_alive(
    model: Any, provider: FakeProvider, sink: Recorder
) -> None:
    """CASES.md, P02: comments never count as progress."""
    provider.play(head(), frame(say("half")), Repeat(part(b": ping\n\n"), 0.001))
    with trio.CancelScope() as scope:

        class Enough(Recorder):
            def alive(self) -> None:
                super().alive()
                if self.count("alive") == 50:
                    scope.cancel(reason="seen enough")

        sink = Enough()
        await model.respond(ask("x"), sink)
    assert sink.kinds == ["text", "alive"]


async def test_every_piece_waits_for_room(model: Any, provider: FakeProvider) -> None:
    """A slow store holds the provider back, not memory."""
    go, rooms = trio.Event(), 0

    class Full(Recorder):
        async def room(self) -> None:
            nonlocal rooms
            rooms += 1
            await go.wait()

    sink, second = Full(), trio.Event()
    provider.play(head(), frame(say("one")), Until(second), frame(say("two")), frame(STOP), END)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(model.respond, ask("x"), sink)
        await trio.testing.wait_all_tasks_blocked(0.02)
        second.set()
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert (sink.text_deltas, rooms) == (["one"], 1)
        go.set()
    assert sink.text_deltas == ["one", "two"]


async def test_many_requests_at_once_do_not_wait_for_each_other(
    model: Any, provider: FakeProvider
) -> None:
    go = trio.Event()
    for _ in range(150):
        provider.play(head(), frame(say("x")), Until(go), frame(STOP), END)
    async with trio.open_nursery() as nursery:
        for _ in range(150):
            nursery.start_soon(model.respond, ask("x"), Recorder())
        with trio.fail_after(20):
            await provider.arrived(150)
        go.set()


async def test_loopback_is_never_asked_through_a_proxy(
    model: Any, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    provider.stream(say("x"), STOP)
    assert (await model.respond(ask("x"), Recorder())).finish_reason == "stop"


@pytest.mark.parametrize("proxy", ["gopher://me:secret@127.0.0.1:9", "socks5://127.0.0.1:9"])
async def test_a_proxy_that_cannot_be_used(
    http: Http, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    error = await failure(model_at("https://model.invalid/v1", http))
    assert (error.code, error.retryable) == ("MODEL_UNREACHABLE", False)
    assert "proxy" in error.text
    assert "secret" not in error.text
