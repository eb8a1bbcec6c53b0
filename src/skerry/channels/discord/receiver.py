"""Events of a bot, from the gateway's WebSocket to the inbox, and what was missed meanwhile."""

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
from skerry.channels.discord.channel_cache import Places
from skerry.channels.discord.gateway_connection import Link, Op, Session
from skerry.channels.discord.poster import Poster
from skerry.infra.supervise import beside
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channel_socket import SocketEndedError
from skerry.sdk.channels import Inbox

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 2000
"""Events that wait for the gateway; with more the connection ends, and they come again."""
MENU_SECONDS: Final = 60.0
"""Seconds after which a change of the commands is looked for."""
_PROGRESS: Final = "progress"
_MOST_READ: Final = 200
"""Channels of which the last message is known."""
_SAVE_EVERY: Final = 100
_PAGE: Final = 100
_MOST_PAGES: Final = 10
_HIDDEN: Final = frozenset({403, 404})
_CHANGED: Final = frozenset({"CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_UPDATE", "THREAD_DELETE"})
_TAKEN: Final = frozenset(
    {"READY", "RESUMED", "MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"}
    | {"MESSAGE_DELETE", "MESSAGE_DELETE_BULK"}
    | _CHANGED
)


class Progress(Struct):
    """Place up to which the bot has received; kept over restarts."""

    session: Session = field(default_factory=Session)
    read: dict[str, str] = field(default_factory=dict)
    """The last message by channel, the channels in the order of these."""
    is_behind: bool = False
    """True while messages from before the session are to be asked for."""
    menu: str = ""
    """Digest of the commands that Discord has."""


_progress = msgspec.json.Decoder(Progress)


