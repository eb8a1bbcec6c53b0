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
    """Code units of UTF-16, as JavaScript counts: an emoji is two or more."""
    BYTES = "bytes"
    """Bytes of UTF-8."""


class Button(Struct, frozen=True):
    """A button below a message; a press arrives as a message of the person with its command."""

    label: str
    command: str
    """Text that the person would write instead, such as `/approve 1f2e allow-once`."""


class OutboundMedia(Struct, frozen=True):
    """A file that goes with a part, in the folder of the gateway's media."""

    kind: AttachmentKind
    path: str
    mime: str = ""
    name: str = ""
    voice: bool = False
    """True when a sound is sent as a voice message."""


class Poll(Struct, frozen=True):
    """A question with options that the people of a conversation choose from."""

    question: str
    options: tuple[str, ...]
    most: int = 1
    """Options that a person may choose."""
    seconds: int = 0
    """Time after which it closes; 0 is never."""


class Additions(Struct, frozen=True, omit_defaults=True):
    """Everything that a part has besides its text; stored with its row."""

    media: OutboundMedia | None = None
    """The text is its caption."""
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons, for platforms that have them; the text alone must be enough."""
    poll: Poll | None = None
    silent: bool = False
    """True when the platform is to show the message without a sound."""
    preview: bool = False
    """True for the begin of a text, which a later part of its run replaces."""
    completes: int = 0
    """Serial of the preview that the text replaces; 0 for none."""


PLAIN: Final = Additions()


class Content(Struct, frozen=True):
    """Text of a part, and what it has besides."""

    text: str
    additions: Additions = PLAIN


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
    additions: Additions = PLAIN

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
