"""Cache of Discord's channels, threads, direct chats and members."""

from typing import Final

import msgspec

from skerry.channels.discord import wire
from skerry.channels.discord.api import RestApi
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import Recent
from skerry.sdk.channels import DeliveryRefusedError, PeerKind, ReplyTo

_MAX_CHANNELS: Final = 1000
_HIDDEN: Final = frozenset({403, 404})


class ChannelCache:
    """Requests each channel once; an event of the gateway invalidates it when it changes."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._channels = Recent[str, wire.DiscordChannel](_MAX_CHANNELS)
        self._direct_chats = Recent[str, str](_MAX_CHANNELS)
        """Direct chats by the id of the person."""
        self._roles: dict[tuple[str, str], wire.Member] = {}

    async def of(self, message: wire.Message) -> wire.DiscordChannel:
        """Returns the channel of a message; without a server it is a direct chat.

        Raises:
            PlatformError: Discord does not answer.
        """
        if message.guild_id is None and message.channel_id not in self._channels:
            self.note_direct(message.author.id, message.channel_id)
            return wire.DiscordChannel(message.channel_id, wire.DIRECT)
        channel = await self.get(message.channel_id)
        if not channel.guild_id and message.guild_id:
            channel = msgspec.structs.replace(channel, guild_id=message.guild_id)
        return channel

    async def get(self, channel_id: str) -> wire.DiscordChannel:
        """Returns a channel; only its id when it is hidden from the bot. Raises as `of`."""
        channel = self._channels.get(channel_id)
        if channel is not None:
            return channel
        try:
            channel = wire.conversation.decode(
                await self._api.call("GET", f"/channels/{channel_id}")
            )
        except PlatformError as error:
            if error.status not in _HIDDEN:
                raise
            channel = wire.DiscordChannel(channel_id)
        self._channels[channel_id] = channel
        return channel

    def forget(self, channel_id: str) -> None:
        """Drops a channel, so that its next use requests it again."""
        self._channels.pop(channel_id, None)

    def note_direct(self, person: str, channel_id: str) -> None:
        """Stores the direct chat of a person."""
        self._direct_chats[person] = channel_id

    async def member(self, guild_id: str, person: str) -> wire.Member:
        """Returns the nickname and the roles of a person on a server. Raises as `of`."""
        member = self._roles.get((guild_id, person))
        if member is None:
            path = f"/guilds/{guild_id}/members/{person}"
            try:
                member = wire.member.decode(await self._api.call("GET", path))
            except PlatformError as error:
                if error.status not in _HIDDEN:
                    raise
                member = wire.Member()  # a person who left the server has no roles
            self._roles[guild_id, person] = member
        return member

    def forget_members(self) -> None:
        """Drops the roles, which are used for missed messages only."""
        self._roles.clear()

    async def channel(self, to: ReplyTo) -> str:
        """Returns the id of the channel to send to.

        Raises:
            DeliveryRefusedError: the address is no id of Discord.
            PlatformError: the direct chat cannot be opened.
        """
        number = to.thread_id or to.peer.id
        if not wire.is_snowflake(number):
            message = f"{number!r} is not a Discord person, channel or thread. Use a number."
            raise DeliveryRefusedError(message)
        if to.thread_id or to.peer.kind is not PeerKind.DIRECT:
            return number
        channel_id = self._direct_chats.get(number)
        if channel_id is None:
            body = {"recipient_id": number}
            answer = await self._api.call("POST", "/users/@me/channels", body)
            channel_id = wire.conversation.decode(answer).id
            self.note_direct(number, channel_id)
        return channel_id
