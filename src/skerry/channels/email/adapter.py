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
from skerry.channels.email.compose import Author, Thread, attach, composed, part_id
from skerry.channels.email.config import EmailAccount
from skerry.channels.email.imap import Box, Imap, Stored
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
"""Time after which IDLE begins anew: a server may end it after 29 minutes, and a router forgets a
silent connection before that."""
MOST_TEXT: Final = 60_000
"""Characters of a mail."""
HOUR_MS: Final = 3_600_000
_MOST_SENDERS: Final = 1000
_MOST_THREADS: Final = 500
_MOST_FILE: Final = 10_000_000
_UNREADABLE_TIMES: Final = 2
"""Connections that one mail may end by what its server says of it."""
_PLACE: Final = "place"
_SENDING: Final = "sending"
_SENT: Final = "sent"
_HANDLE: Final = re.compile(r"(\d+)\.(\d+)/([\d.]+)/([a-z0-9-]+)")
_KEEP_SECONDS: Final = 4.0
"""Time for the copy in the folder of sent mail; the mail itself has gone out by then."""


class _Place(Struct):
    """Up to where the mailbox was read."""

    validity: int
    uid: int
    arrived: int
    """Arrival of the last mail that was taken, in seconds since 1970."""

    @classmethod
    def parse(cls, text: str) -> "_Place | None":
        numbers = text.split()
        return cls(*map(int, numbers)) if len(numbers) == 3 else None  # noqa: PLR2004 - its fields

    def __str__(self) -> str:
        return f"{self.validity} {self.uid} {self.arrived}"


