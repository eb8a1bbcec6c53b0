"""One WhatsApp number: receives by requests of Meta, sends by the Graph API."""

import hashlib
import hmac
import logging
from typing import Any, Final

import anyio
import msgspec

from skerry.channels.whatsapp import outbound, wire
from skerry.channels.whatsapp.api import Failure, GraphApi, explained
from skerry.channels.whatsapp.config import WhatsAppAccount
from skerry.config.channels import revealed
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_files import byte_limit, fetched_file, read_file
from skerry.sdk.channel_host import ChannelHost, Recent
from skerry.sdk.channel_posts import PostedAccount
from skerry.sdk.channels import (
    Attachment,
    Capabilities,
    DeliveryDelayedError,
    DeliveryRefusedError,
    InboundMessage,
    MediaError,
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

SETTLE_SECONDS: Final = 8.0
"""Seconds to wait for the report about a part."""
MAX_AGE_SECONDS: Final = 8 * 86_400
"""Age from which messages are dropped: Meta repeats a request for up to seven days."""
_MAX_OUTCOMES: Final = 1000
_MAX_CHALLENGE: Final = 256
_UNKNOWN_NUMBER: Final = "100"
_OF_ONE_PERSON: Final = frozenset({"131056", "131000"})
"""Codes of limits that are about one person alone."""


class WhatsAppAdapter(PostedAccount):
    """Implements `ports.channel.ChannelAdapter`, `TakesPosts`, `Fetches`, `Reacts`, `Probes`."""

    channel = wire.CHANNEL
    login_remedy = "Make a new token of the system user, and look at the number in WhatsApp Manager"
    text_limit = outbound.MAX_TEXT
    text_unit = TextUnit.UTF16
    capabilities = Capabilities(
        reactions=True,
        buttons=True,
        media_in=True,
        media_out=True,
        rich_text=True,
        late_refusals=True,
    )
    settle_seconds = SETTLE_SECONDS

    def __init__(self, settings: WhatsAppAccount, host: ChannelHost, api: GraphApi) -> None:
        super().__init__(host)
        self._settings = settings
        self._api = api
        self._limit = RateLimit("WhatsApp", self.failed, _OF_ONE_PERSON)
        self._outcomes = Recent[str, bool](_MAX_OUTCOMES)
        """Reported parts, oldest first; False for one that failed."""
        self._reported = anyio.Event()

    async def own_name(self) -> str:
        """Returns the number and its verified name."""
        try:
            number = wire.number.decode(await self._api.number())
        except PlatformError as error:
            error.is_login |= error.code == _UNKNOWN_NUMBER
            raise
        return " ".join(f"{number.verified_name} {number.display_phone_number}".split())

    async def posted(self, post: Post) -> PostAnswer:
        """Answers an HTTP request, which must prove that it is of Meta."""
        if post.method == "GET":
            return self._verified(post)
        if not self._is_signed(post):
            return PostAnswer(401, b"the signature is wrong")
        try:
            values = [value for value in wire.values(post.body) if self._is_mine(value)]
        except msgspec.DecodeError as error:
            # Meta would repeat it for days, and it would stay unreadable.
            logger.warning("whatsapp/%s: a request is unreadable: %s", self.account, error)
            return PostAnswer()
        await self.intake.take([message for value in values for message in self._messages(value)])
        settled = [await self._take_statuses(value) for value in values]
        return PostAnswer() if all(settled) else PostAnswer(503, b"send it again")

    def _verified(self, post: Post) -> PostAnswer:
        """Answers the verification request that Meta sends when the address is registered."""
        expected = revealed(self._settings.verify_token)
        token, challenge = post.query.get("hub.verify_token", ""), post.query.get("hub.challenge")
        is_known = expected and hmac.compare_digest(token.encode(), expected.encode())
        if post.query.get("hub.mode") != "subscribe" or not is_known or not challenge:
            return PostAnswer(403, b"the verify token is wrong")
        return PostAnswer(200, challenge[:_MAX_CHALLENGE].encode())

    def _is_signed(self, post: Post) -> bool:
        key = revealed(self._settings.app_secret).encode()
        expected = hmac.new(key, post.body, hashlib.sha256).hexdigest()
        signature = post.headers.get("x-hub-signature-256", "")
        return bool(key) and hmac.compare_digest(signature.encode(), f"sha256={expected}".encode())

    def _is_mine(self, value: wire.Value) -> bool:
        number = value.metadata.phone_number_id
        if number == self._settings.phone_number_id:
            return True
        logger.warning(
            "whatsapp/%s: a request is about the number %s, which is not the one of this account;"
            " give that number a callback of its own",
            self.account,
            number[:32],
        )
        return False

    def _messages(self, value: wire.Value) -> list[InboundMessage]:
        now, messages = self.host.clock.now_ms(), list[InboundMessage]()
        for raw in value.messages:
            try:
                arrived = wire.message.decode(raw)
            except msgspec.DecodeError as error:
                # A message in an unknown format must not block the others.
                logger.warning("whatsapp/%s: a message is unreadable: %s", self.account, error)
                continue
            if wire.seconds(arrived) < now // 1000 - MAX_AGE_SECONDS:
                logger.warning("whatsapp/%s: a message is too old and is dropped", self.account)
                continue
            message = wire.inbound(arrived, value, self.account, now)
            if message is not None:
                messages.append(message)
        return messages

    async def _take_statuses(self, value: wire.Value) -> bool:
        """Records the statuses of parts; returns False when one could not be stored."""
        noted = True
        for raw in value.statuses:
            try:
                status = wire.status.decode(raw)
            except msgspec.DecodeError as error:
                logger.warning("whatsapp/%s: a status is unreadable: %s", self.account, error)
                continue
            nonce, failed = status.biz_opaque_callback_data, status.status == "failed"
            if not nonce:
                continue
            self._outcomes[nonce] = not failed
            self._reported.set()
            self._reported = anyio.Event()
            if failed:
                failure = status.errors[0] if status.errors else Failure()
                noted &= await self.host.reports.refused(nonce, _explained(failure))
        return noted

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part with its nonce, which the reports about it repeat."""
        self._limit.refuse()
        self._outcomes.pop(part.nonce, None)  # of an earlier attempt
        with self._limit.sending():
            if part.additions.media is not None:
                content = await self._file(part, part.additions.media)
            else:
                content = outbound.worded(part)
            answer = await self._api.post(outbound.addressed(part) | content)
        try:
            return Receipt(tuple(message.id for message in wire.sent.decode(answer).messages))
        except msgspec.DecodeError:
            return Receipt(())  # the message was accepted; its id is not needed

    async def _file(self, part: OutboundPart, media: OutboundMedia) -> dict[str, Any]:
        file = await read_file(media)
        caption = part.text.strip()
        if len(caption.encode("utf-16-le")) // 2 > outbound.MAX_CAPTION:
            message = f"WhatsApp takes {outbound.MAX_CAPTION} characters below a file."
            raise DeliveryRefusedError(f"{message} Send the text as a separate message.")
        kind = outbound.sent_as(media, len(file.data), caption)
        answer = await self._api.upload(file)
        try:
            uploaded = wire.media.decode(answer).id
        except msgspec.DecodeError as error:
            raise DeliveryDelayedError(f"The upload of {file.name} has no id: {error}") from None
        return outbound.file(kind, uploaded, file.name, caption)

    async def typing(self, to: ReplyTo) -> None:
        """Marks the message as read, and shows the typing indicator for up to 25 seconds."""
        message_id = outbound.plain_id(to.message_id)
        if self._limit.is_reached or not message_id:
            return
        read_status = {"status": "read", "message_id": message_id}
        await self._api.post({**read_status, "typing_indicator": {"type": "text"}})

    async def settle(self, part: OutboundPart) -> Settlement:
        """Waits for a report about the part, as the API has no request for it."""
        with anyio.move_on_after(self.settle_seconds):
            while part.nonce not in self._outcomes:
                await self._reported.wait()
        match self._outcomes.get(part.nonce):
            case True:
                return Settlement.DELIVERED
            case False:
                return Settlement.ABSENT
            case None:
                return Settlement.UNKNOWN

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets the reaction of the number; an empty emoji removes it."""
        message_id = outbound.plain_id(to.message_id)
        if not message_id:
            return  # the address of a chat, which has no message
        reaction = {"message_id": message_id, "emoji": emoji}
        body = {**outbound.recipient(to), "type": "reaction", "reaction": reaction}
        with self._limit.sending():
            await self._api.post(body)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        name = attachment.name
        try:
            described = wire.media.decode(await self._api.media(attachment.handle))
        except (PlatformError, msgspec.DecodeError) as error:
            raise MediaError(f"{name} cannot be fetched: {error}") from error
        fetched = await self._api.download(described.url, max_bytes)
        if fetched is None:
            raise MediaError(f"{name} cannot be fetched: its address is not one of Meta.")
        return fetched_file(attachment, fetched)


def _explained(failure: Failure) -> str:
    return explained(failure.code, f"WhatsApp did not deliver it, {failure.text}")


def open_account(settings: WhatsAppAccount, host: ChannelHost) -> WhatsAppAdapter:
    """Returns the adapter of an account."""
    token = revealed(settings.access_token)
    api = GraphApi(str(settings.api_root), settings.phone_number_id, token)
    return WhatsAppAdapter(settings, host, api)
