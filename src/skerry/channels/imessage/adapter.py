"""One Mac: reads new rows of its messages through BlueBubbles, and sends through it."""

import hmac
import logging
from typing import Any, Final

import anyio
import msgspec

from skerry.channels.imessage import wire
from skerry.channels.imessage.api import WINDOW, BlueBubbles
from skerry.channels.imessage.config import IMessageAccount
from skerry.channels.imessage.journal import OVERLAP, Journal
from skerry.channels.imessage.outbound import (
    chat_of,
    is_sent,
    plain,
    receipt_of,
    temp_guid,
)
from skerry.config.channels import revealed
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_files import byte_limit, fetched_file, read_file
from skerry.sdk.channel_host import ChannelHost, Recent
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    DeliveryDelayedError,
    DeliveryRefusedError,
    InboundMessage,
    Inbox,
    OutboundMedia,
    OutboundPart,
    Post,
    PostAnswer,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

MAX_TEXT: Final = 4000
"""Characters of a message; longer ones are hard to read on a phone."""
MAX_AGE_MS: Final = 7 * 86_400_000
"""Age from which messages are dropped: a Mac that joins an account fetches its whole history."""
TEXT_SETTLED_MS: Final = 120_000
"""Milliseconds after which a text that is missing in its chat counts as not sent: BlueBubbles has
given up by then."""
FILE_SETTLED_MS: Final = 1_200_000
"""The same for a file."""
_SEARCHED_MESSAGES: Final = 100
_MAX_EDITS: Final = 100
_MAX_PEOPLE: Final = 1000
_MAX_NAME: Final = 256
_TAPBACKS: Final = {
    "❤️": "love",
    "❤": "love",
    "👍": "like",
    "👎": "dislike",
    "😂": "laugh",
    "‼️": "emphasize",
    "❗": "emphasize",
    "👀": "emphasize",
    "❓": "question",
}


