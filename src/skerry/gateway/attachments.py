"""Images of a message: converts the forms that clients send into blocks of the transcript."""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from skerry.gateway.context import GatewayContext
from skerry.gateway.method import RefusedError
from skerry.model.errors import ModelUnavailableError
from skerry.model.ids import AgentId
from skerry.model.message import ImageBlock, Message

MAX_IMAGE: Final = 6_291_456
"""Limit of one image, in bytes."""
MAX_TOGETHER: Final = 19_464_192
"""Limit of all images of a message, in bytes; as base64 they fit into a frame."""
MAX_COUNT: Final = 20

POLICY: Final = {"maxBytes": MAX_TOGETHER, "maxImageBytes": MAX_IMAGE}
"""Limits that `hello-ok` reports."""

_DATA_URL: Final = re.compile(r"data:[^,]{0,200},")
_SPACE: Final = re.compile(r"\s+")


def images(attachments: Sequence[dict[str, Any]]) -> tuple[ImageBlock, ...]:
    """Returns the attachments as images; their first bytes determine the type.

    The base64 is in `content`, plain or as a data URL, or in `source.data`.

    Raises:
        RefusedError: an attachment is no supported image, is not valid base64, or is too large.
    """
    blocks: list[ImageBlock] = []
    total_bytes = 0
    for number, attachment in enumerate(attachments, start=1):
        name = _name(attachment, number)
        data = _data(attachment, name)
        total_bytes += len(data)
        if len(data) > MAX_IMAGE:
            raise RefusedError(f"{name} has {len(data)} bytes; an image may have {MAX_IMAGE}.")
        if total_bytes > MAX_TOGETHER:
            raise RefusedError(f"The images have more than {MAX_TOGETHER} bytes together.")
        kind = _kind(data)
        if kind is None:
            raise RefusedError(
                f"{name} is not a PNG, JPEG, GIF or WebP image; others cannot be attached."
            )
        blocks.append(ImageBlock(base64.b64encode(data).decode(), kind))
    return tuple(blocks)


async def check_model(context: GatewayContext, agent: AgentId) -> None:
    """Checks that the model which will answer accepts images.

    Raises:
        RefusedError: the model does not accept images.
    """
    reference = context.config().primary_model(agent)
    try:
        _, model = await context.models.choose(reference)
    except ModelUnavailableError:
        return  # the run reports it
    if "image" not in model.input:
        raise RefusedError(
            f"{model.ref} reads no images. Choose a model that does, or leave them out."
        )


def has_images(message: Message) -> bool:
    """Returns True for a message of the transcript with images."""
    return any(isinstance(block, ImageBlock) for block in message.content)


def without_images(line: bytes) -> bytes:
    """Returns an encoded message in which the sizes of images replace their data."""
    message = msgspec.json.decode(line)
    for block in message["content"]:
        if block["type"] == "image":
            block |= {"omitted": True, "bytes": len(block.pop("data")) * 3 // 4}
    return msgspec.json.encode(message)


def _name(attachment: dict[str, Any], number: int) -> str:
    name = attachment.get("fileName")
    return f"Attachment {number}" + (f" ({name[:100]})" if isinstance(name, str) and name else "")


def _data(attachment: dict[str, Any], name: str) -> bytes:
    content = attachment.get("content")
    source = attachment.get("source")
    if content is None and isinstance(source, dict):
        content = source.get("data")
    if not isinstance(content, str) or not content:
        raise RefusedError(f"{name} has no content; send its bytes as base64.")
    encoded = content
    if prefix := _DATA_URL.match(content):
        encoded = content[prefix.end() :]
    if len(encoded) > MAX_IMAGE * 3 // 2:
        raise RefusedError(f"{name} is too large; an image may have {MAX_IMAGE} bytes.")
    try:
        return base64.b64decode(_SPACE.sub("", encoded), validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError(f"The content of {name} is not base64.") from None


def _kind(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None
