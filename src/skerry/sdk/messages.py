"""Messages of a conversation, which handlers of hooks read and may create."""

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
