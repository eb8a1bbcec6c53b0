"""One Signal number: receives a stream of events from signal-cli, and sends through it."""

import logging
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from skerry.channels.signal import wire
from skerry.channels.signal.api import SILENT_SECONDS, ApiError, Bridge, Events, File, Quote
from skerry.channels.signal.config import SignalAccount
from skerry.channels.signal.daemon import Daemon
from skerry.channels.signal.rest import Rest
from skerry.infra.backoff import Backoff
from skerry.sdk.channel_events import EventsEndedError
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channel_socket import SocketEndedError
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    ConnectionState,
    DeliveryDelayedError,
    DeliveryRefusedError,
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

WAITS: Final = Backoff(base=1.0, cap=60.0)
"""Waits between attempts to reach signal-cli."""
LOGIN_WAIT: Final = 300.0
MOST_TEXT: Final = 2000
"""Bytes of a message: longer ones are folded away behind "read more"."""
MOST_FILE: Final = 14_000_000
"""Bytes of a file: signal-cli reads no longer text than 20,000,000 characters."""
KEEP_SECONDS: Final = 3.0
"""Seconds in which the events on their way are read and kept, when the account is closed."""
_MOST_HELD: Final = 60_000
"""Characters of events that are kept over a stop."""
_HELD: Final = "held"
_MOST_QUOTED: Final = 500
_MOST_QUOTE: Final = 1000
_NO_ACCOUNT: Final = 400
_USUAL_REACTION: Final = "👀"


