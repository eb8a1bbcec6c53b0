"""Channels, threads and direct chats by id, as far as messages need them."""

from typing import Final

import msgspec

from skerry.channels.discord import wire
from skerry.channels.discord.api import RestApi
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import Recent
from skerry.sdk.channels import DeliveryRefusedError, PeerKind, ReplyTo

_MOST: Final = 1000
_HIDDEN: Final = frozenset({403, 404})


class Places:
    """Asks Discord once for each channel; events of the gateway say when one has changed."""

    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._known = Recent[str, wire.Conversation](_MOST)
        self._direct = Recent[str, str](_MOST)
        """Direct chats by the id of their person."""
        self._roles: dict[tuple[str, str], wire.Member] = {}

    async def of(self, message: wire.Message) -> wire.Conversation:
        """Returns the place of a message; one without a server is a direct chat.

        Raises:
            PlatformError: the server cannot be asked.
        """
        if message.guild_id is None and message.channel_id not in self._known:
            self.note_direct(message.author.id, message.channel_id)
            return wire.Conversation(message.channel_id, wire.DIRECT)
        place = await self.get(message.channel_id)
        if not place.guild_id and message.guild_id:
            place = msgspec.structs.replace(place, guild_id=message.guild_id)
        return place

    async def get(self, channel_id: str) -> wire.Conversation:
        """Returns a channel; of one that is hidden from us only the id. Raises as `of`."""
        known = self._known.get(channel_id)
        if known is not None:
            return known
        try:
            known = wire.conversation.decode(await self._api.call("GET", f"/channels/{channel_id}"))
        except PlatformError as error:
            if error.status not in _HIDDEN:
                raise
            known = wire.Conversation(channel_id)
        self._known[channel_id] = known
        return known

    def forget(self, channel_id: str) -> None:
        """Asks again when the channel is needed next."""
        self._known.pop(channel_id, None)

    def note_direct(self, person: str, channel_id: str) -> None:
        """Notes the direct chat of a person."""
        self._direct[person] = channel_id

    async def member(self, guild_id: str, person: str) -> wire.Member:
        """Returns the nickname and the roles of a person on a server. Raises as `of`."""
        known = self._roles.get((guild_id, person))
        if known is None:
            path = f"/guilds/{guild_id}/members/{person}"
            try:
                known = wire.member.decode(await self._api.call("GET", path))
            except PlatformError as error:
                if error.status not in _HIDDEN:
                    raise
                known = wire.Member()  # who has left has no roles
            self._roles[guild_id, person] = known
        return known

    def forget_members(self) -> None:
        """Forgets the roles, which are asked for what was missed alone."""
        self._roles.clear()

    async def channel(self, to: ReplyTo) -> str:
        """Returns the id of the channel to send to.

        Raises:
            DeliveryRefusedError: the address is none of Discord.
            PlatformError: the direct chat cannot be opened.
        """
        number = to.thread_id or to.peer.id
        if not wire.is_snowflake(number):
            message = f"{number!r} is no person, channel or thread of Discord: these are numbers."
            raise DeliveryRefusedError(message)
        if to.thread_id or to.peer.kind is not PeerKind.DIRECT:
            return number
        known = self._direct.get(number)
        if known is None:
            asked = {"recipient_id": number}
            answer = await self._api.call("POST", "/users/@me/channels", asked)
            known = wire.conversation.decode(answer).id
            self.note_direct(number, known)
        return known
