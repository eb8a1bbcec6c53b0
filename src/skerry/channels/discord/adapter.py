"""One Discord bot: receives by the gateway's WebSocket, sends by the HTTP API."""

import logging
from typing import Final

import anyio
import msgspec

from skerry.channels.discord import wire
from skerry.channels.discord.api import RestApi
from skerry.channels.discord.channel_cache import ChannelCache
from skerry.channels.discord.config import DiscordAccount
from skerry.channels.discord.poster import Poster
from skerry.channels.discord.receiver import Receiver
from skerry.config.channels import revealed
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_files import byte_limit, fetched_file
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channel_socket import SocketEndedError
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    ConnectionState,
    Inbox,
    OutboundPart,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

_INTENT_CODES: Final = frozenset({"4013", "4014"})
_SWITCH_ON: Final = "Switch on the Message Content Intent on the page Bot of the developer portal"
_RESET: Final = "Reset the token on the page Bot of the developer portal"
_ADDRESS_TRIES: Final = 3
"""Failures after which the gateway's address is requested again."""
MAX_TEXT: Final = 1900
"""Code units of a message: Discord takes 2,000 characters, and marks are added."""


class DiscordAdapter(Account):
    """Implements `ports.channel.ChannelAdapter`, `Fetches`, `Edits`, `Reacts` and `Probes`."""

    channel = wire.CHANNEL
    text_limit = MAX_TEXT
    text_unit = TextUnit.UTF16
    capabilities = Capabilities(
        edits=True,
        reactions=True,
        buttons=True,
        threads=True,
        media_in=True,
        media_out=True,
        polls=True,
        rich_text=True,
    )

    def __init__(self, settings: DiscordAccount, host: ChannelHost, token: str) -> None:
        super().__init__(host)
        self._settings = settings
        self._api = RestApi(str(settings.api_root), token)
        self._channels = ChannelCache(self._api)
        self._poster = Poster(settings, self._api, self._channels)
        self._receiver = Receiver(host, self._api, token, self._channels, self._poster)

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; stores the position after `inbox` has accepted the messages.

        Messages from before the first connection are not answered.
        """
        await self._receiver.load()
        try:
            while True:
                began, wait = anyio.current_time(), None
                try:
                    await self._receiver.log_in()
                    await self._receiver.receive(inbox, self._connected)
                except (PlatformError, SocketEndedError, msgspec.DecodeError) as error:
                    wait = self.failed(error)
                else:
                    self.failures += 1  # the server wants another connection, or no such session
                if anyio.current_time() - began > self.waits.cap:
                    self.failures = 1
                if self.failures % _ADDRESS_TRIES == 0:
                    self._receiver.forget_address()
                await anyio.sleep(wait or self.waits.delay(self.failures))
        finally:
            with anyio.move_on_after(2, shield=True):
                await self._receiver.save()

    def _connected(self) -> None:
        name = f"@{self._receiver.me.username}"
        self.state = AccountState(ConnectionState.CONNECTED, name=name)

    def failed(self, error: Exception) -> float:
        """Records the failure; after a refused token the bot's identity is requested again."""
        if isinstance(error, PlatformError) and error.is_login:
            self._receiver.me = wire.User()
            is_intent = error.code in _INTENT_CODES
            self.login_remedy = _SWITCH_ON if is_intent else _RESET
            self.login_command = "restart" if is_intent else "login"
        return super().failed(error)

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part."""
        return await self._poster.send(part)

    async def typing(self, to: ReplyTo) -> None:
        """Shows the typing indicator for ten seconds."""
        await self._poster.typing(to)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Looks for the part among the last messages of its channel."""
        await self._receiver.log_in()
        return await self._poster.settle(part, self._receiver.me.id)

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the bot."""
        await self._poster.edit(to, platform_id, text)

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Adds a reaction of the bot; an empty emoji removes the bot's reactions."""
        await self._poster.react(to, emoji)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        return fetched_file(attachment, await self._api.download(attachment.handle, max_bytes))

    async def probe(self) -> AccountState:
        """Returns the state after requesting the bot's identity from the server."""
        try:
            bot = wire.user.decode(await self._api.call("GET", "/users/@me"))
        except (PlatformError, msgspec.DecodeError) as error:
            self.failed(error)
            return self.state
        name = f"@{bot.username}"
        return self.state if self.state.name == name else AccountState(self.state.state, name=name)


def open_account(settings: DiscordAccount, host: ChannelHost) -> DiscordAdapter:
    """Returns the adapter of an account."""
    return DiscordAdapter(settings, host, revealed(settings.token))
