"""The messages of a conversation, as handlers get them and may make them."""

from msgspec.structs import replace

from skerry.model.message import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from skerry.model.origin import Origin

__all__ = (
    "AssistantMessage",
    "ImageBlock",
    "Message",
    "Origin",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "ToolResultMessage",
    "Usage",
    "UserMessage",
    "replace",
)
