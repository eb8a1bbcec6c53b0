"""One Teams bot: receives activities by requests of Microsoft, answers by the Bot Connector."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from skerry.channels.msteams import file_consent, wire
from skerry.channels.msteams.api import Connector
from skerry.channels.msteams.config import MsTeamsAccount
from skerry.channels.msteams.markup import rendered
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_files import byte_limit, fetched_file, read_file
from skerry.sdk.channel_host import ChannelHost, Outcome, Recent
from skerry.sdk.channel_posts import PostedAccount
from skerry.sdk.channel_tokens import IssuerKeys, RequiredClaims, Token, TokenError, verified
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    AttachmentKind,
    Capabilities,
    DeliveryDelayedError,
    DeliveryRefusedError,
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

MAX_TEXT: Final = 4000
"""Characters of a message: an activity has 28 KB at most, and marks take some of it."""
_MAX_SERVICES: Final = 1000
_SERVICE: Final = "service"
_STORED: Final = frozenset({200, 201})


class MsTeamsAdapter(PostedAccount):
    """Implements `ports.channel.ChannelAdapter`, `TakesPosts`, `Fetches`, `Edits` and `Probes`."""

    channel = wire.CHANNEL
    login_remedy = "Check the bot's ID, its tenant and its client secret in Azure"
    text_limit = MAX_TEXT
    text_unit = TextUnit.CHARACTERS
    capabilities = Capabilities(
        edits=True,
        buttons=True,
        threads=True,
        media_in=True,
        media_out=True,
        rich_text=True,
        late_refusals=True,  # a file is uploaded when its person agrees
    )

    def __init__(self, settings: MsTeamsAccount, host: ChannelHost, api: Connector) -> None:
        super().__init__(host)
        self._settings = settings
        self._api = api
        self._keys = IssuerKeys(api.http, str(settings.metadata_url), host.clock, is_metadata=True)
        self._rules = RequiredClaims(settings.app_id)
        self._services = Recent[str, str](_MAX_SERVICES)
        """Addresses of the connector by conversation, as used in this process."""
        self._limit = RateLimit("Teams", self.failed)

    async def own_name(self) -> str:
        """Returns the id of the bot after requesting a token for it."""
        await self._api.access.get()
        return self._settings.app_id

    async def posted(self, post: Post) -> PostAnswer:
        """Answers an HTTP request, which must prove that it is of Microsoft."""
        token = await self._proven(post)
        if isinstance(token, PostAnswer):
            return token
        try:
            event = wire.activity.decode(post.body)
        except msgspec.DecodeError as error:
            # A repetition by Microsoft would be unreadable too.
            logger.warning("msteams/%s: an activity is unreadable: %s", self.account, error)
            return PostAnswer()
        if reason := self._refusal(event, token):
            logger.warning("msteams/%s: an activity is refused: %s", self.account, reason)
            return PostAnswer(403, b"the activity is refused")
        await self._note_service(event)
        if event.type == "invoke":
            return await self._invoked(event)
        message = wire.inbound(event, self.account, self.host.clock.now_ms())
        if message is not None:
            await self.intake.take([message])
        return PostAnswer(200, b"{}", "application/json")

    async def refuses(self, post: Post) -> PostAnswer | None:
        """Returns the answer to a request without a token of Microsoft; None for a proven one."""
        token = await self._proven(post)
        return token if isinstance(token, PostAnswer) else None

    async def _proven(self, post: Post) -> Token | PostAnswer:
        if post.method != "POST":
            return PostAnswer(405, b"use POST")
        header = post.headers.get("authorization", "")
        try:
            return await verified(header, self._keys, self._rules, self.host.clock)
        except TokenError as error:
            logger.info("msteams/%s: a request is refused, its token: %s", self.account, error)
            return PostAnswer(401, b"the token is refused")

    def _refusal(self, event: wire.Activity, token: Token) -> str:
        """Returns why an activity does not match its token; empty when it does."""
        claims = token.claims
        claimed = claims.get("serviceurl", claims.get("serviceUrl"))
        if not isinstance(claimed, str) or claimed.rstrip("/") != event.service_url.rstrip("/"):
            return "its service is not that of its token"
        if event.channel_id != wire.CHANNEL:
            return f"it is of {event.channel_id[:40]!r}, not of Teams"
        if token.endorsements and event.channel_id not in token.endorsements:
            return "its key is not endorsed for Teams"
        if not self._api.is_service(event.service_url):
            return f"{event.service_url[:200]!r} is no address of Teams, nor in serviceRoots"
        return ""

    async def _note_service(self, event: wire.Activity) -> None:
        """Stores the address for answers, also for those after a restart."""
        chat_id, url = wire.peer(event)[0].id, event.service_url
        if chat_id and self._services.get(chat_id) != url:
            if await self._service(chat_id) != url:
                await self.host.cursor.write(f"{_SERVICE}:{chat_id}", url)
            self._services[chat_id] = url

    async def _service(self, chat_id: str) -> str:
        url = self._services.get(chat_id)
        return url or await self.host.cursor.read(f"{_SERVICE}:{chat_id}")

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part as an activity."""
        self._limit.refuse()
        body = self._activity(part.to, part.text)
        if part.additions.buttons:
            body["attachments"] = [wire.buttons(part.additions.buttons)]
        if part.additions.media is not None:
            media = await file_consent.attached(part, part.additions.media, self.host.cursor)
            body["attachments"] = [*body.get("attachments", ()), media]
        answer = await self._send_activity("POST", part.to, [], body)
        try:
            return Receipt((wire.sent.decode(answer).id,))
        except msgspec.DecodeError:
            return Receipt(())  # the message was sent; its id is used for edits only

    async def _invoked(self, event: wire.Activity) -> PostAnswer:
        try:
            if event.name == file_consent.INVOKE:
                await self._consented(event)
        except (DeliveryRefusedError, DeliveryDelayedError) as error:
            # The person sees the failure, and may press again.
            logger.warning("msteams/%s: %s", self.account, error)
            return PostAnswer(400, b"the file is not uploaded")
        return PostAnswer(200, b"{}", "application/json")

    async def _consented(self, event: wire.Activity) -> None:
        """Uploads a file after the consent of a person, and shows it; a repetition does nothing."""
        try:
            consent = msgspec.convert(event.value, file_consent.Consent)
        except msgspec.ValidationError as error:
            logger.warning("msteams/%s: an answer to a card is unreadable: %s", self.account, error)
            return
        chat, thread = wire.peer(event)
        offered = await file_consent.read_offer(consent, chat.id, self.host.cursor)
        if offered is None:
            return
        if consent.action == "accept":
            upload = consent.upload_info
            await self._upload(offered, upload)
            to = ReplyTo(self.channel, self.account, chat, event.id, thread)
            body = self._activity(to, offered.name) | {
                "attachments": [file_consent.file_card(upload)]
            }
            await self._send_activity("POST", to, [], body)
        await file_consent.forget_offer(consent, self.host.cursor)

    async def _upload(
        self, offered: file_consent.OfferedFile, upload: file_consent.UploadInfo
    ) -> None:
        media = OutboundMedia(AttachmentKind.FILE, offered.path, "", offered.name)
        file = await read_file(media, file_consent.MAX_BYTES)
        fetched = await self._api.upload(upload.upload_url, file.data)
        if fetched is None or fetched.outcome is not Outcome.ALLOW or fetched.status not in _STORED:
            reason = "its address is not one of SharePoint" if fetched is None else fetched.reason
            raise DeliveryRefusedError(f"{offered.name} was not uploaded: {reason}")

    def _activity(self, to: ReplyTo, text: str) -> dict[str, Any]:
        return {
            "type": "message",
            "from": {"id": f"28:{self._settings.app_id}"},
            "conversation": {"id": wire.conversation_id(to.peer.id, to.thread_id)},
            "textFormat": "xml",
            "text": rendered(text),
        }

    async def _send_activity(
        self, method: str, to: ReplyTo, more: Sequence[str], body: object
    ) -> bytes:
        service = await self._service(to.peer.id)
        if not service:
            message = (
                f"No message has arrived from {to.peer.id} yet; the bot cannot write there before."
            )
            raise DeliveryRefusedError(message)
        conversation = wire.conversation_id(to.peer.id, to.thread_id)
        with self._limit.sending():
            return await self._api.call(method, service, [conversation, "activities", *more], body)

    async def typing(self, to: ReplyTo) -> None:
        """Shows the typing indicator for some seconds."""
        if not self._limit.is_reached:
            body = self._activity(to, "") | {"type": "typing"}
            del body["text"], body["textFormat"]
            await self._send_activity("POST", to, [], body)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns UNKNOWN: a bot cannot read what it has sent."""
        del part
        return Settlement.UNKNOWN

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the bot."""
        self._limit.refuse()
        body = self._activity(to, text) | {"id": platform_id}
        await self._send_activity("PUT", to, [platform_id], body)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        try:
            fetched = await self._api.download(attachment.handle, max_bytes)
        except PlatformError as error:
            raise MediaError(f"{attachment.name} cannot be fetched: {error}") from error
        if fetched is None:
            raise MediaError(f"{attachment.name} cannot be fetched: it is not at Teams.")
        return fetched_file(attachment, fetched)

    async def probe(self) -> AccountState:
        """Returns the state after requesting a token."""
        self._api.access.drop()
        return await super().probe()


def open_account(settings: MsTeamsAccount, host: ChannelHost) -> MsTeamsAdapter:
    """Returns the adapter of an account."""
    return MsTeamsAdapter(settings, host, Connector(settings, host.clock))
