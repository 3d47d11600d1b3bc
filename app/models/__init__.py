"""One adapter per wire protocol, each a small module behind the interface in `interface.py`."""

from app.models.catalogue import Catalogue, ModelInfo, discover
from app.models.config import Limits, ModelConfig
from app.models.errors import ModelError
from app.models.http import Http, open_http
from app.models.interface import (
    AssistantStep,
    Completion,
    Entry,
    Model,
    ModelRequest,
    ProviderState,
    ResumableModel,
    Sink,
    ToolCall,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserEntry,
)

__all__ = [
    "AssistantStep",
    "Catalogue",
    "Completion",
    "Entry",
    "Http",
    "Limits",
    "Model",
    "ModelConfig",
    "ModelError",
    "ModelInfo",
    "ModelRequest",
    "ProviderState",
    "ResumableModel",
    "Sink",
    "ToolCall",
    "ToolResult",
    "ToolResults",
    "ToolSpec",
    "UserEntry",
    "discover",
    "open_http",
]
