"""One mailbox: receives by IMAP with IDLE, answers by SMTP."""

import logging
import re
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
from msgspec import Struct

from skerry.channels.email import wire
from skerry.channels.email.api import HEAD_BYTES, MailServers
from skerry.channels.email.compose import Mailbox, Thread, attach, composed, part_id
from skerry.channels.email.config import EmailAccount
from skerry.channels.email.imap import FetchedMail, Imap, SelectedFolder
from skerry.channels.email.line_stream import UnreadableError
from skerry.channels.email.reading import read_mail
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_files import read_file
from skerry.sdk.channel_host import ChannelHost, Recent
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    ConnectionState,
    DeliveryRefusedError,
    InboundMessage,
    Inbox,
    MediaError,
    OutboundPart,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 540.0
"""Time after which IDLE is restarted: a server may end it after 29 minutes, and a router may drop
a silent connection earlier."""
MAX_TEXT: Final = 60_000
"""Characters of a mail."""
HOUR_MS: Final = 3_600_000
_MAX_SENDERS: Final = 1000
_MAX_THREADS: Final = 500
_MAX_FILE: Final = 10_000_000
_UNREADABLE_TIMES: Final = 2
"""Connections that may fail on the same mail before it is skipped."""
_POSITION: Final = "place"
_SENDING: Final = "sending"
_SENT: Final = "sent"
_HANDLE: Final = re.compile(r"(\d+)\.(\d+)/([\d.]+)/([a-z0-9-]+)")
_KEEP_SECONDS: Final = 4.0
"""Time for the copy in the folder of sent mail, after the mail itself was sent."""


class _Position(Struct):
    """Position up to which the mailbox was read."""

    validity: int
    uid: int
    arrived: int
    """Arrival of the last accepted mail, in seconds since 1970."""

    @classmethod
    def parse(cls, text: str) -> "_Position | None":
        numbers = text.split()
        return cls(*map(int, numbers)) if len(numbers) == 3 else None  # noqa: PLR2004 - its fields

    def __str__(self) -> str:
        return f"{self.validity} {self.uid} {self.arrived}"