class EmailAdapter(Account):
    """Implements `ports.channel.ChannelAdapter`, `Fetches` and `Probes`."""

    channel = wire.CHANNEL
    text_limit = MOST_TEXT
    text_unit = TextUnit.CHARACTERS
    capabilities = Capabilities(threads=True, media_in=True, media_out=True, rich_text=True)

    def __init__(self, settings: EmailAccount, host: ChannelHost, servers: MailServers) -> None:
        super().__init__(host)
        what = "the sign-in" if settings.oauth else "the password"
        self.login_remedy = f"Look at the address and {what}"
        self._settings = settings
        self._servers = servers
        self._limit = RateLimit("the mail server", self.failed)
        self._author = Author(settings.address, settings.name)
        self._taken_at: dict[str, deque[int]] = {}
        """Times at which mails of a sender were taken within the last hour."""
        self._threads = Recent[str, Thread](_MOST_THREADS)
        """Threads of the last mails by their ids, so that an answer needs no look-up."""
        self._unreadable: tuple[str, int] = ("", 0)
        """The mail whose description was unreadable last, and how often in a row."""

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; the place is noted after `inbox` has taken a mail.

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
            place = await self._place(imap, box)
            self.connected(self._settings.address)
            while True:
                imap.has_arrivals = False
                await self._take_new(imap, place, inbox)
                self.connected(self._settings.address)
                if imap.has_arrivals:
                    continue
                if "IDLE" in imap.capabilities:
                    await imap.idle(IDLE_SECONDS, lambda: self.connected(self._settings.address))
                else:
                    await anyio.sleep(self._settings.poll_seconds)

    async def _place(self, imap: Imap, box: Box) -> _Place:
        """Returns up to where the folder was read; of a new folder, its present end."""
        place = _Place.parse(await self.host.cursor.read(_PLACE))
        if place is not None and place.validity == box.validity:
            return place
        if place is not None:
            # The numbers have another meaning now. What arrived lately is read again, of which the
            # ledger knows what was taken.
            logger.warning("email/%s: the folder was numbered anew", self.account)
            return _Place(box.validity, 0, place.arrived)
        last = box.next_uid - 1 if box.next_uid else max(await imap.search("UID *"), default=0)
        place = _Place(box.validity, last, self.host.clock.now_ms() // 1000)
        await self.host.cursor.write(_PLACE, str(place))
        return place

    async def _take_new(self, imap: Imap, place: _Place, inbox: Inbox) -> None:
        what = f"UID {place.uid + 1}:*"
        if not place.uid:
            since = datetime.fromtimestamp(place.arrived, UTC) - timedelta(days=1)
            what += f" SINCE {since.day}-{_MONTHS[since.month - 1]}-{since.year}"
        for uid in await imap.search(what):
            if uid <= place.uid:
                continue  # `*` is the last mail, also when it is not new
            is_taken = await self._take(imap, place, uid, inbox)
            place.uid = uid
            await self.host.cursor.write(_PLACE, str(place))
            if is_taken and self._settings.mark_seen:
                await imap.mark_seen(uid)

    async def _take(self, imap: Imap, place: _Place, uid: int, inbox: Inbox) -> bool:
        """Hands a mail in; returns False for one that is left."""
        where = f"{place.validity}.{uid}"
        stored = await self._look(imap, uid, where)
        if stored is None:
            return False
        place.arrived = max(place.arrived, stored.arrived)
        try:
            message = await self._read(imap, stored, where)
        except PlatformError:
            raise
        except Exception:
            # Whatever a stranger writes must not hold back the mails of others.
            logger.exception("email/%s: mail %s is unreadable", self.account, where)
            return False
        if message is None:
            return False
        await inbox(message)
        self._taken_at[message.sender_id].append(message.received_at)
        return True

    async def _look(self, imap: Imap, uid: int, where: str) -> Stored | None:
        """Returns a mail; None for one that is gone, or is left as it cannot be read.

        Strangers choose how deep the parts of a mail are nested and how many there are. Only the
        connection ends by what is unreadable, so that the mails behind it are read by the next one.
        """
        last, failures = self._unreadable
        if last == where and failures >= _UNREADABLE_TIMES:
            logger.error("email/%s: mail %s is left: it cannot be read", self.account, where)
            return None
        try:
            return await imap.look(uid, HEAD_BYTES)
        except UnreadableError:
            self._unreadable = (where, failures + 1 if last == where else 1)
            raise

    async def _read(self, imap: Imap, stored: Stored, where: str) -> InboundMessage | None:
        """Returns the message of a mail; None where there is nothing to answer."""
        now, head = self.host.clock.now_ms(), wire.read_head(stored.head)
        why = wire.unanswered(head, self._settings.address) or self._refusal(head, now)
        if why:
            logger.info("email/%s: mail %s is left: %s", self.account, where, why)
            return None
        message = await read_mail(imap, stored, head, where, self._settings, self.account, now)
        if message is not None:
            self._remember(message.message_id, Thread(head.subject, _followed(head)))
        return message

    def _refusal(self, head: wire.Head, now: int) -> str:
        """Returns why a mail of a person is not taken; empty if it is."""
        sender = wire.sender_id(head, self._settings.authserv_ids)
        if sender.startswith(wire.UNVERIFIED) and self._settings.unverified == "ignore":
            return "its sender is not verified"
        if len(self._taken_at) >= _MOST_SENDERS:
            self._taken_at = {
                name: times
                for name, times in self._taken_at.items()
                if times and now - times[-1] < HOUR_MS
            }
        times = self._taken_at.setdefault(sender, deque())
        while times and now - times[0] >= HOUR_MS:
            times.popleft()
        if len(times) >= self._settings.most_per_hour:
            logger.warning("email/%s: %s wrote too much", self.account, sender)
            return f"its sender wrote {len(times)} mails within an hour"
        return ""

    def _remember(self, message_id: str, thread: Thread) -> None:
        self._threads[message_id] = thread

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part as a mail, and stores a copy of it where sent mail is."""
        recipient = wire.address_of(part.to.peer.id)
        if not recipient:
            raise DeliveryRefusedError(f"{part.to.peer.id!r} is no address of e-mail.")
        with self._limit.sending():
            thread = await self._thread(part.to)
            mail = composed(part, self._author, recipient, thread, self.host.clock.now_ms())
            if part.more.media is not None:
                file = await read_file(part.more.media, _MOST_FILE)
                attach(mail, file.data, file.mime, file.name)
            message = mail.as_bytes()

            async def note() -> None:
                await self.host.cursor.write(_SENDING, part.nonce)

            await self._servers.send(recipient, message, note)
        await self.host.cursor.write(_SENT, part.nonce)
        if self._settings.save_sent:
            await self._keep(message)
        return Receipt((part_id(part, self._author),))

    async def _keep(self, message: bytes) -> None:
        try:
            with anyio.fail_after(_KEEP_SECONDS):
                await self._servers.keep(message)
        except (PlatformError, TimeoutError) as error:
            logger.warning("email/%s: a sent mail has no copy: %s", self.account, error)

    async def _thread(self, to: ReplyTo) -> Thread:
        """Returns the thread of the mail that is answered; a new one for none."""
        if not wire.is_message_id(to.message_id):
            return Thread()
        known = self._threads.get(to.message_id)
        if known is not None:
            return known
        ids = Thread("", tuple(dict.fromkeys(filter(None, (to.thread_id, to.message_id)))))
        try:
            head = await self._servers.find(to.message_id)
        except PlatformError as error:
            logger.info("email/%s: a mail that is answered is not found: %s", self.account, error)
            return ids
        known = Thread(head.subject, _followed(head)) if head else ids
        self._remember(to.message_id, known)
        return known

    async def typing(self, to: ReplyTo) -> None:
        """Does nothing: nobody sees a mail being written."""

    async def settle(self, part: OutboundPart) -> Settlement:
        """Says whether a mail went out: by what was noted, or by the folder of sent mail."""
        cursor = self.host.cursor
        if await cursor.read(_SENT) == part.nonce:
            return Settlement.DELIVERED
        if await cursor.read(_SENDING) != part.nonce:
            return Settlement.ABSENT  # the server had not yet agreed to take it
        has_it = await self._servers.has_sent(part_id(part, self._author))
        return Settlement.DELIVERED if has_it else Settlement.UNKNOWN

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of a file that came with a mail."""
        most = min(limit, self._settings.media_max_mb * 1_000_000)
        handle = _HANDLE.fullmatch(attachment.handle)
        if handle is None or attachment.size > most:
            raise MediaError(f"{attachment.name} has {attachment.size} bytes; {most} are taken.")
        validity, uid, number, encoding = handle.groups()
        try:
            async with self._servers.imap() as imap:
                box = await imap.select(self._settings.folder, read_only=True)
                if box.validity != int(validity):
                    raise MediaError(f"{attachment.name} is gone: the folder was numbered anew.")
                # In base64 with its ends of lines a file is not that long.
                longest = most * 3 // 2 + 1024
                data = await imap.content(int(uid), number, longest)
        except PlatformError as error:
            raise MediaError(f"{attachment.name} cannot be fetched: {error}") from error
        file = wire.decoded(data, encoding)
        if not data or len(file) > most or len(data) >= longest:
            reason = f"it has more than {most} bytes" if data else "the mail is gone"
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


def _followed(head: wire.Head) -> tuple[str, ...]:
    """Returns the ids that an answer to a mail refers to."""
    return tuple(dict.fromkeys(filter(None, (*head.references, head.message_id))))


def open_account(settings: EmailAccount, host: ChannelHost) -> EmailAdapter:
    """Returns the adapter of an account. Raises `ValueError` where it would not be encrypted."""
    if fault := settings.plaintext_fault:
        raise ValueError(fault)
    return EmailAdapter(settings, host, MailServers(settings, host))
