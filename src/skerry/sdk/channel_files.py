"""Files that accounts of chat platforms send and fetch."""

from pathlib import Path
from typing import Final

import anyio.to_thread

from skerry.model.errors import DeliveryRefusedError
from skerry.model.inbound import Attachment, AttachmentKind
from skerry.model.outbound import OutboundMedia
from skerry.model.undelivered import MediaError
from skerry.sdk.channel_host import Fetched, FormFile, Outcome

__all__ = ["byte_limit", "fetched_file", "kind_of", "read_file"]
_KINDS: Final = {
    "image": AttachmentKind.IMAGE,
    "audio": AttachmentKind.AUDIO,
    "video": AttachmentKind.VIDEO,
}
_OK: Final = 200


def kind_of(mime: str | None) -> AttachmentKind:
    """Returns the kind of a file with this MIME type; `FILE` for an unknown one."""
    return _KINDS.get((mime or "").partition("/")[0], AttachmentKind.FILE)


def byte_limit(attachment: Attachment, limit: int, account_mb: int) -> int:
    """Returns the smaller of two limits, in bytes.

    Args:
        attachment: File that is to be fetched.
        limit: Limit of the gateway, in bytes.
        account_mb: Limit of the account, in MB of 1,000,000 bytes.

    Raises:
        MediaError: the platform reports a larger size.
    """
    max_bytes = min(limit, account_mb * 1_000_000)
    if attachment.size > max_bytes:
        raise MediaError(f"{attachment.name} has {attachment.size} bytes; {max_bytes} are allowed.")
    return max_bytes


def fetched_file(attachment: Attachment, fetched: Fetched) -> bytes:
    """Returns the content of a fetched file. Raises `MediaError` when the fetch failed."""
    if fetched.outcome is not Outcome.ALLOW or fetched.status != _OK:
        raise MediaError(f"{attachment.name} cannot be fetched: {fetched.reason}")
    return fetched.body


async def read_file(media: OutboundMedia, max_bytes: int | None = None) -> FormFile:
    """Reads a file that is to be sent.

    Raises:
        DeliveryRefusedError: the file cannot be read, or is larger than `max_bytes`.
    """
    path = Path(media.path)
    try:
        data = await anyio.to_thread.run_sync(path.read_bytes)
    except OSError as error:
        message = f"The file {media.path} cannot be read: {error.strerror}."
        raise DeliveryRefusedError(message) from None
    if max_bytes is not None and len(data) > max_bytes:
        raise DeliveryRefusedError(f"{path.name} has {len(data)} bytes; {max_bytes} are allowed.")
    return FormFile(media.name or path.name, media.mime, data)