class SignalAdapter:
    """Implements `ports.channel.ChannelAdapter`, `Fetches`, `Reacts` and `Probes`.

    signal-cli forgets an event as it sends it. What could not be handed in is therefore tried again
    here, and kept over a stop of the gateway; only a kill loses what is on its way.
    """

    channel = wire.CHANNEL
    text_limit = MOST_TEXT
    text_unit = TextUnit.BYTES
    capabilities = Capabilities(reactions=True, media_in=True, media_out=True, rich_text=True)

    def __init__(self, settings: SignalAccount, host: ChannelHost, bridge: Bridge) -> None:
        self.account = host.account
        self.state = AccountState()
        self._settings = settings
        self._host = host
        self._bridge = bridge
        self._failures = 0
        self._texts: dict[str, str] = {}
        """Begins of the last messages by id, oldest first: a quote repeats its text."""
        self._reactions: dict[str, str] = {}
        """Reactions that may be removed, by the id of the message."""
        self._quiet_until = 0.0
        """Time of the event loop until which Signal wants no message."""

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; what was received and not taken is kept for the next time."""
        held = (await self._host.cursor.read(_HELD)).splitlines()
        if held:
            await self._take_held(held, inbox)
        while True:
            try:
                await self._receive(inbox)
                await anyio.sleep(WAITS.delay(1))
            except (ApiError, EventsEndedError, SocketEndedError, msgspec.DecodeError) as error:
                await anyio.sleep(self._note(error))

    async def _receive(self, inbox: Inbox) -> None:
        """Receives from one stream until it ends."""
        version = await self._bridge.check()
        events = await self._bridge.events()
        self._failures = 0
        self.state = AccountState(ConnectionState.CONNECTED, name=self._settings.number)
        logger.info("signal/%s: connected to %s", self.account, version)
        try:
            while True:
                await self._take(await events.receive(SILENT_SECONDS), events, inbox)
        finally:
            events.close()

    async def _take_held(self, held: list[str], inbox: Inbox) -> None:
        for text in held:
            await self._hand_in(text, inbox)
        await self._host.cursor.write(_HELD, "")

    async def _take(self, text: str, events: Events, inbox: Inbox) -> None:
        """Hands one event in; it is kept with those behind it where that fails."""
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
        own, now = self._settings.number, self._host.clock.now_ms()
        try:
            event = wire.event.decode(text.encode())
        except msgspec.DecodeError as error:
            # An event that signal-cli changed must not hold back all others.
            logger.warning("signal/%s: an event is unreadable: %s", self.account, error)
            return None
        if event.account not in {None, own}:
            return None
        return wire.inbound(event, own, self.account, now)

    def _remember(self, message: InboundMessage) -> None:
        self._texts[message.message_id] = message.text[:_MOST_QUOTE]
        if len(self._texts) > _MOST_QUOTED:
            del self._texts[next(iter(self._texts))]

    async def _keep(self, events: list[str]) -> None:
        """Notes events for the next start of the account."""
        lines = [line for text in events if (line := " ".join(text.splitlines()))]
        kept = list[str]()
        while lines and sum(map(len, kept)) + len(kept) + len(lines[0]) <= _MOST_HELD:
            kept.append(lines.pop(0))
        if lines:
            logger.error("signal/%s: %d messages could not be kept", self.account, len(lines))
        await self._host.cursor.write(_HELD, "\n".join(kept))

    def _note(self, error: Exception) -> float:
        """Notes why nothing arrives; returns for how many seconds to wait."""
        self._failures += 1
        name, message = self.state.name, str(error)
        unknown = isinstance(error, EventsEndedError) and error.status == _NO_ACCOUNT
        if unknown or (isinstance(error, ApiError) and error.needs_login):
            remedy = (
                f"Link signal-cli with {self._settings.number}, or register it, then run"
                f" `skerry channels restart signal --account {self.account}`."
            )
            self.state = AccountState(ConnectionState.NEEDS_LOGIN, message, remedy, name)
            logger.error("signal/%s: %s", self.account, message)
            return LOGIN_WAIT
        remedy = (
            f"Start it at {self._settings.api_root}; it is tried again, and"
            " `skerry channels status --probe` asks at once."
        )
        self.state = AccountState(ConnectionState.RETRYING, message, remedy, name)
        if self._failures == 1:
            logger.warning("signal/%s: %s", self.account, message)
        return WAITS.delay(self._failures)

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part."""
        seconds = self._quiet_until - anyio.current_time()
        if seconds > 0:
            raise DeliveryDelayedError("Signal's rate limit is reached.", seconds)
        file = await self._file(part)
        try:
            timestamp = await self._bridge.send(part, self._quote(part.to), file)
        except ApiError as error:
            raise self._undelivered(error) from error
        except (msgspec.DecodeError, ValueError):
            return Receipt(())  # it was sent; nothing needs its id
        return Receipt((wire.message_id(timestamp, self._settings.number),))

    def _quote(self, to: ReplyTo) -> Quote | None:
        target = wire.parsed_id(to.quote or "")
        return Quote(*target, self._texts.get(to.quote or "", "")) if target else None

    async def _file(self, part: OutboundPart) -> File | None:
        media = part.more.media
        if media is None:
            return None
        path = Path(media.path)
        try:
            data = await anyio.to_thread.run_sync(path.read_bytes)
        except OSError as error:
            message = f"The file {media.path} cannot be read: {error.strerror}."
            raise DeliveryRefusedError(message) from None
        if len(data) > MOST_FILE:
            message = f"{path.name} has {len(data)} bytes; {MOST_FILE} can be sent."
            raise DeliveryRefusedError(message)
        return File(media.name or path.name, media.mime, data, media.voice)

    def _undelivered(self, error: ApiError) -> Exception:
        """Returns the error by which the sender of the outbox decides."""
        if error.retry_after is not None:
            self._quiet_until = anyio.current_time() + error.retry_after
            return DeliveryDelayedError(str(error), error.retry_after)
        if error.needs_login:
            self._note(error)
            return DeliveryDelayedError(str(error))
        if not error.is_sent:
            return DeliveryDelayedError(str(error))
        if error.is_final:
            return DeliveryRefusedError(str(error))
        return error  # nobody knows whether it arrived

    async def typing(self, to: ReplyTo) -> None:
        """Shows for 15 seconds that an answer is being written."""
        if self._quiet_until <= anyio.current_time():
            await self._bridge.typing(to.peer)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns UNKNOWN: signal-cli keeps no messages that it sent."""
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
            if len(self._reactions) > _MOST_QUOTED:
                del self._reactions[next(iter(self._reactions))]
        try:
            await self._bridge.react(to.peer, target, emoji, remove=remove)
        except ApiError as error:
            raise self._undelivered(error) from error

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of a file that a person sent."""
        most = min(limit, self._settings.media_max_mb * 1_000_000)
        name = attachment.name
        if attachment.size > most:
            raise MediaError(f"{name} has {attachment.size} bytes; {most} are taken.")
        peer, file_id = wire.parsed_handle(attachment.handle)
        try:
            data = await self._bridge.attachment(peer, file_id, most)
        except (ApiError, msgspec.DecodeError) as error:
            raise MediaError(f"{name} cannot be fetched: {error}") from error
        if data is None:
            raise MediaError(f"{name} cannot be fetched: it has more than {most} bytes")
        return data

    async def probe(self) -> AccountState:
        """Returns the state after asking the program whether it is there."""
        try:
            await self._bridge.check()
        except (ApiError, msgspec.DecodeError) as error:
            self._note(error)
        return self.state


def open_account(settings: SignalAccount, host: ChannelHost) -> SignalAdapter:
    """Returns the adapter of an account."""
    root = str(settings.api_root)
    kind = Rest if settings.bridge == "rest" else Daemon
    return SignalAdapter(settings, host, kind(root, settings.number))
