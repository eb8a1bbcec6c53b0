"""One Discord bot: receives by the gateway's WebSocket, sends by the HTTP API."""

import logging
from typing import Final

import anyio
import msgspec

from skerry.channels.discord import wire
from skerry.channels.discord.api import ApiError, RestApi
from skerry.channels.discord.config import DiscordAccount
from skerry.channels.discord.gateway import LOGIN_CODES
from skerry.channels.discord.places import Places
from skerry.channels.discord.receiving import Receiver
from skerry.channels.discord.sending import Poster
from skerry.infra.backoff import Backoff
from skerry.sdk.channel_host import ChannelHost, Outcome
from skerry.sdk.channel_socket import SocketEndedError
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    ConnectionState,
    Inbox,
    MediaError,
    OutboundPart,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

WAITS: Final = Backoff(base=1.0, cap=60.0)
"""Waits between attempts to reach the server."""
LOGIN_WAIT: Final = 300.0
_ADDRESS_TRIES: Final = 3
"""Failures after which the gateway's address is asked for anew."""
MOST_TEXT: Final = 1900
"""Code units of a message: Discord takes 2,000 characters, and marks are added."""


class DiscordAdapter:
    """Implements `ports.channel.ChannelAdapter`, `Fetches`, `Edits`, `Reacts` and `Probes`."""

    channel = wire.CHANNEL
    text_limit = MOST_TEXT
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
        self.account = host.account
        self.state = AccountState()
        self._settings = settings
        self._api = RestApi(str(settings.api_root), token)
        self._places = Places(self._api)
        self._poster = Poster(settings, self._api, self._places)
        self._receiver = Receiver(host, self._api, token, self._places, self._poster)
        self._failures = 0

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; the place is noted after `inbox` has taken what is before it.

        Messages from before the first connection are not answered.
        """
        await self._receiver.load()
        try:
            while True:
                began, wait = anyio.current_time(), None
                try:
                    await self._receiver.log_in()
                    await self._receiver.receive(inbox, self._connected)
                except (ApiError, SocketEndedError, msgspec.DecodeError) as error:
                    self._failures += 1
                    wait = self._note(error)
                else:
                    self._failures += 1  # the server wants another connection, or no such session
                if anyio.current_time() - began > WAITS.cap:
                    self._failures = 1
                if self._failures % _ADDRESS_TRIES == 0:
                    self._receiver.forget_address()
                await anyio.sleep(wait or WAITS.delay(self._failures))
        finally:
            with anyio.move_on_after(2, shield=True):
                await self._receiver.save()

    def _connected(self) -> None:
        name = f"@{self._receiver.me.username}"
        self.state = AccountState(ConnectionState.CONNECTED, name=name)

    def _note(self, error: Exception) -> float:
        """Notes why the server gave nothing; returns for how many seconds to wait."""
        name, message = self.state.name, str(error)
        status, code = (error.status, error.code) if isinstance(error, ApiError) else (0, 0)
        if status == 401 or code in LOGIN_CODES:  # noqa: PLR2004 - HTTP's Unauthorized
            self._receiver.me = wire.User()
            remedy = (
                "Switch on the Message Content Intent on the page Bot of the developer portal, then"
                f" run `skerry channels restart discord --account {self.account}`."
            )
            if code not in {4013, 4014}:
                remedy = (
                    "Reset the token on the page Bot of the developer portal, then run"
                    f" `skerry channels login discord --account {self.account}`."
                )
            self.state = AccountState(ConnectionState.NEEDS_LOGIN, message, remedy, name)
            logger.error("discord/%s: %s", self.account, message)
            return LOGIN_WAIT
        remedy = "It is tried again; `skerry channels status --probe` asks at once."
        self.state = AccountState(ConnectionState.RETRYING, message, remedy, name)
        if self._failures == 1:
            logger.warning("discord/%s: %s", self.account, message)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return retry_after or WAITS.delay(self._failures)

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part."""
        return await self._poster.send(part)

    async def typing(self, to: ReplyTo) -> None:
        """Shows for ten seconds that an answer is being written."""
        await self._poster.typing(to)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Looks for the part among the last messages of its channel."""
        await self._receiver.log_in()
        return await self._poster.settle(part, self._receiver.me.id)

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the bot."""
        await self._poster.edit(to, platform_id, text)

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Adds a reaction of the bot; an empty emoji removes those that it set."""
        await self._poster.react(to, emoji)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of a file that a person sent."""
        most = min(limit, self._settings.media_max_mb * 1_000_000)
        if attachment.size > most:
            raise MediaError(f"{attachment.name} has {attachment.size} bytes; {most} are taken.")
        fetched = await self._api.download(attachment.handle, most)
        if fetched.outcome is not Outcome.ALLOW or fetched.status != 200:  # noqa: PLR2004 - HTTP's OK
            reason = f"it has more than {most} bytes" if fetched.truncated else fetched.reason
            raise MediaError(f"{attachment.name} cannot be fetched: {reason}")
        return fetched.body

    async def probe(self) -> AccountState:
        """Returns the state after asking the server who the bot is."""
        try:
            mine = wire.user.decode(await self._api.call("GET", "/users/@me"))
        except (ApiError, msgspec.DecodeError) as error:
            self._note(error)
            return self.state
        name = f"@{mine.username}"
        return self.state if self.state.name == name else AccountState(self.state.state, name=name)


def open_account(settings: DiscordAccount, host: ChannelHost) -> DiscordAdapter:
    """Returns the adapter of an account."""
    token = settings.token.get_secret_value() if settings.token else ""
    return DiscordAdapter(settings, host, token)
