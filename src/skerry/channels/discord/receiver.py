"""Passes events of a bot from the gateway's WebSocket to the inbox; fetches missed messages."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from skerry.channels.discord import interactions, wire
from skerry.channels.discord.api import RestApi
from skerry.channels.discord.channel_cache import ChannelCache
from skerry.channels.discord.gateway_connection import GatewayConnection, GatewaySession, Op
from skerry.channels.discord.poster import Poster
from skerry.infra.supervise import in_background
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channel_socket import SocketEndedError
from skerry.sdk.channels import Inbox

logger = logging.getLogger(__name__)

MAX_QUEUED_EVENTS: Final = 2000
"""Events in the queue; when it is full the connection ends, and they are sent again."""
MENU_SECONDS: Final = 60.0
"""Seconds between two checks for changed commands."""
_PROGRESS: Final = "progress"
_MAX_POSITIONS: Final = 200
"""Channels whose last message id is stored."""
_SAVE_EVERY: Final = 100
_PAGE: Final = 100
_MAX_PAGES: Final = 10
_HIDDEN: Final = frozenset({403, 404})
_CHANNEL_CHANGES: Final = frozenset(
    {"CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_UPDATE", "THREAD_DELETE"}
)
_HANDLED_EVENTS: Final = frozenset(
    {"READY", "RESUMED", "MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"}
    | {"MESSAGE_DELETE", "MESSAGE_DELETE_BULK"}
    | _CHANNEL_CHANGES
)


class ReceivedPosition(Struct):
    """Position up to which the bot has received; stored over restarts."""

    session: GatewaySession = field(default_factory=GatewaySession)
    read: dict[str, str] = field(default_factory=dict)
    """Id of the last message by channel, in the order of these messages."""
    is_behind: bool = False
    """True while messages from before the session must be fetched."""
    menu: str = ""
    """Digest of the commands that were sent to Discord."""


_progress = msgspec.json.Decoder(ReceivedPosition)


class Receiver:
    """Receives for one bot. The position is stored after the inbox has accepted the messages."""

    def __init__(
        self, host: ChannelHost, api: RestApi, token: str, channels: ChannelCache, poster: Poster
    ) -> None:
        self._host = host
        self._api = api
        self._token = token
        self._channels = channels
        self._poster = poster
        self._progress = ReceivedPosition()
        self._unsaved = 0
        self.me = wire.User()

    async def load(self) -> None:
        """Reads the position that an earlier process stored."""
        stored = await self._host.cursor.read(_PROGRESS)
        self._progress = _progress.decode(stored) if stored else ReceivedPosition()

    async def save(self, *, at_least: int = 1) -> None:
        """Stores the position if at least `at_least` events were processed since the last time."""
        if self._unsaved >= at_least:
            self._unsaved = 0
            text = msgspec.json.encode(self._progress).decode()
            await self._host.cursor.write(_PROGRESS, text)

    async def log_in(self) -> None:
        """Requests the bot's identity, once. Raises `PlatformError` and `DecodeError`."""
        if not self.me.id:
            self.me = wire.user.decode(await self._api.call("GET", "/users/@me"))

    def forget_address(self) -> None:
        """Drops the session's address, which may be stale; the next connection requests one."""
        self._progress.session.url = ""

    async def _address(self) -> str:
        session = self._progress.session
        if session.id and session.url:
            return session.url
        address = wire.address.decode(await self._api.call("GET", "/gateway/bot"))
        limit = address.session_start_limit
        if limit.remaining <= 0 and not session.id:
            text = "Discord allows the bot no further session for now."
            raise PlatformError(text, retry_after=max(limit.reset_after / 1000, 1.0))
        return address.url

    async def receive(self, inbox: Inbox, connected: Callable[[], None]) -> None:
        """Receives over one WebSocket until it ends; calls `connected` once events arrive.

        Raises:
            PlatformError: Discord refuses the bot, or does not answer.
            SocketEndedError: the WebSocket broke.
            DecodeError: Discord's answer cannot be decoded.
        """
        url, progress = await self._address(), self._progress
        if not progress.session.id:
            progress.is_behind = bool(progress.read)
        queue, frames = anyio.create_memory_object_stream[wire.Frame](MAX_QUEUED_EVENTS)
        ended: list[Exception] = []
        async with frames, in_background(partial(self._listen, url, queue, ended)):
            async for frame in frames:
                if frame.t in {"READY", "RESUMED"}:
                    connected()
                await self._take(frame, inbox)
        for error in ended:
            raise error

    async def _listen(
        self, url: str, queue: MemoryObjectSendStream[wire.Frame], ended: list[Exception]
    ) -> None:
        """Puts events into the queue until the WebSocket ends, then closes the queue."""
        async with queue, anyio.create_task_group() as tasks:

            def dispatch(frame: wire.Frame) -> None:
                if frame.t == "INTERACTION_CREATE":
                    tasks.start_soon(interactions.acknowledge, self._api, frame.d)
                _put(queue, frame)

            tasks.start_soon(self._update_menu)
            connection = GatewayConnection(self._api, self._token, self._progress.session, dispatch)
            try:
                await connection.run(url)
            except (PlatformError, SocketEndedError, msgspec.DecodeError) as error:
                ended.append(error)
            tasks.cancel_scope.cancel()

    async def _take(self, frame: wire.Frame, inbox: Inbox) -> None:
        """Processes one event; a malformed one is logged and must not block the others."""
        must_save = False
        try:
            must_save = await self._process(frame, inbox)
        except (msgspec.DecodeError, RecursionError) as error:
            logger.warning("discord/%s: %s is unreadable: %s", self._host.account, frame.t, error)
        session = self._progress.session
        session.seq = max(session.seq, frame.s or 0)
        self._unsaved += 1
        await self.save(at_least=1 if must_save else _SAVE_EVERY)

    async def _process(self, frame: wire.Frame, inbox: Inbox) -> bool:
        """Processes an event; returns True when the position must be stored at once."""
        match frame.t:
            case "READY" | "RESUMED":
                if self._progress.is_behind:
                    await self._catch_up(inbox)
                    self._progress.is_behind = False
                return True
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                message = wire.message.decode(frame.d)
                if frame.t == "MESSAGE_UPDATE" and not message.edited_timestamp:
                    return False  # Discord added a preview of a connection
                return await self._hand_in(message, inbox)
            case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
                return await self._delete(wire.deleted.decode(frame.d), inbox)
            case "INTERACTION_CREATE":
                return await self._process_interaction(wire.interaction.decode(frame.d), inbox)
            case None:
                pass
            case _:
                self._channels.forget(wire.conversation.decode(frame.d).id)
        return False

    async def _hand_in(self, message: wire.Message, inbox: Inbox) -> bool:
        """Passes a message to the inbox; returns False for one that no person wrote."""
        if message.author.id in {"", self.me.id} or message.author.bot:
            return False
        channel = await self._channels.of(message)
        now = self._host.clock.now_ms()
        arrived = wire.inbound(message, channel, self._host.account, self.me, now)
        if arrived is None:
            return False
        await inbox(arrived)
        if not arrived.edited:
            read = self._progress.read
            read.pop(message.channel_id, None)
            read[message.channel_id] = message.id
            if len(read) > _MAX_POSITIONS:
                del read[next(iter(read))]
        return True

    async def _delete(self, deleted: wire.Deleted, inbox: Inbox) -> bool:
        channel = await self._channels.get(deleted.channel_id)
        now = self._host.clock.now_ms()
        for number in deleted.numbers:
            withdrawn = wire.withdrawn(number, channel, self._host.account, now)
            if withdrawn is not None:
                await inbox(withdrawn)
        return False

    async def _catch_up(self, inbox: Inbox) -> None:
        """Fetches the messages that arrived while no session could be resumed."""
        for channel_id, last in list(self._progress.read.items()):
            try:
                await self._fetch_after(channel_id, last, inbox)
            except PlatformError as error:
                if error.status not in _HIDDEN:
                    raise
                logger.warning(
                    "discord: cannot read the missed messages of channel %s: %s", channel_id, error
                )
                self._progress.read.pop(channel_id, None)
        self._channels.forget_members()

    async def _fetch_after(self, channel_id: str, last: str, inbox: Inbox) -> None:
        for _ in range(_MAX_PAGES):
            path = f"/channels/{channel_id}/messages?after={last}&limit={_PAGE}"
            raws = wire.messages.decode(await self._api.call("GET", path))
            for message in sorted(_readable(raws), key=lambda message: int(message.id)):
                last = message.id
                self._unsaved += await self._hand_in(await self._with_server(message), inbox)
                await self.save()
            if len(raws) < _PAGE:
                return
        logger.warning(
            "discord: channel %s has more missed messages than the limit; the rest is skipped",
            channel_id,
        )

    async def _with_server(self, message: wire.Message) -> wire.Message:
        """Returns a fetched message with its server and the roles of its author."""
        channel = await self._channels.get(message.channel_id)
        if not channel.guild_id:
            return message
        member = await self._channels.member(channel.guild_id, message.author.id)
        return replace(message, guild_id=channel.guild_id, member=member)

    async def _process_interaction(self, interaction: wire.Interaction, inbox: Inbox) -> bool:
        if (
            not interaction.command
            or not interaction.person.id
            or not wire.is_snowflake(interaction.id)
        ):
            return False
        if interaction.guild_id:
            channel_of_server = await self._channels.get(interaction.channel_id)
            channel = replace(channel_of_server, guild_id=interaction.guild_id)
        else:
            channel = wire.DiscordChannel(interaction.channel_id, wire.DIRECT)
            self._channels.note_direct(interaction.person.id, interaction.channel_id)
        await inbox(wire.acted(interaction, channel, self._host.account, self._host.clock.now_ms()))
        is_direct = channel.type == wire.DIRECT
        if interaction.type == wire.BUTTON and interaction.message is not None and is_direct:
            # On a server every member can press a button, also members who may not answer.
            try:
                await self._poster.without_buttons(interaction.message)
            except PlatformError as error:
                logger.info("discord: cannot remove the buttons of a message: %s", error)
        return True

    async def _update_menu(self) -> None:
        """Sends the menu of slash commands whenever it differs from the stored one."""
        while True:
            entries = interactions.menu(self._host.menu().visible)
            digest = interactions.digest(entries)
            try:
                if digest != self._progress.menu:
                    await interactions.set_menu(self._api, entries)
                    self._progress.menu = digest
                    self._unsaved += 1
            except (PlatformError, msgspec.DecodeError) as error:
                logger.warning("discord: cannot set the menu of commands: %s", error)
            await anyio.sleep(MENU_SECONDS)


def _put(queue: MemoryObjectSendStream[wire.Frame], frame: wire.Frame) -> None:
    """Puts an event into the queue; of an unhandled event only its number is needed."""
    try:
        queue.send_nowait(
            frame if frame.t in _HANDLED_EVENTS else wire.Frame(Op.DISPATCH, s=frame.s)
        )
    except anyio.WouldBlock:
        raise SocketEndedError(f"More than {MAX_QUEUED_EVENTS} events are queued.") from None


def _readable(raws: tuple[Raw, ...]) -> list[wire.Message]:
    """Returns the messages that can be decoded; logs the others."""
    messages = list[wire.Message]()
    for raw in raws:
        try:
            message = wire.message.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            logger.warning("discord: a message is unreadable: %s", error)
            continue
        if wire.is_snowflake(message.id):
            messages.append(message)
    return messages
