"""A server others can reach lets in who has the token, and nobody else."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.access import COOKIE_SECONDS, AccessToken, load_token
from app.errors import InvalidError
from tests.crash.server import running_server
from web.admission import token_of

TOKEN = "a-token-of-at-least-twenty-characters"
NOW = 1_800_000_000_000
DATA_PATHS = (
    "/api/threads",
    "/api/threads/thread-01",
    "/api/threads/thread-01/stream",
    "/api/streams/aaaaaaaaaaaaaaaaaaaaaaaa",
    "/api/feed",
    "/api/models",
    "/api/search?q=x",
    "/api/attachments/attachment-1",
)

pytestmark = pytest.mark.requirement("A2")


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The link that a server on all addresses printed."""
    folder = tmp_path_factory.mktemp("access")
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with running_server(
        folder / "data", host="0.0.0.0", token_file=str(token), model="demo"
    ) as server:
        yield server.url


@pytest.fixture
def client(link: str) -> Iterator[httpx2.Client]:
    port = httpx2.URL(link).port
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as found:
        yield found


def test_the_printed_link_has_the_token_and_an_address(link: str) -> None:
    assert re.fullmatch(rf"http://[0-9.]+:\d+/\?token={TOKEN}", link)
    assert "0.0.0.0" not in link


@pytest.mark.parametrize("path", DATA_PATHS)
def test_without_the_token_every_route_answers_401(client: httpx2.Client, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "unbroken-1=1.2"}):
        reply = client.get(path, headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (401, "SIGN_IN_REQUIRED")
    body = {"id": "message-01", "parts": [{"type": "text", "text": "x"}]}
    reply = client.post("/api/threads/thread-01/messages", json=body)
    assert reply.status_code == 401


def test_the_page_without_the_token_is_401_and_asks_for_it(client: httpx2.Client) -> None:
    assert client.get("/").status_code == 401
    assert client.get("/healthz").status_code == 200


def test_the_link_becomes_a_cookie_and_leaves_the_address(client: httpx2.Client) -> None:
    reply = client.get(f"/t/thread-01?token={TOKEN}")
    assert reply.status_code == 303
    assert reply.url.join(reply.headers["Location"]).raw_path == b"/t/thread-01"
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    assert client.get("/api/threads").status_code == 200
    assert client.get("/").status_code == 200


def test_a_wrong_link_leads_to_the_page_that_asks_for_the_right_one(client: httpx2.Client) -> None:
    reply = client.get("/t/thread-01?token=wrong")
    assert reply.status_code == 303
    assert "Set-Cookie" not in reply.headers
    page = client.get(reply.url.join(reply.headers["Location"]))
    assert page.status_code == 401
    assert page.url.raw_path == b"/t/thread-01"
    assert client.get("/api/threads").status_code == 401


def test_programs_send_the_token_itself(client: httpx2.Client) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/threads", headers=headers).status_code == 200


@pytest.mark.requirement("F5")
def test_a_person_pastes_the_link_or_the_token(client: httpx2.Client, link: str) -> None:
    assert client.post("/api/sign-in", json={"token": "nonsense"}).status_code == 401
    assert client.get("/api/threads").status_code == 401
    for pasted in (link, TOKEN, f"  {TOKEN}\n"):
        client.cookies.clear()
        assert client.post("/api/sign-in", json={"token": pasted}).status_code == 204
        assert client.get("/api/threads").status_code == 200


def test_other_sites_are_refused_under_a_token_too(client: httpx2.Client) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"}
    assert client.get("/api/threads", headers=headers).status_code == 403


def test_a_cookie_expires_and_cannot_be_made_up() -> None:
    access = AccessToken(TOKEN)
    cookie = access.cookie(NOW)
    assert access.admits(cookie, NOW + COOKIE_SECONDS * 1000 - 1000)
    assert not access.admits(cookie, NOW + COOKIE_SECONDS * 1000)
    assert not AccessToken(f"{TOKEN}x").admits(cookie, NOW)
    expires, signature = cookie.split(".")
    for forged in ("", ".", cookie[:-1], f"{int(expires) + 1}.{signature}", "é.é", f"{expires}."):
        assert not access.admits(forged, NOW)


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "access-token"
    token = load_token(path).token
    assert len(token) >= 40
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_token(path).token == token


@pytest.mark.parametrize(("text", "mode"), [("short", 0o600), (TOKEN, 0o644), ("a b" * 20, 0o600)])
def test_a_bad_token_file_is_refused(tmp_path: Path, text: str, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(InvalidError) as caught:
        load_token(path)
    assert caught.value.code == "CONFIG_INVALID"
    assert text not in caught.value.text


@pytest.mark.parametrize("pasted", ["http://[bad/?token=x", "//℀/", "http://[::1/"])
def test_what_is_no_link_is_no_token(client: httpx2.Client, pasted: str) -> None:
    assert client.post("/api/sign-in", json={"token": pasted}).status_code == 401


def test_token_of_a_pasted_link() -> None:
    assert token_of(f"http://x:1/?a=b&token={TOKEN}#f") == TOKEN
    assert token_of(TOKEN) == TOKEN