class EmailAdapter(Account):
    """Implements `ports.channel.ChannelAdapter`, `Fetches` and `Probes`."""

    channel = wire.CHANNEL
    text_limit = MAX_TEXT
    text_unit = TextUnit.CHARACTERS
    capabilities = Capabilities(threads=True, media_in=True, media_out=True, rich_text=True)

    def __init__(self, settings: EmailAccount, host: ChannelHost, servers: MailServers) -> None:
        super().__init__(host)
        secret = "the sign-in" if settings.oauth else "the password"
        self.login_remedy = f"Check the address and {secret}"
        self._settings = settings
        self._servers = servers
        self._limit = RateLimit("the mail server", self.failed)
        self._author = Mailbox(settings.address, settings.name)
        self._accepted_at: dict[str, deque[int]] = {}
        """Times of the mails that were accepted within the last hour, by sender."""
        self._threads = Recent[str, Thread](_MAX_THREADS)
        """Threads of the last mails by mail id; an answer continues the thread."""
        self._unreadable: tuple[str, int] = ("", 0)
        """The last mail with an unreadable description, and its failures in a row."""

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; stores the position after `inbox` has accepted a mail.

        Mails from before the first connection are not answered.
        """
        while True:
            try:
                await self._receive(inbox)
            except PlatformError as error:
                await anyio.sleep(self.failed(error))

    async def _receive(self, inbox: Inbox) -> None:
        async with self._servers.imap() as imap:
            box = await imap.select(self._settings.folder)
            position = await self._read_position(imap, box)
            self.connected(self._settings.address)
            while True:
                imap.has_arrivals = False
                await self._take_new(imap, position, inbox)
                self.connected(self._settings.address)
                if imap.has_arrivals:
                    continue
                if "IDLE" in imap.capabilities:
                    await imap.idle(IDLE_SECONDS, lambda: self.connected(self._settings.address))
                else:
                    await anyio.sleep(self._settings.poll_seconds)

    async def _read_position(self, imap: Imap, box: SelectedFolder) -> _Position:
        """Returns the stored position in the folder; its present end for a new folder."""
        position = _Position.parse(await self.host.cursor.read(_POSITION))
        if position is not None and position.validity == box.validity:
            return position
        if position is not None:
            # The numbers have another meaning now. Recent mails are read again; the ledger drops
            # those that were accepted before.
            logger.warning("email/%s: the server renumbered the mails of the folder", self.account)
            return _Position(box.validity, 0, position.arrived)
        last = box.next_uid - 1 if box.next_uid else max(await imap.search("UID *"), default=0)
        position = _Position(box.validity, last, self.host.clock.now_ms() // 1000)
        await self.host.cursor.write(_POSITION, str(position))
        return position

    async def _take_new(self, imap: Imap, position: _Position, inbox: Inbox) -> None:
        criteria = f"UID {position.uid + 1}:*"
        if not position.uid:
            since = datetime.fromtimestamp(position.arrived, UTC) - timedelta(days=1)
            criteria += f" SINCE {since.day}-{_MONTHS[since.month - 1]}-{since.year}"
        for uid in await imap.search(criteria):
            if uid <= position.uid:
                continue  # `*` matches the last mail even when it is not new
            is_accepted = await self._take(imap, position, uid, inbox)
            position.uid = uid
            await self.host.cursor.write(_POSITION, str(position))
            if is_accepted and self._settings.mark_seen:
                await imap.mark_seen(uid)

    async def _take(self, imap: Imap, position: _Position, uid: int, inbox: Inbox) -> bool:
        """Passes a mail to the inbox; returns False for one that is skipped."""
        mail_id = f"{position.validity}.{uid}"
        stored = await self._look(imap, uid, mail_id)
        if stored is None:
            return False
        position.arrived = max(position.arrived, stored.arrived)
        try:
            message = await self._read(imap, stored, mail_id)
        except PlatformError:
            raise
        except Exception:
            # A hostile mail must not block the mails of others.
            logger.exception("email/%s: mail %s is unreadable", self.account, mail_id)
            return False
        if message is None:
            return False
        await inbox(message)
        self._accepted_at[message.sender_id].append(message.received_at)
        return True

    async def _look(self, imap: Imap, uid: int, mail_id: str) -> FetchedMail | None:
        """Returns a mail; None for a deleted one, and for one that failed too often.

        Strangers choose how deep the parts of a mail are nested and how many there are. An
        unreadable mail ends the connection only; the next connection reads the mails after it.
        """
        last, failures = self._unreadable
        if last == mail_id and failures >= _UNREADABLE_TIMES:
            logger.error("email/%s: mail %s is skipped: it cannot be read", self.account, mail_id)
            return None
        try:
            return await imap.look(uid, HEAD_BYTES)
        except UnreadableError:
            self._unreadable = (mail_id, failures + 1 if last == mail_id else 1)
            raise

    async def _read(self, imap: Imap, stored: FetchedMail, mail_id: str) -> InboundMessage | None:
        """Returns the message of a mail; None for a mail that is not answered."""
        now, head = self.host.clock.now_ms(), wire.read_head(stored.head)
        reason = wire.unanswered(head, self._settings.address) or self._refusal(head, now)
        if reason:
            logger.info("email/%s: mail %s is skipped: %s", self.account, mail_id, reason)
            return None
        message = await read_mail(imap, stored, head, mail_id, self._settings, self.account, now)
        if message is not None:
            self._remember(message.message_id, Thread(head.subject, _reference_ids(head)))
        return message

    def _refusal(self, head: wire.MailHead, now: int) -> str:
        """Returns the reason why a mail of a person is refused; empty for an accepted one."""
        sender = wire.sender_id(head, self._settings.authserv_ids)
        if sender.startswith(wire.UNVERIFIED) and self._settings.unverified == "ignore":
            return "its sender is not verified"
        if len(self._accepted_at) >= _MAX_SENDERS:
            self._accepted_at = {
                name: times
                for name, times in self._accepted_at.items()
                if times and now - times[-1] < HOUR_MS
            }
        times = self._accepted_at.setdefault(sender, deque())
        while times and now - times[0] >= HOUR_MS:
            times.popleft()
        if len(times) >= self._settings.most_per_hour:
            logger.warning("email/%s: %s sent too many mails", self.account, sender)
            return f"its sender sent {len(times)} mails within an hour"
        return ""

    def _remember(self, message_id: str, thread: Thread) -> None:
        self._threads[message_id] = thread

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part as a mail, and stores a copy in the folder of sent mail."""
        recipient = wire.address_of(part.to.peer.id)
        if not recipient:
            raise DeliveryRefusedError(f"{part.to.peer.id!r} is no address of e-mail.")
        with self._limit.sending():
            thread = await self._thread(part.to)
            mail = composed(part, self._author, recipient, thread, self.host.clock.now_ms())
            if part.additions.media is not None:
                file = await read_file(part.additions.media, _MAX_FILE)
                attach(mail, file.data, file.mime, file.name)
            message = mail.as_bytes()

            async def record_attempt() -> None:
                await self.host.cursor.write(_SENDING, part.nonce)

            await self._servers.send(recipient, message, record_attempt)
        await self.host.cursor.write(_SENT, part.nonce)
        if self._settings.save_sent:
            await self._keep(message)
        return Receipt((part_id(part, self._author),))

    async def _keep(self, message: bytes) -> None:
        try:
            with anyio.fail_after(_KEEP_SECONDS):
                await self._servers.keep(message)
        except (PlatformError, TimeoutError) as error:
            logger.warning("email/%s: cannot store a copy of a sent mail: %s", self.account, error)

    async def _thread(self, to: ReplyTo) -> Thread:
        """Returns the thread of the mail that is answered; a new thread if no mail is answered."""
        if not wire.is_message_id(to.message_id):
            return Thread()
        thread = self._threads.get(to.message_id)
        if thread is not None:
            return thread
        ids = Thread("", tuple(dict.fromkeys(filter(None, (to.thread_id, to.message_id)))))
        try:
            head = await self._servers.find(to.message_id)
        except PlatformError as error:
            logger.info("email/%s: cannot find the mail that is answered: %s", self.account, error)
            return ids
        thread = Thread(head.subject, _reference_ids(head)) if head else ids
        self._remember(to.message_id, thread)
        return thread

    async def typing(self, to: ReplyTo) -> None:
        """Does nothing: e-mail has no typing indicator."""

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns whether a mail was sent, by the cursor or by the folder of sent mail."""
        cursor = self.host.cursor
        if await cursor.read(_SENT) == part.nonce:
            return Settlement.DELIVERED
        if await cursor.read(_SENDING) != part.nonce:
            return Settlement.ABSENT  # the server had not yet accepted the envelope
        is_stored = await self._servers.has_sent(part_id(part, self._author))
        return Settlement.DELIVERED if is_stored else Settlement.UNKNOWN

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment of a mail."""
        max_bytes = min(limit, self._settings.media_max_mb * 1_000_000)
        handle = _HANDLE.fullmatch(attachment.handle)
        if handle is None or attachment.size > max_bytes:
            raise MediaError(
                f"{attachment.name} has {attachment.size} bytes; {max_bytes} are allowed."
            )
        validity, uid, number, encoding = handle.groups()
        try:
            async with self._servers.imap() as imap:
                box = await imap.select(self._settings.folder, read_only=True)
                if box.validity != int(validity):
                    raise MediaError(
                        f"{attachment.name} is gone: the server renumbered the mails of the folder."
                    )
                # Upper bound of `max_bytes` in base64 with line ends.
                longest = max_bytes * 3 // 2 + 1024
                data = await imap.content(int(uid), number, longest)
        except PlatformError as error:
            raise MediaError(f"{attachment.name} cannot be fetched: {error}") from error
        file = wire.decoded(data, encoding)
        if not data or len(file) > max_bytes or len(data) >= longest:
            reason = f"it has more than {max_bytes} bytes" if data else "the mail is gone"
            raise MediaError(f"{attachment.name} cannot be fetched: {reason}")
        return file

    async def probe(self) -> AccountState:
        """Returns the state after logging in at both servers."""
        try:
            await self._servers.check()
        except PlatformError as error:
            self.failed(error)
            return self.state
        return AccountState(ConnectionState.CONNECTED, name=self._settings.address)


_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


def _reference_ids(head: wire.MailHead) -> tuple[str, ...]:
    """Returns the ids for the header `References` of an answer to a mail."""
    return tuple(dict.fromkeys(filter(None, (*head.references, head.message_id))))


def open_account(settings: EmailAccount, host: ChannelHost) -> EmailAdapter:
    """Returns the adapter of an account. Raises `ValueError` for an unencrypted connection."""
    if fault := settings.plaintext_fault:
        raise ValueError(fault)
    return EmailAdapter(settings, host, MailServers(settings, host))
