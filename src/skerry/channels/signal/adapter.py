"""One Signal number: receives a stream of events from signal-cli, and sends through it."""

import logging
from typing import Final

import anyio
import msgspec

from skerry.channels.signal import wire
from skerry.channels.signal.api import SILENT_SECONDS, Bridge, Events, SignalFile, SignalQuote
from skerry.channels.signal.config import SignalAccount
from skerry.channels.signal.daemon import Daemon
from skerry.channels.signal.rest_bridge import RestBridge
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_events import EventsEndedError
from skerry.sdk.channel_files import byte_limit, read_file
from skerry.sdk.channel_host import ChannelHost, Recent
from skerry.sdk.channel_socket import SocketEndedError
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    InboundMessage,
    Inbox,
    MediaError,
    OutboundPart,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

MAX_TEXT: Final = 2000
"""Bytes of a message: longer ones are folded away behind "read more"."""
MAX_FILE: Final = 14_000_000
"""Bytes of a file: signal-cli reads requests of at most 20,000,000 characters."""
KEEP_SECONDS: Final = 3.0
"""Seconds in which pending events are read and stored when the account is closed."""
_MAX_HELD_CHARS: Final = 60_000
"""Characters of events that are stored over a stop."""
_HELD_KEY: Final = "held"
_MAX_STORED_MESSAGES: Final = 500
_MAX_QUOTE_CHARS: Final = 1000
_NO_ACCOUNT: Final = 400
_BROKEN: Final = (PlatformError, EventsEndedError, SocketEndedError, msgspec.DecodeError)
_USUAL_REACTION: Final = "👀"


