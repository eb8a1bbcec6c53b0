"""Matrix account: receives by long polling, sends texts, files, edits and reactions."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from skerry.channels.matrix import encrypted_files, wire
from skerry.channels.matrix.api import CLIENT, FINAL_STATUSES, MatrixApi, path
from skerry.channels.matrix.config import MatrixAccount
from skerry.channels.matrix.crypto import Crypto, open_crypto
from skerry.channels.matrix.room_sender import RoomSender
from skerry.channels.matrix.rooms import RoomReader
from skerry.channels.matrix.undecrypted import UndecryptedEvents
from skerry.config.channels import revealed
from skerry.infra.untrusted_json import UNREADABLE
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_files import byte_limit, fetched_file
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    ConnectionState,
    DeliveryDelayedError,
    DeliveryRefusedError,
    Inbox,
    MediaError,
    OutboundPart,
    PeerKind,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

MAX_TEXT: Final = 12_000
"""Bytes of a message: an event has 65,536 at most, and the text is in it twice."""
_SINCE: Final = "since"
_TAKEN_KEY: Final = "taken"
_MAX_ACCEPTED: Final = 1000
_TYPES: Final = (wire.MESSAGE, wire.REDACTION, wire.ENCRYPTED, wire.ENCRYPTION, *wire.ACCESS)
"""Types of the received events: with the changes of who can read a room, and gets its keys."""
_FILTER: Final = msgspec.json.encode(
    {
        "presence": {"types": []},
        "account_data": {"types": []},
        "room": {
            "timeline": {"limit": 50, "types": _TYPES},
            "state": {"types": [], "lazy_load_members": True},
            "ephemeral": {"types": []},
            "account_data": {"types": []},
        },
    }
).decode()


class MatrixAdapter(Account):
    """Implements `ports.channel.ChannelAdapter` and the optional ports of channels."""

    channel = wire.CHANNEL
    login_remedy = "Log in again, set `accessToken` of the account"
    login_command = "restart"
    text_limit = MAX_TEXT
    text_unit = TextUnit.BYTES
    capabilities = Capabilities(
        edits=True, reactions=True, threads=True, media_in=True, media_out=True, rich_text=True
    )

    def __init__(
        self, settings: MatrixAccount, host: ChannelHost, api: MatrixApi, crypto: Crypto
    ) -> None:
        super().__init__(host)
        self._settings = settings
        self.api = api
        self._my_id = ""
        self._logging_in = anyio.Lock()
        self._crypto = crypto
        self._rooms = RoomReader(host.account, api, host.vault, self._crypto)
        self._sender = RoomSender(api, self._rooms, self._crypto, self._is_connected)
        self._undecrypted = UndecryptedEvents(host.account, host.vault, self._crypto, host.clock)
        self._accepted: dict[str, None] = {}
        """Accepted events since the stored position, oldest first."""

    def _is_connected(self) -> bool:
        return self.state.state is ConnectionState.CONNECTED

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; stores the position after `inbox` has accepted the messages.

        Messages from before the first connection are not answered.
        """
        cursor = self.host.cursor
        since = await cursor.read(_SINCE)
        self._accepted = dict.fromkeys((await cursor.read(_TAKEN_KEY)).split())
        try:
            while True:
                try:
                    await self._log_in()
                    synced = await self._sync(since)
                    await self._take(synced, since, inbox)
                except (PlatformError, *UNREADABLE) as error:
                    await anyio.sleep(self.failed(error))
                    continue
                self.failures = 0
                self.state = self._connected(self._my_id)
                if synced.next_batch != since:
                    since = synced.next_batch
                    await cursor.write(_SINCE, since)
                    self._accepted.clear()
        finally:
            with anyio.move_on_after(2, shield=True):
                await cursor.write(_TAKEN_KEY, " ".join(list(self._accepted)[-_MAX_ACCEPTED:]))

    def _connected(self, name: str) -> AccountState:
        """Returns the state of an account that receives, with the problem of its encryption."""
        message, remedy = self._crypto.notice
        if not message:
            message, remedy = self._undecrypted.notice
        return AccountState(
            ConnectionState.CONNECTED, message, remedy, name, about=self._crypto.about
        )

    async def _log_in(self) -> None:
        async with self._logging_in:
            if not self._my_id:
                answer = await self.api.get(f"{CLIENT}/account/whoami")
                me = wire.me.decode(answer)
                await self._crypto.open(me.user_id, me.device_id)
                self._my_id = me.user_id

    async def _sync(self, since: str) -> wire.Synced:
        # After a failure the first request does not wait, so that the state is correct soon.
        is_back = self.state.state is not ConnectionState.CONNECTED
        wait = 0 if is_back or not since else self._settings.poll_seconds
        query = {"timeout": str(wait * 1000), "filter": _FILTER, "set_presence": "offline"}
        if since:
            query["since"] = since
        return wire.synced.decode(await self.api.get(f"{CLIENT}/sync", query, wait=wait))

    async def _take(self, synced: wire.Synced, since: str, inbox: Inbox) -> None:
        arrived = await self._crypto.take(synced)
        for room_id, invited in synced.rooms.invite.items():
            await self._answer_invitation(room_id, invited)
        for room_id, event in await self._undecrypted.arrived(arrived):
            with self._passing_over(room_id):
                await self._hand_in(room_id, event, inbox)
                await self._undecrypted.drop(event.event_id)
        await self._undecrypted.tell(self._notify)
        if not since:
            return
        new_events: list[tuple[int, str, wire.RoomEvent]] = []
        for room_id, joined in synced.rooms.join.items():
            if joined.timeline.events:
                self._rooms.forget(room_id)  # who is in it may have changed
                with self._passing_over(room_id):
                    new_events += await self._rooms.timed(room_id, joined.timeline, since)
        for _, room_id, event in sorted(new_events, key=itemgetter(0)):
            with self._passing_over(room_id):
                await self._hand_in(room_id, event, inbox)

    @contextmanager
    def _passing_over(self, room_id: str) -> Iterator[None]:
        """Logs the error of a room that the server denies; it must not block the other rooms."""
        try:
            yield
        except PlatformError as error:
            if error.status not in FINAL_STATUSES:
                raise
            logger.warning("matrix/%s: cannot read the room %s: %s", self.account, room_id, error)

    async def _hand_in(self, room_id: str, event: wire.RoomEvent, inbox: Inbox) -> None:
        if event.event_id in self._accepted or event.sender == self._my_id:
            return
        opened: wire.RoomEvent | None = event
        if event.type == wire.ENCRYPTED:
            opened = await self._undecrypted.read(room_id, event)
        if opened is not None and opened.type == wire.MESSAGE:
            await self._hand_in_message(room_id, opened, inbox)
        elif event.deleted:
            room, now = await self._rooms.get(room_id), self.host.clock.now_ms()
            if (deletion := wire.withdrawn(event, room, self.account, now)) is not None:
                await inbox(deletion)
        self._accepted[event.event_id] = None

    async def _hand_in_message(self, room_id: str, event: wire.RoomEvent, inbox: Inbox) -> None:
        room = await self._rooms.get(room_id)
        quoted = await self._rooms.quoted(room, event, self._my_id)
        now = self.host.clock.now_ms()
        message = wire.inbound(event, room, self.account, self._my_id, now, quoted)
        if message is not None:
            await inbox(message)

    async def _notify(self, room_id: str, text: str, about: str) -> None:
        """Sends a notice to a direct chat; a group gets none about a message of one member."""
        try:
            if (await self._rooms.get(room_id)).peer.kind is PeerKind.DIRECT:
                await self._sender.notify(room_id, text, about)
        except (PlatformError, DeliveryDelayedError, DeliveryRefusedError) as error:
            logger.warning(
                "matrix/%s: cannot send a notice to %s: %s", self.account, room_id, error
            )

    async def _answer_invitation(self, room_id: str, invited: wire.InvitedRoom) -> None:
        policy = self._settings.auto_join
        if policy == "off" or (policy == "direct" and not self._is_direct(invited)):
            logger.info("matrix/%s: the invitation to %s is ignored", self.account, room_id)
            return
        try:
            await self.api.post(f"{CLIENT}/join/{path(room_id)}", {})
        except PlatformError as error:
            if error.status not in FINAL_STATUSES:
                raise
            logger.warning("matrix/%s: %s cannot be joined: %s", self.account, room_id, error)

    def _is_direct(self, invited: wire.InvitedRoom) -> bool:
        for raw in invited.invite_state.events:
            try:
                event = wire.read_event(raw)
            except UNREADABLE:
                continue
            if event.type == "m.room.member" and event.state_key == self._my_id:
                return event.content.get("is_direct") is True
        return False

    def failed(self, error: Exception) -> float:
        """Records the failure; after a refused token the account's identity is requested again."""
        if isinstance(error, PlatformError) and error.is_login:
            self._my_id = ""
        return super().failed(error)

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; the same part sent again is the same event."""
        await self._log_in_to_send()
        return await self._sender.send(part)

    async def _log_in_to_send(self) -> None:
        try:
            await self._log_in()
        except PlatformError as error:
            raise DeliveryDelayedError(str(error), error.retry_after) from error

    async def typing(self, to: ReplyTo) -> None:
        """Shows the typing indicator for twelve seconds."""
        await self._sender.typing(to, self._my_id)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Searches the last events of the room for the part.

        An earlier part is sent again under the same transaction id, for which the server makes no
        second event.
        """
        receipt = await self.locate(part)
        return Settlement.ABSENT if receipt is None else Settlement.DELIVERED

    async def locate(self, part: OutboundPart) -> Receipt | None:
        """Returns the event of a part among the last events of its room."""
        await self._log_in()
        return await self._sender.locate(part, self._my_id)

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the account."""
        await self._log_in_to_send()
        await self._sender.edit(to, platform_id, text)

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets a reaction of the account, which is never removed."""
        await self._sender.react(to, emoji)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        encrypted = encrypted_files.of_handle(attachment.handle)
        address = urlsplit(encrypted.url if encrypted else attachment.handle)
        fetched = await self.api.download(address.netloc, address.path.strip("/"), max_bytes)
        data = fetched_file(attachment, fetched)
        if encrypted is None:
            return data
        try:
            return await anyio.to_thread.run_sync(encrypted_files.opened, encrypted, data)
        except encrypted_files.BrokenFileError as error:
            raise MediaError(f"{attachment.name} cannot be decrypted: {error}.") from None

    async def probe(self) -> AccountState:
        """Returns the state after requesting the account's identity from the server."""
        try:
            answer = await self.api.get(f"{CLIENT}/account/whoami")
        except PlatformError as error:
            self.failed(error)
            return self.state
        return self._connected(wire.me.decode(answer).user_id)


def open_account(settings: MatrixAccount, host: ChannelHost) -> MatrixAdapter:
    """Returns the adapter of an account."""
    token = revealed(settings.access_token)
    api = MatrixApi(str(settings.homeserver), token)
    return MatrixAdapter(settings, host, api, open_crypto(host.vault, api, host.clock))