class IMessageAdapter(Account):
    """Implements `ports.channel.ChannelAdapter`, `TakesPosts`, `Fetches`, `Reacts`, `Probes`."""

    channel = wire.CHANNEL
    login_remedy = "Copy the server's password from BlueBubbles"
    retry_remedy = "Start BlueBubbles on the Mac; it is tried again at least once a minute."
    text_limit = MAX_TEXT
    text_unit = TextUnit.CHARACTERS
    capabilities = Capabilities(reactions=True, media_in=True, media_out=True)

    def __init__(self, settings: IMessageAccount, host: ChannelHost, api: BlueBubbles) -> None:
        super().__init__(host)
        self._settings = settings
        self._api = api
        self._limit = RateLimit("the Mac", self.failed)
        self.journal = Journal(host.cursor)
        self._info: wire.Info | None = None
        self._people = Recent[str, str](_MAX_PEOPLE)
        self._tapbacks = Recent[str, str](_MAX_PEOPLE)
        """Tapbacks that may be removed, by the id of the message."""
        self._edits: dict[str, None] = {}
        """Edited messages that must be read again."""
        self._wake = anyio.Event()

    @property
    def _has_private_api(self) -> bool:
        return self._info is not None and self._info.private_api and self._info.helper_connected

    async def run(self, inbox: Inbox) -> None:
        """Reads new rows until cancelled; stores the position after `inbox` has accepted them."""
        await self.journal.load()
        try:
            while True:
                self._wake = anyio.Event()
                try:
                    await self._read(inbox)
                except (PlatformError, msgspec.DecodeError) as error:
                    await anyio.sleep(self.failed(error))
                    continue
                with anyio.move_on_after(self._settings.poll_seconds):
                    await self._wake.wait()
        finally:
            with anyio.move_on_after(2, shield=True):
                await self.journal.store()

    async def _read(self, inbox: Inbox) -> None:
        """Passes new rows to the inbox."""
        if self._info is None:
            self._info = wire.info.decode(await self._api.info())
        if not self.journal.row:
            await self._begin()
        start, end = max(self.journal.row - OVERLAP, 0), 0
        rows = await self._api.after(start)
        if rows is None:
            end = start + WINDOW
            rows = await self._api.between(start, end)
            self._wake.set()
        self.connected(self._info.detected_imessage or "")
        headed = sorted((wire.heading.decode(raw).row, raw) for raw in rows)
        for row, raw in headed:
            guid = wire.heading.decode(raw).guid
            if not self.journal.has(guid):
                await self._hand_in(raw, inbox)
                self.journal.take(row, guid)
        self.journal.skip(end)
        await self.journal.store()
        await self._read_edits(inbox)

    async def _begin(self) -> None:
        """Stores the present position: messages before the first connection are not answered."""
        rows = await self._api.query({"sort": "DESC", "limit": _SEARCHED_MESSAGES})
        headings = sorted((heading.row, heading.guid) for heading in map(wire.heading.decode, rows))
        self.journal.take(1, "")  # also where there is no message at all
        for row, guid in headings:
            self.journal.take(row, guid)
        await self.journal.store()

    async def _hand_in(
        self, raw: msgspec.Raw | bytes, inbox: Inbox, *, edited: bool = False
    ) -> None:
        try:
            row = wire.message.decode(raw)
        except msgspec.DecodeError as error:
            # A row in an unknown format must not block the others.
            logger.warning("imessage/%s: a message is unreadable: %s", self.account, error)
            return
        now = self.host.clock.now_ms()
        message = wire.inbound(row, self.account, now, edited=edited)
        if message is None:
            return
        if message.sent_at < now - MAX_AGE_MS:
            logger.warning("imessage/%s: a message is too old and is dropped", self.account)
            return
        await inbox(await self._described(message))

    async def _described(self, message: InboundMessage) -> InboundMessage:
        """Returns the message with the name of its sender, and the text that it answers."""
        name = (await self._name(message.sender_id))[:_MAX_NAME]
        reply = message.reply
        if reply is not None:
            try:
                reply = wire.quoted(wire.message.decode(await self._api.message(reply.id)))
            except (PlatformError, msgspec.DecodeError) as error:
                logger.info("imessage/%s: cannot read a quoted message: %s", self.account, error)
        return msgspec.structs.replace(message, sender_name=name, reply=reply)

    async def _name(self, address: str) -> str:
        name = self._people.get(address)
        if name is None:
            try:
                contacts = await self._api.contact(address)
                name = next((wire.contact.decode(raw).name for raw in contacts), "")
            except (PlatformError, msgspec.DecodeError) as error:
                logger.info(
                    "imessage/%s: cannot read the name of a sender: %s", self.account, error
                )
                return ""
            self._people[address] = name
        return name

    async def _read_edits(self, inbox: Inbox) -> None:
        """Passes edited messages to the inbox; only webhooks report them."""
        while self._edits:
            guid = next(iter(self._edits))
            try:
                raw = await self._api.message(guid)
                if wire.message.decode(raw).date_edited:
                    await self._hand_in(raw, inbox, edited=True)
            except (PlatformError, msgspec.DecodeError) as error:
                logger.info("imessage/%s: an edit cannot be read: %s", self.account, error)
            self._edits.pop(guid, None)

    def failed(self, error: Exception) -> float:
        """Records the failure; the next attempt requests the server's abilities again."""
        self._info = None
        return super().failed(error)

    async def posted(self, post: Post) -> PostAnswer:
        """Starts a read for a webhook: BlueBubbles signs none, and repeats none."""
        secret = revealed(self._settings.webhook_secret).encode()
        if not secret or not hmac.compare_digest(post.path.encode(), secret):
            return PostAnswer(401, b"the secret is wrong")
        try:
            event = wire.event.decode(post.body)
            row = wire.message.decode(event.data)
        except msgspec.DecodeError:
            row, event = wire.Message(), wire.WebhookEvent()
        is_edit = event.type == "updated-message" and row.date_edited and not row.is_from_me
        if is_edit and row.guid and len(self._edits) < _MAX_EDITS:
            self._edits[row.guid] = None
        self._wake.set()
        return PostAnswer()

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part, after storing the position after which `settle` looks for it."""
        chat = chat_of(part.to)
        try:
            rows = await self._api.query(
                {"chatGuid": chat, "sort": "DESC", "limit": _SEARCHED_MESSAGES}
            )
            last = max((wire.heading.decode(raw).row for raw in rows), default=0)
            await self.journal.begin(part.nonce, last, self.host.clock.now_ms())
        except (PlatformError, msgspec.DecodeError) as error:
            raise DeliveryDelayedError(str(error)) from error  # nothing was sent
        with self._limit.sending():
            if part.additions.media is not None:
                return await self._send_file(part, part.additions.media, chat)
            return await self._send_text(part, chat, self._quote(part.to))

    def _quote(self, to: ReplyTo) -> dict[str, str]:
        quote = (to.quote or "").partition(":")[0]
        return {"selectedMessageGuid": quote} if quote and self._has_private_api else {}

    async def _send_text(
        self, part: OutboundPart, chat: str, reply_fields: dict[str, str]
    ) -> Receipt:
        body: dict[str, Any] = {
            "chatGuid": chat,
            "tempGuid": temp_guid(part),
            "message": plain(part.text),
            "method": self._method,
        }
        return receipt_of(await self._api.send_text(body | reply_fields))

    async def _send_file(self, part: OutboundPart, media: OutboundMedia, chat: str) -> Receipt:
        """Sends a file, then its text as a separate message."""
        file = await read_file(media)
        fields = {"chatGuid": chat, "tempGuid": f"{temp_guid(part)}-file", "name": file.name}
        fields["method"] = self._method
        if media.voice and self._has_private_api:
            fields["isAudioMessage"] = "true"
        receipt = receipt_of(await self._api.send_file(fields, file))
        if not part.text.strip():
            return receipt
        try:
            worded = await self._send_text(part, chat, {})
        except PlatformError as error:
            # The file was sent, so nothing may be repeated before `settle` has looked.
            raise ConnectionError(f"The text of a file was not sent: {error}") from error
        return Receipt((*receipt.platform_ids, *worded.platform_ids))

    @property
    def _method(self) -> str:
        return "private-api" if self._has_private_api else "apple-script"

    async def typing(self, to: ReplyTo) -> None:
        """Marks the chat as read and shows that an answer is written, with the Private API."""
        if self._has_private_api:
            chat = chat_of(to)
            await self._api.mark_read(chat)
            await self._api.typing(chat)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Looks for the part among the rows of its chat that are newer than its sending.

        Raises:
            PlatformError: the part is missing, but BlueBubbles may still send it.
        """
        begun = await self.journal.begun(part.nonce)
        if begun is None:
            return Settlement.UNKNOWN
        chat, (first, began_at) = chat_of(part.to), begun
        rows = await self._api.query(
            {"chatGuid": chat, "sort": "DESC", "limit": _SEARCHED_MESSAGES}
        )
        newer = [message for message in map(wire.message.decode, rows) if message.row > first]
        own_messages = [
            message
            for message in newer
            if message.is_from_me and not message.associated_message_type
        ]
        settled_ms = TEXT_SETTLED_MS if part.additions.media is None else FILE_SETTLED_MS
        if not own_messages and self.host.clock.now_ms() - began_at < settled_ms:
            raise PlatformError("The part is not in its chat yet.")
        if not own_messages:
            return Settlement.ABSENT if len(newer) < _SEARCHED_MESSAGES else Settlement.UNKNOWN
        return Settlement.DELIVERED if is_sent(part, own_messages) else Settlement.UNKNOWN

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets a tapback, with the Private API; an empty emoji removes it."""
        guid = to.message_id.partition(":")[0]
        word = _TAPBACKS.get(emoji, "") if emoji else self._tapbacks.pop(guid, "")
        if not guid or not (emoji or word):
            return  # the address of a chat, or a message without a tapback
        if not self._has_private_api or not word:
            raise DeliveryRefusedError(f"There is no tapback {emoji}, or no Private API.")
        if emoji:
            self._tapbacks[guid] = word
        body = {"chatGuid": chat_of(to), "selectedMessageGuid": guid}
        with self._limit.sending():
            await self._api.react({**body, "reaction": word if emoji else f"-{word}"})

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        return fetched_file(attachment, await self._api.download(attachment.handle, max_bytes))

    async def probe(self) -> AccountState:
        """Returns the state after requesting the description of the server."""
        try:
            self._info = wire.info.decode(await self._api.info())
        except (PlatformError, msgspec.DecodeError) as error:
            self.failed(error)
        return self.state


def open_account(settings: IMessageAccount, host: ChannelHost) -> IMessageAdapter:
    """Returns the adapter of an account."""
    password = revealed(settings.password)
    return IMessageAdapter(settings, host, BlueBubbles(str(settings.api_root), password))
