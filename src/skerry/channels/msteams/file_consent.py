"""Files of the bot: small pictures in the message itself, others after the person's consent.

Teams lets a bot upload files in personal chats only: the bot asks by a card, and when the person
accepts, Teams gives an address in the person's OneDrive to which the bot uploads.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from skerry.sdk.channel_files import read_file
from skerry.sdk.channel_host import Cursor
from skerry.sdk.channels import DeliveryRefusedError, OutboundMedia, OutboundPart, PeerKind

MAX_BYTES: Final = 10_000_000
"""Bytes of a file that is uploaded."""
MAX_INLINE: Final = 18_000
"""Bytes of a picture within a message: an activity has 28 KB at most."""
INVOKE: Final = "fileConsent/invoke"
_CONSENT: Final = "application/vnd.microsoft.teams.card.file.consent"
_INFO: Final = "application/vnd.microsoft.teams.card.file.info"
_INLINE: Final = frozenset({"image/png", "image/jpeg", "image/gif"})
_OFFERED: Final = "file"


class OfferedFile(Struct, frozen=True):
    """A file that waits for the consent of a person."""

    path: str
    name: str
    chat: str


class UploadInfo(Struct, frozen=True, rename="camel"):
    """The address to which a file is uploaded."""

    upload_url: str = ""
    content_url: str = ""
    name: str = ""
    unique_id: str = ""
    file_type: str = ""


class Consent(Struct, frozen=True, rename="camel"):
    """The answer of a person to the card."""

    action: str = ""
    context: Any = None
    upload_info: UploadInfo = UploadInfo()

    @property
    def part(self) -> str:
        """Returns the name of the part that the card was about; empty for a strange answer."""
        named = self.context.get("part") if isinstance(self.context, dict) else None
        return named if isinstance(named, str) else ""


_offered = msgspec.json.Decoder(OfferedFile)


async def attached(part: OutboundPart, media: OutboundMedia, cursor: Cursor) -> dict[str, Any]:
    """Returns the attachment by which a file is sent, or offered.

    Raises:
        DeliveryRefusedError: the file is gone or too large, or Teams accepts none from bots here.
    """
    data = (await read_file(media, MAX_BYTES)).data
    name = media.name or Path(media.path).name
    if media.mime in _INLINE and len(data) <= MAX_INLINE:
        url = f"data:{media.mime};base64,{base64.b64encode(data).decode()}"
        return {"contentType": media.mime, "contentUrl": url, "name": name}
    if part.to.peer.kind is not PeerKind.DIRECT:
        raise DeliveryRefusedError(
            f"{name} cannot be sent here: outside of personal chats Teams accepts from bots only"
            f" pictures of at most {MAX_INLINE} bytes."
        )
    offered = OfferedFile(media.path, name, part.to.peer.id)
    await cursor.write(f"{_OFFERED}:{part.nonce}", msgspec.json.encode(offered).decode())
    context = {"part": part.nonce}
    content = {
        "description": name,
        "sizeInBytes": len(data),
        "acceptContext": context,
        "declineContext": context,
    }
    return {"contentType": _CONSENT, "name": name, "content": content}


async def read_offer(consent: Consent, chat: str, cursor: Cursor) -> OfferedFile | None:
    """Returns the offered file of a consent; None for a file that was not offered in the chat."""
    text = await cursor.read(f"{_OFFERED}:{consent.part}") if consent.part else ""
    offered = _offered.decode(text) if text else None
    return offered if offered is not None and offered.chat == chat else None


async def forget_offer(consent: Consent, cursor: Cursor) -> None:
    """Deletes the offer of a file."""
    await cursor.write(f"{_OFFERED}:{consent.part}", "")


def file_card(upload: UploadInfo) -> Mapping[str, Any]:
    """Returns the attachment that shows an uploaded file."""
    return {
        "contentType": _INFO,
        "contentUrl": upload.content_url,
        "name": upload.name,
        "content": {"uniqueId": upload.unique_id, "fileType": upload.file_type},
    }
