"""Converts the result of a call of a server for a model: text, pictures, and what is left out."""

import base64
import binascii
import json
from typing import Any, Final

import anyio.to_thread
import mcp_types
from msgspec import Struct, field

from skerry.model.message import ImageBlock
from skerry.policy.folding import visible

MAX_PICTURES: Final = 4
MAX_PICTURE: Final = 2 * 1024 * 1024
"""Limit of one picture, in bytes."""
_MAGIC: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


class McpResult(Struct, frozen=True):
    """Result of a call."""

    text: str
    is_error: bool = False
    pictures: tuple[ImageBlock, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    """Facts for clients."""


async def result_of(result: mcp_types.CallToolResult, limit: int) -> McpResult:
    """Returns the result with at most `limit` characters of text; decodes pictures in a thread."""
    if any(block.type == "image" for block in result.content):
        return await anyio.to_thread.run_sync(converted, result, limit)
    return converted(result, limit)


def converted(result: mcp_types.CallToolResult, limit: int) -> McpResult:
    """Returns the result with at most `limit` characters of text."""
    texts: list[str] = []
    pictures: list[ImageBlock] = []
    for block in result.content:
        if isinstance(block, mcp_types.ImageContent):
            picture = _picture(block) if len(pictures) < MAX_PICTURES else None
            texts.append("" if picture else f"[A picture ({block.mime_type[:40]}) was left out.]")
            pictures += [picture] if picture else []
        else:
            texts.append(_text(block))
    if not any(text.strip() for text in texts) and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = visible("\n\n".join(filter(None, texts)))
    details: dict[str, Any] = {"length": len(text)}
    if len(text) > limit:
        details["truncated"] = True
        text = f"{text[:limit]}\n\n[The result was cut after {limit} of {len(text)} characters.]"
    if not text and not pictures:
        text = "The tool returned no text."
    return McpResult(text, bool(result.is_error), tuple(pictures), details)


def _text(block: mcp_types.ContentBlock) -> str:
    match block:
        case mcp_types.TextContent():
            return block.text
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as resource):
            return f"[{resource.uri}]\n{resource.text}"
        case mcp_types.EmbeddedResource():
            return f"[A file ({block.resource.uri}) was left out: it is not text.]"
        case mcp_types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case _:
            return f"[A part of the kind {block.type} was left out.]"


def _picture(block: mcp_types.ImageContent) -> ImageBlock | None:
    """Returns the picture; None if it is too large or not of its declared type."""
    if len(block.data) > MAX_PICTURE * 4 // 3 + 4:
        return None
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    magic = _MAGIC.get(block.mime_type)
    if magic is None or not data.startswith(magic):
        return None
    return ImageBlock(block.data, block.mime_type)
