"""Messages that are sent to a chat platform."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from skerry.model.ids import RunId
from skerry.model.inbound import AttachmentKind, ReplyTo


class TextUnit(StrEnum):
    """Unit in which a platform counts the length of a message."""

    CHARACTERS = "characters"
    """Code points."""
    UTF16 = "utf16"
    """Code units of UTF-16, as in JavaScript: an emoji has two or more."""
    BYTES = "bytes"
    """Bytes of UTF-8."""


class Button(Struct, frozen=True):
    """A button below a message; a press arrives as a message of the person with `command`."""

    label: str
    command: str
    """Text of that message, such as `/approve 1f2e allow-once`."""


class OutboundMedia(Struct, frozen=True):
    """A file that is sent with a part; it is in the media folder of the gateway."""

    kind: AttachmentKind
    path: str
    mime: str = ""
    name: str = ""
    voice: bool = False
    """True if a sound is sent as a voice message."""


class Poll(Struct, frozen=True):
    """A question with options for the people of a conversation."""

    question: str
    options: tuple[str, ...]
    most: int = 1
    """Maximum number of options that a person may choose."""
    seconds: int = 0
    """Seconds after which the poll closes; 0 is never."""


class Additions(Struct, frozen=True, omit_defaults=True):
    """Content and options of a part besides its text; stored in its outbox row."""

    media: OutboundMedia | None = None
    """A file; the text is its caption."""
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons, for platforms with buttons; the text must be sufficient without them."""
    poll: Poll | None = None
    silent: bool = False
    """True if the platform is to show the message without a sound."""
    preview: bool = False
    """True for the beginning of a text, which a later part of its run replaces."""
    completes: int = 0
    """Serial of the preview that the text replaces; 0 is none."""


PLAIN: Final = Additions()


class Content(Struct, frozen=True):
    """Text of a part, and its additions."""

    text: str
    additions: Additions = PLAIN


class OutboundPart(Struct, frozen=True):
    """One part of a reply with its final text, from its outbox row.

    `serial` orders the rows of an account; (`run_id`, `block`, `part`) identifies the part
    permanently, and `nonce` is the same as a text, for platforms with idempotency keys.
    """

    serial: int
    run_id: RunId
    block: int
    part: int
    to: ReplyTo
    text: str
    additions: Additions = PLAIN

    @property
    def nonce(self) -> str:
        """Returns a text that identifies the part."""
        return f"{self.run_id}/{self.block}/{self.part}"


class Receipt(Struct, frozen=True):
    """Response of the platform: the ids of the sent messages."""

    platform_ids: tuple[str, ...]


class Settlement(StrEnum):
    """State of a part whose sending was interrupted."""

    DELIVERED = "delivered"
    ABSENT = "absent"
    UNKNOWN = "unknown"
