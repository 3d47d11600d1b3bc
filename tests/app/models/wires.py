"""Every wire. What is here is held to the fault matrix and to the tests of exact text."""

from tests.app.models.wire import Wire
from tests.app.models.wire_anthropic import AnthropicWire
from tests.app.models.wire_bedrock import BedrockWire
from tests.app.models.wire_chat import ChatWire
from tests.app.models.wire_langgraph import LangGraphWire
from tests.app.models.wire_responses import ResponsesWire

WIRES: list[Wire] = [ChatWire(), AnthropicWire(), BedrockWire(), ResponsesWire(), LangGraphWire()]
