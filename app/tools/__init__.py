"""What a model may have done: tools, by name."""

from app.tools.builtin import Wait
from app.tools.registry import Tool, Toolbox, ToolError

__all__ = ["Tool", "ToolError", "Toolbox", "Wait"]
