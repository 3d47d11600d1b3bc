"""Chat Completions, for the tests of every adapter."""

from app.models import Http, Model
from app.models.chat_completions import ChatCompletions
from tests.app.models.fake_provider import DONE, STOP, chunk, say, tool
from tests.app.models.wire import Call, Piece, Wire, sse


class ChatWire(Wire):
    name = "chat_completions"

    def model(self, http: Http, url: str) -> Model:
        return ChatCompletions(
            name="fake", http=http, base_url=f"{url}/v1", model="fake", api_key="key-12345678"
        )

    def frames(self, *pieces: Piece, complete: bool = True) -> list[bytes]:
        frames = [sse(chunk({"role": "assistant", "content": ""}))]
        calls = 0
        for piece in pieces:
            if isinstance(piece, Call):
                frames.append(sse(tool(calls, f"call_{calls}", piece.name, "")))
                frames += [sse(tool(calls, None, None, text)) for text in piece.fragments]
                calls += 1
            else:
                frames.append(sse(say(piece)))
        if not complete:
            return frames
        end = chunk(finish="tool_calls") if calls else STOP
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        return [*frames, sse(end), sse({**chunk(), "choices": [], "usage": usage}), sse(DONE)]

    def overloaded(self) -> bytes:
        return sse({"error": {"message": "Overloaded, sorry", "code": 529}})
