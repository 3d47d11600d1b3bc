"""One adapter per wire protocol, each a small module behind the interface in `interface.py`."""

from app.models.errors import ModelError
from app.models.interface import (
    AssistantStep,
    Completion,
    Entry,
    Model,
    ModelRequest,
    ProviderState,
    Sink,
    ToolCall,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserEntry,
)

__all__ = [
    "AssistantStep",
    "Completion",
    "Entry",
    "Model",
    "ModelError",
    "ModelRequest",
    "ProviderState",
    "Sink",
    "ToolCall",
    "ToolResult",
    "ToolResults",
    "ToolSpec",
    "UserEntry",
]
