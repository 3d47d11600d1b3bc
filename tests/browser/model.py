"""A model that says what the test says: an OpenAI-compatible server in a thread."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedModel:
    """Every request is answered with the present script, from its beginning; as it grows, it goes
    on. So a request that is made again, after a crash, gets the same answer. Make it with
    `scripted_model`."""

    def __init__(self) -> None:
        self.requests = 0
        self.left = 0  # requests whose client went away before their end
        self._changed = threading.Condition()
        self._pieces: list[str] = []
        self._over = False  # the present script is complete
        self._closing = False

    def say(self, *pieces: str) -> None:
        with self._changed:
            self._pieces += pieces
            self._changed.notify_all()

    def finish(self, *pieces: str) -> None:
        """Say the last, and end the answer."""
        with self._changed:
            self._pieces += pieces
            self._over = True
            self._changed.notify_all()

    def begin(self) -> None:
        """The next request gets a new script, which is empty yet."""
        with self._changed:
            self._pieces, self._over = [], False

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def chunks(self) -> Iterator[dict[str, Any]]:
        """What one request is answered with; waits for the test."""
        with self._changed:
            self.requests += 1
            pieces = self._pieces
        said = 0
        while True:
            with self._changed:
                while len(pieces) == said and not (self._over or self._closing):
                    self._changed.wait()
                if self._closing:
                    return
                new, over = pieces[said:], self._over
            for piece in new:
                yield _chunk({"content": piece})
            said += len(new)
            if over:
                yield {**_chunk({}), "choices": [_choice({}, "stop")]}
                return


def _choice(delta: dict[str, str], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _chunk(delta: dict[str, str]) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [_choice(delta, None)]}


@contextmanager
def scripted_model() -> Iterator[tuple[ScriptedModel, str]]:
    """The model, and its address as a configuration's `base_url`."""
    model = ScriptedModel()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for chunk in model.chunks():
                    self.wfile.write(b"data: %b\n\n" % json.dumps(chunk).encode())
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                model.left += 1

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield model, f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        model.close()
        with suppress(OSError):
            server.shutdown()
        thread.join()
        server.server_close()
