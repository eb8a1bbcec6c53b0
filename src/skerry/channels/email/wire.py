"""Conversion of mails to messages: heads, parts, senders, and mails that must not be answered."""

import base64
import binascii
import quopri
import re
from collections.abc import Mapping, Sequence
from email.header import decode_header, make_header
from email.parser import BytesHeaderParser
from email.policy import compat32
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from skerry.channels.email.imap_wire import Part
from skerry.channels.email.verification import is_verified
from skerry.sdk.channel_files import kind_of
from skerry.sdk.channels import Attachment, ChannelId

CHANNEL: Final = ChannelId("email")
UNVERIFIED: Final = "unverified:"
"""Prefix of the id of an unverified sender."""
_MAX_ADDRESS: Final = 254
_MAX_FIELD: Final = 2000
_MAX_REFERENCES: Final = 16_384
_MAX_NAME: Final = 256
_MAX_ATTACHMENTS: Final = 32
_MAX_TEXTS: Final = 4
_ID: Final = re.compile(r"<([!-;=?-~]{1,250})>")
_ATOM: Final = r"[!#-'*+/-9=?A-Z^-~-]"
_ADDRESS: Final = re.compile(
    rf"(?=[^@]{{1,64}}@){_ATOM}++(?:\.{_ATOM}++)*+@"
    r"[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)*+"
)
"""An address that Python's library can write into a mail: without two dots in a row."""
_ENCODED: Final = re.compile(r"=\?[^?\s]{1,60}\?[bBqQ]\?[^?\s]*\?=")
_PLACEHOLDER: Final = "\ufffc"
"""Replaces an encoded word, whose content is no syntax."""
_MAILBOX: Final = re.compile(
    rf'(?:(?P<name>"(?:[^"\\]++|\\.)*+" *|[^<>@",;:]*)<(?P<address>{_ADDRESS.pattern})>'
    rf"|(?P<bare>{_ADDRESS.pattern}))"
)
_NO_REPLY: Final = re.compile(
    r"^(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+@-]|$)", re.IGNORECASE
)
_BULK: Final = frozenset({"bulk", "junk", "list", "auto_reply"})
_NO_CHARSETS: Final = frozenset({"idna", "punycode", "raw_unicode_escape", "unicode_escape"})
"""Codecs of Python that no mail uses; some take time that grows with the square of the text."""
_NO_ATTACHMENTS: Final = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)


class MailHead(Struct, frozen=True):
    """The header fields of a mail that are used."""

    address: str
    """Address of the sender, in small letters; empty when it is ambiguous."""
    name: str
    subject: str
    message_id: str
    """Id without its angle brackets; empty when the mail has none."""
    references: tuple[str, ...]
    """Ids of the mails before it in its thread, oldest first."""
    authentication: tuple[str, ...]
    fields: Mapping[str, str]
    """The first of each field by its name in small letters, not decoded."""

    @property
    def thread(self) -> str:
        """Returns the id of the first mail of its thread, which may be itself."""
        return self.references[0] if self.references else self.message_id

    def is_verified(self, authserv_ids: Sequence[str]) -> bool:
        """Returns whether a trusted server vouches for the sender."""
        domain = self.address.rpartition("@")[2]
        return is_verified(self.authentication, authserv_ids, domain)


def read_head(data: bytes) -> MailHead:
    """Returns the fields of the head of a mail; accepts malformed heads."""
    first: dict[str, str] = {}
    authentication: list[str] = []
    senders: list[str] = []
    for name, value in BytesHeaderParser(policy=compat32).parsebytes(data).raw_items():
        text = _unfolded(str(value))
        low = name.lower()
        first.setdefault(low, text)
        if low == "authentication-results":
            authentication.append(text)
        elif low == "from":
            senders.append(text)
    address, display_name = _sender(senders)
    references = _ID.findall(first.get("references", "")[:_MAX_REFERENCES])
    references = references or _ID.findall(first.get("in-reply-to", "")[:_MAX_FIELD])[:1]
    ids = _ID.findall(first.get("message-id", "")[:_MAX_FIELD])
    subject = _decoded(first.get("subject", "")[:_MAX_FIELD])
    return MailHead(
        address,
        display_name,
        " ".join(subject.split())[:_MAX_NAME],
        ids[0] if ids else "",
        tuple(references),
        tuple(authentication),
        first,
    )


