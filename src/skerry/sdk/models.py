"""Models that a plugin offers: the port of a provider, and what goes in and out."""

from skerry.model.message import TextBlock, ThinkingBlock, ToolCall, Usage
from skerry.ports.model import (
    History,
    ModelCost,
    ModelInfo,
    ModelProvider,
    ModelReply,
    ModelRequest,
    ReplyListener,
)

__all__ = (
    "History",
    "ModelCost",
    "ModelInfo",
    "ModelProvider",
    "ModelReply",
    "ModelRequest",
    "ReplyListener",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "Usage",
)
