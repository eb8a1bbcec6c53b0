"""Reads a mail of a mailbox as a message: its text, and handles of its files."""

from collections.abc import Sequence
from typing import Final

from skerry.channels.email import wire
from skerry.channels.email.config import EmailAccount
from skerry.channels.email.imap import FetchedMail, Imap
from skerry.channels.email.imap_wire import Part, parts
from skerry.channels.email.markup import is_forwarded, new_part, own_words
from skerry.sdk.channels import AccountId, InboundMessage, Peer, PeerKind

_MAX_PLAIN_BYTES: Final = 200_000
_MAX_HTML_BYTES: Final = 500_000
"""Bytes of a part that are read; a longer text is cut off."""
MAX_CHARS: Final = 100_000
CUT: Final = "\n[The rest of this mail is left out.]"


async def read_mail(  # noqa: PLR0913, PLR0917 - a mail, where it is, and for whom
    imap: Imap,
    stored: FetchedMail,
    head: wire.MailHead,
    mail_id: str,
    settings: EmailAccount,
    account: AccountId,
    now: int,
) -> InboundMessage | None:
    """Returns the message of a mail; None for one without text, subject and files."""
    every = parts(stored.structure)
    files = wire.attachments(every, mail_id) if settings.media_max_mb else ()
    forwards = is_forwarded(head.subject)
    body = await _text(imap, stored.uid, every, keeps_history=forwards)
    own_text = own_words(body, is_forwarded=forwards)
    text = _with_subject(body[:MAX_CHARS], head)
    if not text and not files:
        return None
    text += CUT if len(body) > MAX_CHARS else ""
    is_mixed = forwards or own_text != body
    sender = wire.sender_id(head, settings.authserv_ids)
    return InboundMessage(
        wire.CHANNEL,
        account,
        Peer(PeerKind.DIRECT, sender),
        sender,
        own_text[:MAX_CHARS] if is_mixed and own_text else text,
        head.message_id or mail_id,
        now,
        thread_id=head.thread or None,
        sender_name=head.name,
        mentions_me=True,
        attachments=files,
        forwarded=is_mixed and not own_text,
        passed_on=text if is_mixed and own_text else "",
        sent_at=stored.arrived * 1000,
        is_verified=not sender.startswith(wire.UNVERIFIED),
    )


async def _text(imap: Imap, uid: int, every: Sequence[Part], *, keeps_history: bool) -> str:
    plain, html = wire.texts(every)
    texts = [await _part_text(imap, uid, part, _MAX_PLAIN_BYTES) for part in plain]
    text = "\n".join(text.strip("\r\n") for text in texts)
    if not text.strip() and html:
        # Imported here: most mails have plain text, and lxml takes 6 MB.
        from skerry.channels.email.html_mail import text_of  # noqa: PLC0415 - at first use

        markup = await _part_text(imap, uid, html[0], _MAX_HTML_BYTES)
        text = text_of(markup, keeps_history=keeps_history)
    text = text[:_MAX_PLAIN_BYTES]
    return text.strip() if keeps_history else new_part(text)


async def _part_text(imap: Imap, uid: int, part: Part, max_bytes: int) -> str:
    data = wire.decoded(await imap.content(uid, part.number, max_bytes), part.encoding)
    return wire.as_text(data, part.params.get("charset", "")).replace("\r\n", "\n")


def _with_subject(text: str, head: wire.MailHead) -> str:
    """Returns the text below the subject, when the subject adds something."""
    if not text:
        return head.subject
    if not head.subject or head.references or text.startswith("/"):
        return text
    return f"Subject: {head.subject}\n\n{text}"
