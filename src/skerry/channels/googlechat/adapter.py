"""One Chat app: receives events by requests of Google, answers by the Chat API."""

import logging
from typing import Any, Final

import msgspec

from skerry.channels.googlechat import wire
from skerry.channels.googlechat.api import ChatApi, ServiceAccount
from skerry.channels.googlechat.config import GoogleChatAccount
from skerry.channels.googlechat.markup import CHAT
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_files import byte_limit, fetched_file
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channel_posts import PostedAccount
from skerry.sdk.channel_tokens import IssuerKeys, RequiredClaims, TokenError, verified
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    DeliveryRefusedError,
    MediaError,
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
"""Characters of a message: Chat accepts 32,000 bytes, and escaped signs need more of them."""
SENDER: Final = "chat@system.gserviceaccount.com"
"""Account of Google Chat that signs each token or is named in it."""
_ACCOUNTS: Final = ("https://accounts.google.com", "accounts.google.com")
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class GoogleChatAdapter(PostedAccount):
    """Implements `ports.channel.ChannelAdapter`, `TakesPosts`, `Fetches`, `Edits` and others."""

    channel = wire.CHANNEL
    login_remedy = "Make a new key of the service account"
    text_limit = MAX_TEXT
    text_unit = TextUnit.CHARACTERS
    capabilities = Capabilities(
        edits=True, buttons=True, threads=True, media_in=True, rich_text=True
    )

    def __init__(self, settings: GoogleChatAccount, host: ChannelHost, api: ChatApi) -> None:
        super().__init__(host)
        self._settings = settings
        self._api = api
        self._by_address = not settings.audience.isdecimal()
        issuers = _ACCOUNTS if self._by_address else (SENDER,)
        self._rules = RequiredClaims(settings.audience, issuers)
        document = "oauth2/v3/certs" if self._by_address else f"service_accounts/v1/jwk/{SENDER}"
        url = f"{str(settings.keys_root).rstrip('/')}/{document}"
        self._keys = IssuerKeys(api.http, url, host.clock, is_metadata=False)
        self._limit = RateLimit("Google Chat", self.failed)

    async def own_name(self) -> str:
        """Returns the address of the service account after requesting a token for it."""
        await self._api.access.get()
        return self._api.name

    async def posted(self, post: Post) -> PostAnswer:
        """Answers an HTTP request, which must prove that it is of Google."""
        refusal = await self.refuses(post)
        if refusal is not None:
            return refusal
        try:
            event = wire.event.decode(post.body)
        except msgspec.DecodeError as error:
            # A repetition by Google would be unreadable too.
            logger.warning("googlechat/%s: an event is unreadable: %s", self.account, error)
            return PostAnswer()
        message = wire.inbound(event, self.account, self.host.clock.now_ms())
        if message is not None:
            await self.intake.take([message])
        return PostAnswer(200, b"{}", "application/json")

    async def refuses(self, post: Post) -> PostAnswer | None:
        """Returns the answer to a request without a token of Google; None for a proven one."""
        if post.method != "POST":
            return PostAnswer(405, b"use POST")
        try:
            await self._prove(post.headers.get("authorization", ""))
        except TokenError as error:
            logger.info("googlechat/%s: a request is refused, its token: %s", self.account, error)
            return PostAnswer(401, b"the token is refused")
        return None

    async def _prove(self, authorization: str) -> None:
        token = await verified(authorization, self._keys, self._rules, self.host.clock)
        if self._by_address:  # Google signs such tokens for every account that it has
            claims = token.claims
            if claims.get("email") != SENDER or claims.get("email_verified") is not True:
                raise TokenError("it is not of Google Chat")

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends a part with its own message id, so that Chat drops a repetition."""
        self._limit.refuse()
        space, thread = part.to.peer.id, part.to.thread_id
        if not wire.SPACE.fullmatch(space) or (thread and not wire.THREAD.fullmatch(thread)):
            raise DeliveryRefusedError(f"{space!r} with the thread {thread!r} is no space of Chat.")
        number = wire.client_id(part)
        query = {"messageId": number, "requestId": number}
        body = _content(part.text)
        if thread:
            query["messageReplyOption"] = "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
            body["thread"] = {"name": thread}
        if part.additions.buttons:
            body["cardsV2"] = wire.buttons(part.additions.buttons)
        with self._limit.sending():
            try:
                answer = await self._api.call("POST", f"{space}/messages", query, body)
            except PlatformError as error:
                if error.status != _CONFLICT:
                    raise
                answer = b""  # the message exists already
        return _receipt(answer, f"{space}/messages/{number}")

    async def typing(self, to: ReplyTo) -> None:
        """Does nothing: Google Chat has no typing indicator for apps."""

    async def settle(self, part: OutboundPart) -> Settlement:
        """Requests the message under the id of the part."""
        receipt = await self.locate(part)
        return Settlement.ABSENT if receipt is None else Settlement.DELIVERED

    async def locate(self, part: OutboundPart) -> Receipt | None:
        """Returns the message of a part; None when it does not exist."""
        if not wire.SPACE.fullmatch(part.to.peer.id):
            return None
        name = f"{part.to.peer.id}/messages/{wire.client_id(part)}"
        try:
            return _receipt(await self._api.call("GET", name), name)
        except PlatformError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the app."""
        del to  # a message is named with its space
        self._limit.refuse()
        if not wire.MESSAGE.fullmatch(platform_id):
            raise DeliveryRefusedError(f"{platform_id!r} is no message of Chat.")
        with self._limit.sending():
            await self._api.call("PATCH", platform_id, {"updateMask": "text"}, _content(text))

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        try:
            fetched = await self._api.download(attachment.handle, max_bytes)
        except PlatformError as error:
            raise MediaError(f"{attachment.name} cannot be fetched: {error}") from error
        return fetched_file(attachment, fetched)

    async def probe(self) -> AccountState:
        """Returns the state after requesting a token."""
        self._api.access.drop()
        return await super().probe()


def _content(text: str) -> dict[str, Any]:
    # Without this field new apps use Markdown, and older ones Chat's own markup.
    return {"text": CHAT.render(text), "markupSyntax": "MARKUP_SYNTAX_CHAT"}


def _receipt(answer: bytes, name: str) -> Receipt:
    try:
        return Receipt((wire.sent.decode(answer).name or name,))
    except msgspec.DecodeError:
        return Receipt((name,))


def open_account(settings: GoogleChatAccount, host: ChannelHost) -> GoogleChatAdapter:
    """Returns the adapter of an account. Raises `ValueError` for one without a key file."""
    sender = ServiceAccount.read(settings.service_account_file)
    return GoogleChatAdapter(settings, host, ChatApi(settings, sender, host.clock))
