"""Messages that are sent to a chat platform."""

from enum import StrEnum

from msgspec import Struct

from skerry.model.ids import RunId
from skerry.model.inbound import ReplyTo


class TextUnit(StrEnum):
    """Unit in which a platform counts the length of a message."""

    CHARACTERS = "characters"
    """Code points."""
    UTF16 = "utf16"
    """Code units of UTF-16, as JavaScript counts: an emoji is two or more."""
    BYTES = "bytes"
    """Bytes of UTF-8."""


class OutboundPart(Struct, frozen=True):
    """One part of a reply with its final text, as its outbox row holds it.

    `serial` orders the rows of an account; (`run_id`, `block`, `part`) names the part for ever, and
    `nonce` is that name as text, for platforms that take one.
    """

    serial: int
    run_id: RunId
    block: int
    part: int
    to: ReplyTo
    text: str

    @property
    def nonce(self) -> str:
        """Returns a text that is equal only for the same part."""
        return f"{self.run_id}/{self.block}/{self.part}"


class Receipt(Struct, frozen=True):
    """Response of the platform: its ids of the message it now shows."""

    platform_ids: tuple[str, ...]


class Settlement(StrEnum):
    """Result of asking an adapter for a part whose sending was interrupted."""

    DELIVERED = "delivered"
    ABSENT = "absent"
    UNKNOWN = "unknown"
