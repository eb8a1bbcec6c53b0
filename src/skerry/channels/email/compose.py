"""Mails of the account, made of parts of replies."""

import hashlib
import re
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from msgspec import Struct

from skerry.channels.email.markup import html_of
from skerry.sdk.channels import OutboundPart

_MAX_SUBJECT: Final = 78
_REPLY: Final = re.compile(r"^\s*(?:re|aw|antw|sv|vs|r|odp)\s*:", re.IGNORECASE)
_MARKS: Final = re.compile(r"[*_`#>~\[\]]+")
_MAX_REFERENCES: Final = 20
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")


class Thread(Struct, frozen=True):
    """The thread that a mail continues."""

    subject: str = ""
    references: tuple[str, ...] = ()
    """Ids of the earlier mails, oldest first; the last is the answered one."""


class Mailbox(Struct, frozen=True):
    """Address and display name of the account."""

    address: str
    name: str = ""


def part_id(part: OutboundPart, author: Mailbox) -> str:
    """Returns the unique Message-ID of a part, without angle brackets."""
    digest = hashlib.sha256(f"{author.address}\0{part.nonce}".encode()).hexdigest()[:40]
    return f"{digest}.skerry@{author.address.rpartition('@')[2]}"


def composed(
    part: OutboundPart, author: Mailbox, recipient: str, thread: Thread, now_ms: int
) -> EmailMessage:
    """Returns the mail of a part: its text as plain text and as HTML; `attach` adds a file."""
    mail = EmailMessage(SMTP)
    mail["From"] = Address(author.name, addr_spec=author.address)
    mail["To"] = Address(addr_spec=recipient)
    mail["Subject"] = _subject(part.text, thread)
    mail["Date"] = format_datetime(datetime.fromtimestamp(now_ms / 1000, UTC))
    mail["Message-ID"] = f"<{part_id(part, author)}>"
    before = thread.references
    if before:
        references = [before[0], *before[1:][-_MAX_REFERENCES:]]
        mail["In-Reply-To"] = f"<{before[-1]}>"
        mail["References"] = " ".join(f"<{message_id}>" for message_id in references)
    # Other programs and out-of-office replies must not answer this mail.
    mail["Auto-Submitted"] = "auto-replied" if before else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(part.text)
    if html := html_of(part.text):
        mail.add_alternative(html, subtype="html")
    return mail


def attach(mail: EmailMessage, data: bytes, mime: str, name: str) -> None:
    """Adds a file to a mail."""
    content_type = mime.lower() if _TYPE.fullmatch(mime.lower()) else "application/octet-stream"
    kind, _, subtype = content_type.partition("/")
    if kind in {"multipart", "message"}:
        kind, subtype = "application", "octet-stream"
    clean = "".join(char for char in name if char.isprintable()) or "file"
    mail.add_attachment(data, maintype=kind, subtype=subtype, filename=clean)


def _subject(text: str, thread: Thread) -> str:
    if thread.references:
        subject = thread.subject or "your message"
        return _flat(subject if _REPLY.match(subject) else f"Re: {subject}")
    first = next((line for line in text.splitlines() if line.strip()), "")
    subject = _flat(_MARKS.sub("", first)) or "A message for you"
    return subject if len(subject) <= _MAX_SUBJECT else subject[: _MAX_SUBJECT - 1] + "…"


def _flat(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
