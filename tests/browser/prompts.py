"""A model that has an answer to each prompt, for tests that share a server.

It speaks Chat Completions. `says("hello", "# Hello")` answers every message that is exactly
`hello`; what it was told nothing about is answered with itself.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

CONFIG = """\
[models.prompted]
base_url = "{url}"
model = "prompted"
max_retries = 0

[models.demo]
kind = "demo"

[models.nobody]
base_url = "http://127.0.0.1:9/v1"
model = "nobody"
"""


class Say(NamedTuple):
    """`size`: characters of a delta; `rate`: deltas a second, 0: all at once; `status`: of HTTP."""

    text: str
    size: int = 200
    rate: float = 0
    status: int = 200


class Prompts:
    """Make it with `prompted_model`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Any] = []  # bodies, in order
        self._says: dict[str, Say] = {}

    def says(self, prompt: str, text: str, *, size: int = 200, rate: float = 0) -> str:
        """Answer the prompt so from now on; returns it."""
        self._says[prompt] = Say(text, size, rate)
        return prompt

    def fails(self, prompt: str, status: int) -> str:
        """Refuse the prompt so from now on; returns it."""
        self._says[prompt] = Say("", status=status)
        return prompt

    def answer(self, request: Any) -> Say:
        self.requests.append(request)
        last = next(m for m in reversed(request["messages"]) if m["role"] == "user")
        content = last["content"]
        texts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
        text = next((text for text in texts if text in self._says), texts[0])
        return self._says.get(text, Say(text))

    def write_config(self, folder: Path) -> Path:
        """The configuration of a server: this model, the demonstration, one out of reach."""
        path = folder / "unbroken.toml"
        path.write_text(CONFIG.format(url=self.url), encoding="utf-8")
        return path


def _chunks(say: Say, usage: bool) -> Iterator[dict[str, Any]]:
    for at in range(0, len(say.text), say.size):
        delta = {"content": say.text[at : at + say.size]}
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if usage:
        tokens = {"prompt_tokens": 12, "completion_tokens": 3456, "total_tokens": 3468}
        yield {"choices": [], "usage": tokens}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Prompts

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        say = self.model.answer(body)
        if say.status != 200:
            self.reply(say.status, {"error": {"message": "The model is not there right now."}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        began = time.monotonic()
        try:
            for number, chunk in enumerate(_chunks(say, "stream_options" in body)):
                if say.rate:  # an absolute schedule: a late delta does not delay those after it
                    time.sleep(max(0.0, began + number / say.rate - time.monotonic()))
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # nobody listens any more
        self.close_connection = True

    def do_GET(self) -> None:
        self.reply(200, {"object": "list", "data": [{"id": "prompted", "object": "model"}]})

    def reply(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def prompted_model() -> Iterator[Prompts]:
    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.model = Prompts(f"http://127.0.0.1:{server.server_address[1]}/v1")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield Handler.model
        finally:
            server.shutdown()
            thread.join()