class Receiver:
    """Receives for one bot. The place is noted after the inbox has taken what is before it."""

    def __init__(
        self, host: ChannelHost, api: RestApi, token: str, places: Places, poster: Poster
    ) -> None:
        self._host = host
        self._api = api
        self._token = token
        self._places = places
        self._poster = poster
        self._progress = Progress()
        self._unsaved = 0
        self.me = wire.User()

    async def load(self) -> None:
        """Reads the place that an earlier process noted."""
        stored = await self._host.cursor.read(_PROGRESS)
        self._progress = _progress.decode(stored) if stored else Progress()

    async def save(self, *, at_least: int = 1) -> None:
        """Notes the place, when so many events were taken since."""
        if self._unsaved >= at_least:
            self._unsaved = 0
            text = msgspec.json.encode(self._progress).decode()
            await self._host.cursor.write(_PROGRESS, text)

    async def log_in(self) -> None:
        """Asks who the bot is, once. Raises `PlatformError` and `DecodeError`."""
        if not self.me.id:
            self.me = wire.user.decode(await self._api.call("GET", "/users/@me"))

    def forget_address(self) -> None:
        """Asks for the gateway's address anew: that of the session may be dead."""
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
            DecodeError: Discord says what cannot be understood.
        """
        url, progress = await self._address(), self._progress
        if not progress.session.id:
            progress.is_behind = bool(progress.read)
        queue, frames = anyio.create_memory_object_stream[wire.Frame](MOST_WAITING)
        ended: list[Exception] = []
        async with frames, beside(partial(self._listen, url, queue, ended)):
            async for frame in frames:
                if frame.t in {"READY", "RESUMED"}:
                    connected()
                await self._take(frame, inbox)
        for error in ended:
            raise error

    async def _listen(
        self, url: str, queue: MemoryObjectSendStream[wire.Frame], ended: list[Exception]
    ) -> None:
        """Lets events wait in the queue until the WebSocket ends; the queue ends with it."""
        async with queue, anyio.create_task_group() as tasks:

            def dispatch(frame: wire.Frame) -> None:
                if frame.t == "INTERACTION_CREATE":
                    tasks.start_soon(interactions.acknowledge, self._api, frame.d)
                _put(queue, frame)

            tasks.start_soon(self._keep_menu)
            link = Link(self._api, self._token, self._progress.session, dispatch)
            try:
                await link.run(url)
            except (PlatformError, SocketEndedError, msgspec.DecodeError) as error:
                ended.append(error)
            tasks.cancel_scope.cancel()

    async def _take(self, frame: wire.Frame, inbox: Inbox) -> None:
        """Takes one event; what has another form than expected must not hold back all others."""
        is_taken = False
        try:
            is_taken = await self._understand(frame, inbox)
        except (msgspec.DecodeError, RecursionError) as error:
            logger.warning("discord/%s: %s is unreadable: %s", self._host.account, frame.t, error)
        session = self._progress.session
        session.seq = max(session.seq, frame.s or 0)
        self._unsaved += 1
        await self.save(at_least=1 if is_taken else _SAVE_EVERY)

    async def _understand(self, frame: wire.Frame, inbox: Inbox) -> bool:
        """Returns whether the place is to be noted at once."""
        match frame.t:
            case "READY" | "RESUMED":
                if self._progress.is_behind:
                    await self._catch_up(inbox)
                    self._progress.is_behind = False
                return True
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                message = wire.message.decode(frame.d)
                if frame.t == "MESSAGE_UPDATE" and not message.edited_timestamp:
                    return False  # a preview of a link was added
                return await self._hand_in(message, inbox)
            case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
                return await self._delete(wire.deleted.decode(frame.d), inbox)
            case "INTERACTION_CREATE":
                return await self._act(wire.interaction.decode(frame.d), inbox)
            case None:
                pass
            case _:
                self._places.forget(wire.conversation.decode(frame.d).id)
        return False

    async def _hand_in(self, message: wire.Message, inbox: Inbox) -> bool:
        """Hands in a message; returns whether it was one that a person wrote."""
        if message.author.id in {"", self.me.id} or message.author.bot:
            return False
        where = await self._places.of(message)
        now = self._host.clock.now_ms()
        arrived = wire.inbound(message, where, self._host.account, self.me, now)
        if arrived is None:
            return False
        await inbox(arrived)
        if not arrived.edited:
            read = self._progress.read
            read.pop(message.channel_id, None)
            read[message.channel_id] = message.id
            if len(read) > _MOST_READ:
                del read[next(iter(read))]
        return True

    async def _delete(self, gone: wire.Deleted, inbox: Inbox) -> bool:
        where = await self._places.get(gone.channel_id)
        now = self._host.clock.now_ms()
        for number in gone.numbers:
            withdrawn = wire.withdrawn(number, where, self._host.account, now)
            if withdrawn is not None:
                await inbox(withdrawn)
        return False

    async def _catch_up(self, inbox: Inbox) -> None:
        """Takes what was written while there was no session that could be resumed."""
        for channel_id, last in list(self._progress.read.items()):
            try:
                await self._read_on(channel_id, last, inbox)
            except PlatformError as error:
                if error.status not in _HIDDEN:
                    raise
                logger.warning("discord: %s is not read: %s", channel_id, error)
                self._progress.read.pop(channel_id, None)
        self._places.forget_members()

    async def _read_on(self, channel_id: str, last: str, inbox: Inbox) -> None:
        for _ in range(_MOST_PAGES):
            path = f"/channels/{channel_id}/messages?after={last}&limit={_PAGE}"
            raws = wire.messages.decode(await self._api.call("GET", path))
            for message in sorted(_readable(raws), key=lambda one: int(one.id)):
                last = message.id
                self._unsaved += await self._hand_in(await self._with_server(message), inbox)
                await self.save()
            if len(raws) < _PAGE:
                return
        logger.warning("discord: %s has more messages that were missed", channel_id)

    async def _with_server(self, message: wire.Message) -> wire.Message:
        """Returns a message as its event would have had it: with its server and the roles."""
        where = await self._places.get(message.channel_id)
        if not where.guild_id:
            return message
        member = await self._places.member(where.guild_id, message.author.id)
        return replace(message, guild_id=where.guild_id, member=member)

    async def _act(self, act: wire.Interaction, inbox: Inbox) -> bool:
        if not act.command or not act.person.id or not wire.is_snowflake(act.id):
            return False
        if act.guild_id:
            known = await self._places.get(act.channel_id)
            where = replace(known, guild_id=act.guild_id)
        else:
            where = wire.Conversation(act.channel_id, wire.DIRECT)
            self._places.note_direct(act.person.id, act.channel_id)
        await inbox(wire.acted(act, where, self._host.account, self._host.clock.now_ms()))
        is_direct = where.type == wire.DIRECT
        if act.type == wire.BUTTON and act.message is not None and is_direct:
            # On a server everybody can press a button, also who may not answer.
            try:
                await self._poster.without_buttons(act.message)
            except PlatformError as error:
                logger.info("discord: the buttons are not taken away: %s", error)
        return True

    async def _keep_menu(self) -> None:
        """Sets the menu of slash commands where it is not as it should be; follows changes."""
        while True:
            entries = interactions.menu(self._host.menu().shown)
            wanted = interactions.digest(entries)
            try:
                if wanted != self._progress.menu:
                    await interactions.set_menu(self._api, entries)
                    self._progress.menu = wanted
                    self._unsaved += 1
            except (PlatformError, msgspec.DecodeError) as error:
                logger.warning("discord: the menu of commands is not set: %s", error)
            await anyio.sleep(MENU_SECONDS)


def _put(queue: MemoryObjectSendStream[wire.Frame], frame: wire.Frame) -> None:
    """Lets an event wait; of one that is not needed the number alone, which is taken too."""
    try:
        queue.send_nowait(frame if frame.t in _TAKEN else wire.Frame(Op.DISPATCH, s=frame.s))
    except anyio.WouldBlock:
        raise SocketEndedError(f"More than {MOST_WAITING} events wait.") from None


def _readable(raws: tuple[Raw, ...]) -> list[wire.Message]:
    """Returns the messages that can be read; another one must not hold these back."""
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