class SignalAdapter(Account):
    """Implements `ports.channel.ChannelAdapter`, `Fetches`, `Reacts` and `Probes`.

    signal-cli drops an event when it sends it. Events that the inbox did not accept are therefore
    stored over a stop of the gateway and tried again; only a kill loses pending events.
    """

    channel = wire.CHANNEL
    login_command = "restart"
    text_limit = MAX_TEXT
    text_unit = TextUnit.BYTES
    capabilities = Capabilities(reactions=True, media_in=True, media_out=True, rich_text=True)

    def __init__(self, settings: SignalAccount, host: ChannelHost, bridge: Bridge) -> None:
        super().__init__(host)
        self._settings = settings
        self._bridge = bridge
        self._limit = RateLimit("Signal", self.failed)
        self.login_remedy = f"Link signal-cli with {settings.number}, or register it"
        self.retry_remedy = (
            f"Start it at {settings.api_root}; it is tried again, and"
            " `skerry channels status --probe` asks at once."
        )
        self._texts = Recent[str, str](_MAX_STORED_MESSAGES)
        """Beginnings of the last messages by id, oldest first: a quote repeats the text."""
        self._reactions = Recent[str, str](_MAX_STORED_MESSAGES)
        """Reactions that may be removed, by the id of the message."""

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; stores received events that were not accepted."""
        events = (await self.host.cursor.read(_HELD_KEY)).splitlines()
        if events:
            await self._take_held(events, inbox)
        while True:
            try:
                await self._receive(inbox)
                await anyio.sleep(self.waits.delay(1))
            except _BROKEN as error:
                await anyio.sleep(self.failed(error))

    async def _receive(self, inbox: Inbox) -> None:
        """Receives from one stream until it ends."""
        version = await self._bridge.check()
        try:
            events = await self._bridge.events()
        except EventsEndedError as error:
            is_login = error.status == _NO_ACCOUNT
            raise PlatformError(str(error), status=error.status, is_login=is_login) from error
        self.connected(self._settings.number)
        logger.info("signal/%s: connected to %s", self.account, version)
        try:
            while True:
                await self._take(await events.receive(SILENT_SECONDS), events, inbox)
        finally:
            events.close()

    async def _take_held(self, events: list[str], inbox: Inbox) -> None:
        for text in events:
            await self._hand_in(text, inbox)
        await self.host.cursor.write(_HELD_KEY, "")

    async def _take(self, text: str, events: Events, inbox: Inbox) -> None:
        """Passes one event to the inbox; on failure stores it and the events after it."""
        try:
            await self._hand_in(text, inbox)
        except BaseException:
            with anyio.move_on_after(KEEP_SECONDS, shield=True):
                await self._keep([text, *await events.drain()])
            raise

    async def _hand_in(self, text: str, inbox: Inbox) -> None:
        message = self._message(text)
        if message is not None:
            if not message.deletes:
                self._remember(message)
            await inbox(message)

    def _message(self, text: str) -> InboundMessage | None:
        own_number, now = self._settings.number, self.host.clock.now_ms()
        try:
            event = wire.event.decode(text.encode())
        except msgspec.DecodeError as error:
            # An event in an unknown format must not block the others.
            logger.warning("signal/%s: an event is unreadable: %s", self.account, error)
            return None
        if event.account not in {None, own_number}:
            return None
        return wire.inbound(event, own_number, self.account, now)

    def _remember(self, message: InboundMessage) -> None:
        self._texts[message.message_id] = message.text[:_MAX_QUOTE_CHARS]

    async def _keep(self, events: list[str]) -> None:
        """Stores events for the next start of the account."""
        lines = [line for text in events if (line := " ".join(text.splitlines()))]
        stored = list[str]()
        while lines and sum(map(len, stored)) + len(stored) + len(lines[0]) <= _MAX_HELD_CHARS:
            stored.append(lines.pop(0))
        if lines:
            logger.error(
                "signal/%s: %d messages could not be stored and are lost", self.account, len(lines)
            )
        await self.host.cursor.write(_HELD_KEY, "\n".join(stored))

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part."""
        self._limit.refuse()
        media, file = part.additions.media, None
        if media is not None:
            read = await read_file(media, MAX_FILE)
            file = SignalFile(read.name, read.mime, read.data, media.voice)
        try:
            with self._limit.sending():
                timestamp = await self._bridge.send(part, self._quote(part.to), file)
        except (msgspec.DecodeError, ValueError):
            return Receipt(())  # the message was sent; its id is not needed
        return Receipt((wire.message_id(timestamp, self._settings.number),))

    def _quote(self, to: ReplyTo) -> SignalQuote | None:
        target = wire.parsed_id(to.quote or "")
        return SignalQuote(*target, self._texts.get(to.quote or "", "")) if target else None

    async def typing(self, to: ReplyTo) -> None:
        """Shows the typing indicator for 15 seconds."""
        if not self._limit.is_reached:
            await self._bridge.typing(to.peer)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns UNKNOWN: signal-cli stores no sent messages."""
        del part
        return Settlement.UNKNOWN

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets the reaction of the number; an empty emoji removes it."""
        target = wire.parsed_id(to.message_id)
        if target is None:
            return  # the address of a chat, which has no message
        remove = not emoji
        if remove:
            emoji = self._reactions.pop(to.message_id, _USUAL_REACTION)
        else:
            self._reactions[to.message_id] = emoji
        with self._limit.sending():
            await self._bridge.react(to.peer, target, emoji, remove=remove)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        name = attachment.name
        peer, file_id = wire.parsed_handle(attachment.handle)
        try:
            data = await self._bridge.attachment(peer, file_id, max_bytes)
        except (PlatformError, msgspec.DecodeError) as error:
            raise MediaError(f"{name} cannot be fetched: {error}") from error
        if data is None:
            raise MediaError(f"{name} cannot be fetched: it has more than {max_bytes} bytes")
        return data

    async def probe(self) -> AccountState:
        """Returns the state after a check of the program."""
        try:
            await self._bridge.check()
        except (PlatformError, msgspec.DecodeError) as error:
            self.failed(error)
        return self.state


def open_account(settings: SignalAccount, host: ChannelHost) -> SignalAdapter:
    """Returns the adapter of an account."""
    root = str(settings.api_root)
    kind = RestBridge if settings.bridge == "rest" else Daemon
    return SignalAdapter(settings, host, kind(root, settings.number))
