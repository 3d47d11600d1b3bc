"""Every error code of web/PROTOCOL.md: it can be provoked, and has the status and shape it says."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import h11
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from store.errors import StoreUnavailableError
from tests.app.world import ScriptedModel as Scripted
from tests.app.world import hangs, says
from tests.web.inside import broken_store
from tests.web.wire import JSON, THREAD, Answer, Wire, wired
from web.replies import BODY_SECONDS
from web.routes import streams

PROTOCOL = (Path(streams.__file__).parents[1] / "PROTOCOL.md").read_text(encoding="utf-8")
NOWHERE = "x" * 32
POST = f"/api/threads/{THREAD}/messages"


def documented() -> dict[str, int]:
    """code -> status, from the table under "Errors"."""
    section = PROTOCOL[PROTOCOL.index("\n## Errors\n") :]
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|$", section, re.MULTILINE)
    return {code: int(status) for status, cell in rows for code in re.findall("`([A-Z_]+)`", cell)}


Provoke = Callable[[Wire], Awaitable[Answer]]
CASES: list[tuple[str, Provoke]] = []


def case(code: str) -> Callable[[Provoke], Provoke]:
    def add(provoke: Provoke) -> Provoke:
        CASES.append((code, provoke))
        return provoke

    return add


def asks(code: str, method: str, path: str, body: Any = None, **headers: str | None) -> None:
    async def provoke(wire: Wire) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await wire.ask(method, path, body, sent)

    provoke.__name__ = f"{method} {path} {body!r:.60} {headers or ''}"
    CASES.append((code, provoke))


def message(**changes: Any) -> dict[str, Any]:
    return {"id": "message-01", "parts": [{"type": "text", "text": "Hello"}], **changes}


# BODY_INVALID

for body in (
    b"",
    b"Hello",
    b"[]",
    b"null",
    b"{",
    b'{"id": "message-01"}',
    message(unknown=1),
    message(id=7),
    message(parts=[]),
    message(parts="Hello"),
    message(parts=[{"type": "text"}]),
    message(parts=[{"type": "text", "text": ""}]),
    message(parts=[{"type": "text", "text": 7}]),
    message(parts=[{"type": "text", "text": "a", "unknown": 1}]),
    message(parts=[{"type": "video", "text": "a"}]),
    message(parts=[{"text": "a"}]),
    message(parts=[{"type": "text", "text": "a"}] * 101),
    message(during="later"),
    message(during=None),
    message(parent=7),
    message(model=["a"]),
    b'{"id":"message-01","parts":[{"type":"text","text":"\xff"}]}',
    b'{"id":"message-01","parts":[{"type":"text","text":"\xed\xa0\x80"}]}',
    b'{"id":"message-01","parts":[{"type":"text","text":"\\ud800"}]}',
    b'{"id":"message-01","parts":[{"type":"text","text":"\\udc00 x"}]}',
    b"[" * 100_000,
    b'{"id":"message-01","parts":[{"unknown":' + b"[" * 100_000,
    b'{"id":"message-01","parts":[{"unknown":' + b'{"a":' * 100_000,
):
    asks("BODY_INVALID", "POST", POST, body)
for change in (b"", {"title": ""}, {"title": "x" * 201}, {"title": 7}, {"colour": "red"}):
    asks("BODY_INVALID", "PATCH", f"/api/threads/{THREAD}", change)

# ID_INVALID

for id_ in ("short", "x" * 65, "with%20space-", "%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4"):
    asks("ID_INVALID", "POST", f"/api/threads/{id_}/messages", message())
    asks("ID_INVALID", "GET", f"/api/threads/{id_}")
    asks("ID_INVALID", "GET", f"/api/threads/{id_}/stream")
    asks("ID_INVALID", "PATCH", f"/api/threads/{id_}", {"title": "a"})
    asks("ID_INVALID", "DELETE", f"/api/threads/{id_}")
    asks("ID_INVALID", "DELETE", f"/api/threads/{id_}/turns/message-01")
    asks("ID_INVALID", "DELETE", f"/api/threads/{THREAD}/turns/{id_}")
for id_ in ("", "short", "x" * 65, "a/b/c/d/e", "message\n01", "message\x0001", "mässage-01"):
    asks("ID_INVALID", "POST", POST, message(id=id_))

# CURSOR_INVALID


async def with_cursor(wire: Wire, cursor: str, how: str) -> Answer:
    stream = await wire.send(model="hanging")
    other = await wire.send(thread="thread-02")
    await wire.read(other)
    text = cursor.format(stream=stream, other=other)
    path = f"/api/streams/{stream}"
    if how == "header":
        return await wire.ask("GET", path, headers={"Last-Event-ID": text})
    return await wire.ask("GET", f"{path}?{how}={text}", headers={"Accept": JSON})


def cursors(cursor: str, *hows: str) -> None:
    for how in hows:

        async def provoke(wire: Wire, how: str = how) -> Answer:
            return await with_cursor(wire, cursor, how)

        provoke.__name__ = f"cursor {cursor} in {how}"
        CASES.append(("CURSOR_INVALID", provoke))


HOWS = ("header", "lastEventId", "after")
for cursor in (
    "x",
    "00",
    "{stream}",
    "{stream}:",
    "{stream}:-1",
    "{stream}:1.5",
    "{stream}:9999999999999999",
    "{stream}:999999999999999",
    "{stream}:1000",
    "{stream}:1:1",
    ":1",
    "short:1",
    "{other}:1",
    f"{NOWHERE}:1",
):
    cursors(cursor, *HOWS)
cursors("{stream}:\xb2", "header")
cursors("{stream}:%D9%A1", "lastEventId", "after")
asks("CURSOR_INVALID", "GET", f"/api/threads/{THREAD}/stream", Last_Event_ID="nonsense")
asks("CURSOR_INVALID", "POST", POST, message(), Last_Event_ID="nonsense")

# QUERY_INVALID

for limit in ("0", "201", "-1", "", "x", "1e2", "1_0", "nan", "inf", "%D9%A1", "9" * 400):
    asks("QUERY_INVALID", "GET", f"/api/threads?limit={limit}")
for after in ("x", "e30=", "W10=", "%C3%A4", "WzEsMl0=", "WzAsLTEsImEiXQ==", "null"):
    asks("QUERY_INVALID", "GET", f"/api/threads?after={after}")
# [0, 10**30, "a"]: more than the store can take.
HUGE = "WzAsMTAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMCwiYSJd"
asks("QUERY_INVALID", "GET", f"/api/threads?after={HUGE}")


def waits(wait: str) -> None:
    async def provoke(wire: Wire) -> Answer:
        path = f"/api/streams/{await wire.send()}?wait={wait}"
        return await wire.ask("GET", path, headers={"Accept": JSON})

    provoke.__name__ = f"wait {wait}"
    CASES.append(("QUERY_INVALID", provoke))


for wait in ("-1", "31", "30.001", "nan", "inf", "1e1", "x", "", "1_0", "9" * 400):
    waits(wait)

# 403

asks("HOST_FORBIDDEN", "GET", "/api/threads", Host="attacker.example")
asks("HOST_FORBIDDEN", "GET", "/", Host="attacker.example")
asks("HOST_FORBIDDEN", "GET", "/nothing", Host="attacker.example")
asks("ORIGIN_FORBIDDEN", "GET", "/api/threads", Origin="http://attacker.example")
asks("ORIGIN_FORBIDDEN", "POST", POST, message(), Origin="null")
asks("ORIGIN_FORBIDDEN", "DELETE", f"/api/threads/{THREAD}", Sec_Fetch_Site="cross-site")
asks("ORIGIN_FORBIDDEN", "OPTIONS", POST, Origin="http://attacker.example")

asks("ATTACHMENT_INVALID", "PUT", "/api/attachments/file-0001?name=a.exe", b"MZ\0\1\2\xff")

# 404

for method, path in (
    ("GET", "/api/threads/thread-99"),
    ("GET", "/api/threads/thread-99/export"),
):
    asks("THREAD_NOT_FOUND", method, path)
asks("THREAD_NOT_FOUND", "PATCH", "/api/threads/thread-99", {"title": "a"})
for id_ in (NOWHERE, "x", "%00", "%ED%A0%80", "'; DROP TABLE stream", "9" * 4000):
    asks("STREAM_NOT_FOUND", "GET", f"/api/streams/{id_.replace(' ', '%20')}")
    asks("STREAM_NOT_FOUND", "DELETE", f"/api/streams/{id_.replace(' ', '%20')}")
asks("STREAM_NOT_FOUND", "GET", f"/api/streams/{NOWHERE}", Accept=JSON)
asks("STREAM_NOT_FOUND", "GET", f"/api/threads/{THREAD}/stream", Last_Event_ID=f"{NOWHERE}:1")
asks("STREAM_NOT_FOUND", "POST", POST, message(), Last_Event_ID=f"{NOWHERE}:1")


@case("STREAM_NOT_FOUND")
async def a_stream_of_another_thread(wire: Wire) -> Answer:
    stream = await wire.send(thread="thread-02")
    path = f"/api/threads/{THREAD}/stream"
    return await wire.ask("GET", path, headers={"Last-Event-ID": f"{stream}:1"})


asks("MESSAGE_NOT_FOUND", "POST", POST, message(parent="message-99"))
asks("MESSAGE_NOT_FOUND", "POST", f"{POST}/message-99/answers", {"id": "answer-01"})


@case("MESSAGE_NOT_FOUND")
async def a_parent_of_another_thread(wire: Wire) -> Answer:
    await wire.send(thread="thread-02", id_="message-02")
    return await wire.post(parent="message-02")


asks("MODEL_NOT_FOUND", "POST", POST, message(model="nobody"))
asks("ATTACHMENT_NOT_FOUND", "GET", "/api/attachments/nothing-1")
for method, path in (
    ("GET", "/nothing"),
    ("GET", "/api"),
    ("GET", "/api/"),
    ("GET", "/api/threads/"),
    ("GET", f"/api/threads/{THREAD}/"),
    ("GET", "/api//threads"),
    ("GET", "/static/nothing"),
    ("GET", "/static/../server.py"),
    ("GET", "/static/%2e%2e/server.py"),
    ("GET", "/t/"),
    ("GET", "/t/a/b"),
    ("GET", "/api/streams/a%2Fb"),
    ("POST", f"{POST}/"),
):
    asks("NOT_FOUND", method, path)

# 405

for method, path in (
    ("POST", "/api/threads"),
    ("PUT", f"/api/threads/{THREAD}"),
    ("GET", POST),
    ("POST", f"/api/streams/{NOWHERE}"),
    ("POST", "/api/feed"),
    ("DELETE", "/healthz"),
    ("POST", "/"),
    ("TRACE", "/api/threads"),
    ("PROPFIND", "/api/threads"),
):
    asks("METHOD_NOT_ALLOWED", method, path)

# 408 … 503


@case("BODY_TIMEOUT")
async def a_body_that_does_not_come(wire: Wire) -> Answer:
    exchange = await wire.connect()
    await exchange.send(wire.head("POST", POST, {"Content-Length": "10"}), h11.Data(data=b"{"))
    began = trio.current_time()
    answer = await exchange.answer()
    assert trio.current_time() - began == pytest.approx(BODY_SECONDS, abs=1)
    return answer


@case("TURN_RUNNING")
async def a_message_that_does_not_want_to_wait(wire: Wire) -> Answer:
    await wire.send(model="hanging")
    return await wire.post(during="reject")


@case("MESSAGE_CONFLICT")
async def an_id_of_another_thread(wire: Wire) -> Answer:
    await wire.send(id_="message-02", thread="thread-02")
    return await wire.post(id_="message-02")


@case("MESSAGE_CONFLICT")
async def an_id_of_an_answer(wire: Wire) -> Answer:
    turn = (await wire.post()).json["turn"]
    return await wire.post(id_=turn)


@case("BODY_TOO_LARGE")
async def too_large_and_said_so(wire: Wire) -> Answer:
    return await wire.post("x" * 2_000_000)


@case("BODY_TOO_LARGE")
async def too_large_and_not_said(wire: Wire) -> Answer:
    exchange = await wire.connect()
    await exchange.send(wire.head("POST", POST, {"Transfer-Encoding": "chunked"}))
    with trio.move_on_after(5):  # it may be told before it has sent all
        for _ in range(40):
            await exchange.send(h11.Data(data=b"x" * 50_000))
        await exchange.send(h11.EndOfMessage())
    return await exchange.answer()


@case("INTERNAL")
async def a_fault_of_ours(wire: Wire) -> Answer:
    async def fails(_id: str) -> None:
        raise RuntimeError("secret")

    wire.services.threads.snapshot = fails  # type: ignore[method-assign, assignment]
    return await wire.get(f"/api/threads/{THREAD}")


@case("STREAM_LIMIT_REACHED")
async def one_more_than_are_allowed(wire: Wire) -> Answer:
    for n in range(3):
        await wire.send(thread=f"thread-{n:02d}", model="hanging")
    return await wire.post(thread="thread-99")


@case("SHUTTING_DOWN")
async def a_message_that_comes_too_late(wire: Wire) -> Answer:
    body = b'{"id":"message-01","parts":[{"type":"text","text":"a"}]}'
    exchange = await wire.connect()
    await exchange.send(wire.head("POST", POST, {"Content-Length": str(len(body))}))
    await wait_all_tasks_blocked()
    wire.services.shut_down()
    await wait_all_tasks_blocked()
    await exchange.send(h11.Data(data=body), h11.EndOfMessage())
    return await exchange.answer()


@case("STORE_FAILED")
async def a_store_that_takes_nothing(wire: Wire) -> Answer:
    with broken_store(wire.services):
        return await wire.post()


@case("STORE_FAILED")
async def a_store_that_gives_nothing(wire: Wire) -> Answer:
    def fails(_function: object) -> None:
        raise StoreUnavailableError("secret")

    wire.services.database._read = fails  # type: ignore[method-assign, assignment]
    return await wire.get("/api/threads")


@pytest.mark.parametrize(
    ("code", "provoke"), CASES, ids=[f"{code}: {p.__name__}" for code, p in CASES]
)
async def test_the_code_has_its_status_and_shape(
    code: str, provoke: Provoke, tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    models = (Scripted(says("a")), Scripted(hangs, name="hanging"))
    async with wired(tmp_path / "u.db", *models, max_streams=3) as wire:
        answer = await provoke(wire)
        assert (answer.status, answer.code) == (documented()[code], code)
        assert ("retry-after" in answer.headers) == (answer.status == 503)
        assert ("allow" in answer.headers) == (answer.status == 405)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "the disk" not in answer.json["message"]


def test_every_documented_code_is_provoked() -> None:
    elsewhere = {"SIGN_IN_REQUIRED"}  # test_wire_access.py
    assert {code for code, _ in CASES} | elsewhere == documented().keys()
