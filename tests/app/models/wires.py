"""Every wire. What is here is held to the fault matrix and to the tests of exact text."""

from tests.app.models.wire import Wire
from tests.app.models.wire_anthropic import AnthropicWire
from tests.app.models.wire_chat import ChatWire

WIRES: list[Wire] = [ChatWire(), AnthropicWire()]
