"""Types of a model provider: the port `ModelProvider`, its requests, replies and errors."""

from skerry.model.errors import (
    ModelError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import (
    AssistantMessage,
    Block,
    Content,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from skerry.model.thinking import ThinkingLevel
from skerry.model.tool import ToolSpec
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
    "AssistantMessage",
    "Block",
    "Content",
    "History",
    "ImageBlock",
    "Message",
    "ModelCost",
    "ModelError",
    "ModelInfo",
    "ModelOverflowError",
    "ModelOverloadedError",
    "ModelProvider",
    "ModelReply",
    "ModelRequest",
    "ModelRequestError",
    "ModelStreamCutError",
    "ReplyListener",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingLevel",
    "ToolCall",
    "ToolResultMessage",
    "ToolSpec",
    "Usage",
    "UserMessage",
)
