"""Stores encrypted messages until their key arrives, and reports those that stay unreadable."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.channels.matrix import wire
from skerry.channels.matrix.crypto import Crypto, EncryptionError, MissingRoomKeyError
from skerry.infra.clock import Clock
from skerry.sdk.channel_host import Vault, VaultEntry
from skerry.sdk.channels import AccountId

logger = logging.getLogger(__name__)

GRACE_MS: Final = 15_000
"""Time after a message within which its key may arrive without a notice to the person."""
QUIET_MS: Final = 600_000
"""Minimum time between two notices to a room: any member can send undecryptable messages."""
KEPT_MS: Final = 604_800_000
"""Time after which a message without its key is dropped."""
_MAX_EVENTS: Final = 500
_KIND: Final = "unread"
_MAX_NAMED: Final = 1_000
NOTICE: Final = (
    "I could not decrypt a message of yours: its key has not reached me. Please write it again. If"
    " that does not help, begin a new session first; in Element, write /discardsession."
)
_REMEDY: Final = (
    "Ask the sender to write again, after /discardsession in Element. The log names the messages."
)


class _Waiting(Struct, frozen=True):
    room_id: str
    session_id: str
    event: wire.RoomEvent
    at: int
    told: bool = False


Notify = Callable[[str, str, str], Awaitable[None]]


class UndecryptedEvents:
    """Messages of one account that wait for their keys."""

    def __init__(self, account: AccountId, vault: Vault, crypto: Crypto, clock: Clock) -> None:
        self._account = account
        self._vault = vault
        self._crypto = crypto
        self._clock = clock
        self._waiting: dict[str, _Waiting] | None = None
        """Messages by event; None until they were read from the vault."""
        self._named: set[str] = set()
        """Rooms that were logged as unreadable."""
        self._notified: dict[str, int] = {}
        """Times of the last notice to each room."""
        self._refused = 0
        self._last = ""

    @property
    def notice(self) -> tuple[str, str]:
        """Returns the number of unreadable messages, with a remedy; empty for none."""
        late = [waiting for waiting in (self._waiting or {}).values() if waiting.told]
        count = len(late) + self._refused
        if not count:
            return "", ""
        last = self._last or f"of {late[-1].event.sender} in {late[-1].room_id}"
        return f"{count} encrypted messages could not be read, the last {last}.", _REMEDY

    async def read(self, room_id: str, event: wire.RoomEvent) -> wire.RoomEvent | None:
        """Returns the decrypted event; None for one that cannot be decrypted now."""
        try:
            return await self._crypto.decrypt(room_id, event)
        except MissingRoomKeyError as error:
            await self._keep(room_id, event, error)
        except EncryptionError as error:
            if self._crypto.problem:
                self._name_room(room_id)
            else:
                self._refuse(room_id, event, str(error))
        return None

    async def _keep(self, room_id: str, event: wire.RoomEvent, error: MissingRoomKeyError) -> None:
        waiting = await self._all()
        if event.event_id in waiting:
            return
        logger.info("matrix/%s: %s waits: %s", self._account, event.event_id, error)
        waiting_event = _Waiting(room_id, error.session_id, event, self._clock.now_ms())
        await self._put(event.event_id, waiting_event)
        while len(waiting) > _MAX_EVENTS:
            waiting.pop(next(iter(waiting)))

    def _name_room(self, room_id: str) -> None:
        if room_id in self._named or len(self._named) >= _MAX_NAMED:
            return
        self._named.add(room_id)
        logger.warning(
            "matrix/%s: messages in %s are not read. %s %s",
            self._account,
            room_id,
            self._crypto.problem,
            self._crypto.remedy,
        )

    def _refuse(self, room_id: str, event: wire.RoomEvent, reason: str) -> None:
        self._refused += 1
        self._last = f"of {event.sender} in {room_id}: {reason}"
        logger.warning(
            "matrix/%s: %s of %s in %s is not read: %s. %s",
            self._account,
            event.event_id,
            event.sender,
            room_id,
            reason,
            _REMEDY,
        )

    async def arrived(self, sessions: frozenset[str]) -> list[tuple[str, wire.RoomEvent]]:
        """Returns the decrypted messages whose keys arrived; a new process tries all messages."""
        is_first = self._waiting is None
        decrypted: list[tuple[str, wire.RoomEvent]] = []
        for event_id, waiting in list((await self._all()).items()):
            if not is_first and waiting.session_id not in sessions:
                continue
            try:
                event = await self._crypto.decrypt(waiting.room_id, waiting.event)
            except MissingRoomKeyError:
                continue
            except EncryptionError as error:
                if not self._crypto.problem:
                    self._refuse(waiting.room_id, waiting.event, str(error))
                    await self.drop(event_id)
                continue
            decrypted.append((waiting.room_id, event))
        return decrypted

    async def drop(self, event_id: str) -> None:
        """Removes a message that was read."""
        if (await self._all()).pop(event_id, None) is not None:
            await self._vault.write([VaultEntry(_KIND, event_id, b"")])

    async def tell(self, notify: Notify) -> None:
        """Sends notices to the rooms of messages whose keys are late."""
        now = self._clock.now_ms()
        for event_id, waiting in list((await self._all()).items()):
            if now - waiting.at > KEPT_MS:
                await self.drop(event_id)
            elif not waiting.told and now - waiting.at >= GRACE_MS:
                if now - self._notified.get(waiting.room_id, 0) >= QUIET_MS:
                    if len(self._notified) >= _MAX_NAMED:
                        self._notified.pop(next(iter(self._notified)))
                    self._notified[waiting.room_id] = now
                    await notify(waiting.room_id, NOTICE, event_id)
                self._last = ""
                logger.warning(
                    "matrix/%s: %s of %s in %s cannot be decrypted, its key has not arrived. %s",
                    self._account,
                    event_id,
                    waiting.event.sender,
                    waiting.room_id,
                    _REMEDY,
                )
                await self._put(event_id, replace(waiting, told=True))

    async def _put(self, event_id: str, waiting: _Waiting) -> None:
        record = VaultEntry(_KIND, event_id, msgspec.json.encode(waiting))
        await self._vault.write([record], {_KIND: _MAX_EVENTS})
        (await self._all())[event_id] = waiting

    async def _all(self) -> dict[str, _Waiting]:
        if self._waiting is None:
            self._waiting = {}
            for name, raw in await self._vault.every(_KIND):
                try:
                    self._waiting[name] = msgspec.json.decode(raw, type=_Waiting)
                except msgspec.DecodeError:
                    continue
        return self._waiting