def _unfolded(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return raw.replace("\r", "").replace("\n", "")


def _sender(fields: list[str]) -> tuple[str, str]:
    """Returns address and name of the only sender; empty texts when the header is ambiguous.

    A header that programs read in different ways is refused: the server that verified the sender
    may have read another address.
    """
    if len(fields) != 1 or len(fields[0]) > _MAX_FIELD:
        return "", ""
    match = _MAILBOX.fullmatch(_ENCODED.sub(_PLACEHOLDER, fields[0].strip()))
    address = (match["bare"] or match["address"]) if match else ""
    if match is None or len(address) > _MAX_ADDRESS:
        return "", ""
    name = (match["name"] or "").strip()
    if name.startswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    for word in _ENCODED.findall(fields[0]):
        name = name.replace(_PLACEHOLDER, word, 1)
    return address.lower(), _decoded(name)[:_MAX_NAME]


def _decoded(text: str) -> str:
    try:
        return str(make_header(decode_header(text)))
    except (ValueError, LookupError, binascii.Error):
        return text


def sender_id(head: MailHead, authserv_ids: Sequence[str]) -> str:
    """Returns the address of the sender, with the prefix `unverified:` unless it is verified."""
    return head.address if head.is_verified(authserv_ids) else UNVERIFIED + head.address


def is_message_id(text: str) -> bool:
    """Returns whether a text is an id of a mail, without its angle brackets."""
    return "@" in text and bool(_ID.fullmatch(f"<{text}>"))


def address_of(peer: str) -> str:
    """Returns the address of a peer; empty if it is not an address."""
    address = peer.removeprefix(UNVERIFIED)
    return address if _ADDRESS.fullmatch(address) and len(address) <= _MAX_ADDRESS else ""


def unanswered(head: MailHead, account_address: str) -> str:
    """Returns why a mail must not be answered, which prevents loops of two programs; or ""."""
    get = head.fields.get
    automatic = get("auto-submitted", "no").partition(";")[0].strip().lower()
    suppressed = get("x-auto-response-suppress", "").lower()
    reasons = {
        "it has no valid sender": not head.address,
        "the account wrote it": head.address == account_address.lower(),
        "a program wrote it (Auto-Submitted)": automatic != "no",
        "it is sent to many (Precedence)": get("precedence", "").strip().lower() in _BULK,
        "it is of a mailing list": any(name.startswith("list-") for name in head.fields),
        "its sender wants no automatic answer": "all" in suppressed or "autoreply" in suppressed,
        "a program wrote it (X-Autoreply)": bool(head.fields.keys() & _AUTOMATIC),
        "it is a notice of the mail system": get("return-path", "x").strip() == "<>"
        or get("content-type", "").lower().startswith("multipart/report"),
        "its sender is a no-reply address": bool(_NO_REPLY.match(head.address)),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


_AUTOMATIC: Final = frozenset({"x-autoreply", "x-autorespond", "x-autoresponse"})


def texts(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Returns the parts with the plain text of a mail, and those with its HTML."""
    inline = [part for part in parts if part.disposition != "attachment"]
    plain = [part for part in inline if part.mime == "text/plain"]
    return plain[:_MAX_TEXTS], [part for part in inline if part.mime == "text/html"][:1]


def attachments(parts: Sequence[Part], mail_handle: str) -> tuple[Attachment, ...]:
    """Returns the files of a mail; `mail_handle` names the mail in its folder."""
    plain, html = texts(parts)
    used = {part.number for part in (*plain, *html)}
    files: list[Attachment] = []
    for part in parts:
        is_shown = part.container in {"related", "alternative"} and part.disposition != "attachment"
        if part.number in used or is_shown or part.mime in _NO_ATTACHMENTS:
            continue
        if part.mime == "text/html" and part.disposition != "attachment":
            continue
        kind = kind_of(part.mime)
        size = part.size * 3 // 4 if part.encoding == "base64" else part.size
        handle = f"{mail_handle}/{part.number}/{part.encoding or '7bit'}"
        files.append(Attachment(kind, handle, part.mime[:_MAX_NAME], _file_name(part), size))
    return tuple(files[:_MAX_ATTACHMENTS])


def _file_name(part: Part) -> str:
    name = part.name
    if name.count("'") >= 2 and "%" in name:  # noqa: PLR2004 - RFC 2231: charset'language'text
        name = unquote(name.split("'", 2)[2])
    name = "".join(char for char in _decoded(name[:_MAX_FIELD]) if char.isprintable())
    return (name or ("mail.eml" if part.mime == "message/rfc822" else ""))[:_MAX_NAME]


def decoded(data: bytes, encoding: str) -> bytes:
    """Returns a part without its transfer encoding; of a cut part as much as can be decoded."""
    if encoding == "base64":
        plain = re.sub(rb"[^A-Za-z0-9+/]", b"", data)
        return base64.b64decode(plain[: len(plain) // 4 * 4] + _padded_end(plain))
    return quopri.decodestring(data) if encoding == "quoted-printable" else data


def _padded_end(plain: bytes) -> bytes:
    """Returns the last characters of base64, padded."""
    end = plain[len(plain) // 4 * 4 :]
    return end + b"=" * (4 - len(end)) if len(end) > 1 else b""


def as_text(data: bytes, charset: str) -> str:
    """Returns the text decoded by its charset; by UTF-8 when the charset is unknown."""
    try:
        codec = "utf-8" if charset.lower().replace("-", "_") in _NO_CHARSETS else charset
        return data.decode(codec or "utf-8", "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")
