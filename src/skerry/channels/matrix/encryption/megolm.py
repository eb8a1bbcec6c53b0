"""Sessions of rooms: decrypts messages of others, and encrypts those of the account."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from vodozemac import GroupSession, InboundGroupSession, MegolmMessage, SessionKey

from skerry.channels.matrix.encryption.crypto_store import (
    OUTBOUND,
    CryptoStore,
    InboundSession,
    OutboundSession,
    Person,
    inbound_of,
)
from skerry.channels.matrix.encryption.olm import Olm, OlmPayload, Target
from skerry.channels.matrix.encryption.own_keys import MEGOLM_V1, OwnKeys
from skerry.infra.clock import Clock
from skerry.infra.untrusted_json import DEEPEST, UNREADABLE, is_deep

logger = logging.getLogger(__name__)

MAX_MESSAGES: Final = 100
WEEK_MS: Final = 604_800_000
_AT_ONCE: Final = 50
"""Devices to which a key is sent with one request."""
_NO_KEY_MS: Final = 3_600_000
"""Time after which a one-time key is requested again from a device that offered none."""
_MAX_INDICES: Final = 2_000
"""Indices of a session that are stored; more than any client uses in one session."""
_MAX_ROOM_ID: Final = 255


class EncryptedRoomEvent(Struct, frozen=True):
    """Content of an encrypted event of a room."""

    algorithm: str = ""
    session_id: str = ""
    ciphertext: str = ""


class RoomEncryption(Struct, frozen=True):
    """Encryption of a room, from its state."""

    algorithm: str = ""
    rotation_period_ms: int = WEEK_MS
    rotation_period_msgs: int = MAX_MESSAGES


class DecryptedEvent(Struct, frozen=True):
    """A decrypted event of a room."""

    type: str
    room_id: str
    content: dict[str, Any] = field(default_factory=dict)


class _RoomKey(Struct, frozen=True):
    algorithm: str
    room_id: str
    session_id: str
    session_key: str


class MissingKeyError(Exception):
    """The key of an event has not arrived yet."""


class UndecryptableError(Exception):
    """An event can never be decrypted."""


class Megolm:
    """Sessions of rooms. Every method is called under the lock of the records."""

    def __init__(self, store: CryptoStore, own_keys: OwnKeys, olm: Olm, clock: Clock) -> None:
        self._store = store
        self._own_keys = own_keys
        self._olm = olm
        self._clock = clock
        self._without_key: dict[tuple[str, str], int] = {}
        """Times at which devices offered no key."""

    async def received(
        self, payload: OlmPayload, sender_key: str
    ) -> tuple[str, tuple[str, str, Struct]] | None:
        """Returns the session id of a room key with its record; None for an unusable key."""
        try:
            key = msgspec.convert(payload.content, _RoomKey)
            session = InboundGroupSession(SessionKey(key.session_key))
        except (msgspec.ValidationError, ValueError) as error:
            logger.warning("matrix: a room key of %s is malformed: %s", payload.sender, error)
            return None
        is_same = session.session_id == key.session_id and len(key.room_id) <= _MAX_ROOM_ID
        if key.algorithm != MEGOLM_V1 or not is_same:
            logger.warning("matrix: a room key of %s does not match its session id", payload.sender)
            return None
        name = _name(key.room_id, key.session_id)
        kind = inbound_of(payload.sender)
        before = await self._store.read(kind, name, InboundSession)
        seen: dict[int, str] = {}
        if before is not None:
            if before.sender_key != sender_key:
                logger.warning("matrix: %s sent a key of another device", payload.sender)
                return None
            stored_session = self._inbound(before)
            if (
                stored_session is not None
                and stored_session.first_known_index <= session.first_known_index
            ):
                return None
            seen = before.seen
        inbound = InboundSession(session.pickle(self._store.key), payload.sender, sender_key, seen)
        return key.session_id, (kind, name, inbound)

    async def decrypt(
        self, room_id: str, sender: str, event_id: str, sealed: EncryptedRoomEvent, *, note: bool
    ) -> DecryptedEvent:
        """Returns a decrypted event; with `note` its index in the session is stored for it.

        Raises:
            MissingKeyError: its key is not here.
            UndecryptableError: it was changed, repeated, or sent by another than who has the key.
        """
        if sealed.algorithm != MEGOLM_V1:
            raise UndecryptableError(f"its algorithm {sealed.algorithm[:64]!r} is unknown")
        name = _name(room_id, sealed.session_id)
        inbound = await self._store.read(inbound_of(sender), name, InboundSession)
        session = self._inbound(inbound) if inbound else None
        if inbound is None or session is None:
            raise MissingKeyError(
                f"the key of session {sealed.session_id[:64]} of {sender} is not here"
            )
        try:
            message = MegolmMessage.from_base64(sealed.ciphertext)
            if message.message_index() < session.first_known_index:
                raise MissingKeyError("it is from before the key that was shared with us")
            decrypted = session.decrypt(message)
            opened = msgspec.json.decode(bytes(decrypted.plaintext), type=DecryptedEvent)
        except UNREADABLE as error:
            raise UndecryptableError(str(error)) from None
        if is_deep(opened.content):
            raise UndecryptableError(f"its content has more than {DEEPEST} levels")
        if opened.room_id != room_id:
            raise UndecryptableError("it was encrypted for another room")
        await self._check_position(name, inbound, decrypted.message_index, event_id, note=note)
        return opened

    async def _check_position(
        self, name: str, inbound: InboundSession, index: int, event_id: str, *, note: bool
    ) -> None:
        """Refuses an event with the index of another event, which it repeats."""
        first = inbound.seen.get(index)
        if first is not None and first != event_id:
            raise UndecryptableError(f"it repeats the event {first}")
        if first is None and note:
            if len(inbound.seen) >= _MAX_INDICES:
                raise UndecryptableError(f"its session has more than {_MAX_INDICES} messages")
            seen = {**inbound.seen, index: event_id}
            kind = inbound_of(inbound.sender)
            await self._store.write([(kind, name, replace(inbound, seen=seen))])

    async def encrypt(
        self,
        room_id: str,
        people: Mapping[str, Person],
        encryption: RoomEncryption,
        kind: str,
        content: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Returns the content of an encrypted event, whose key the devices of `people` have.

        Raises:
            PlatformError: the key cannot be shared.
        """
        devices = [
            (user, device, peer)
            for user, person in people.items()
            for device, peer in person.devices.items()
            if not peer.gone and (user, device) != (self._own_keys.user, self._own_keys.device)
        ]
        outbound = await self._store.read(OUTBOUND, room_id, OutboundSession)
        session = self._outbound(outbound) if outbound else None
        if outbound is None or session is None or self._is_over(outbound, encryption, devices):
            outbound, session = await self._new(room_id)
        outbound = await self._share(room_id, outbound, session, devices)
        body = {"type": kind, "content": content, "room_id": room_id}
        ciphertext = session.encrypt(msgspec.json.encode(body)).to_base64()
        used = replace(outbound, pickle=session.pickle(self._store.key), used=outbound.used + 1)
        await self._store.write([(OUTBOUND, room_id, used)])
        sealed: dict[str, Any] = {
            "algorithm": MEGOLM_V1,
            "sender_key": self._own_keys.curve,
            "device_id": self._own_keys.device,
            "session_id": session.session_id,
            "ciphertext": ciphertext,
        }
        if "m.relates_to" in content:
            sealed["m.relates_to"] = content["m.relates_to"]
        return sealed

    def _is_over(
        self, outbound: OutboundSession, encryption: RoomEncryption, devices: Iterable[Target]
    ) -> bool:
        """Returns whether a new session is due: by count, by age, or because a member left."""
        max_messages = min(max(encryption.rotation_period_msgs, 1), MAX_MESSAGES)
        age = min(max(encryption.rotation_period_ms, 0), WEEK_MS)
        present = {(user, device, peer.curve) for user, device, peer in devices}
        had = {
            (user, device, curve)
            for user, shared in outbound.shared.items()
            for device, curve in shared.items()
        }
        now = self._clock.now_ms()
        return (
            outbound.used >= max_messages
            or not 0 <= now - outbound.made_at < age
            or not had <= present
        )

    async def _new(self, room_id: str) -> tuple[OutboundSession, GroupSession]:
        """Makes a session; stores its inbound half, which decrypts the account's own messages."""
        session = GroupSession()
        outbound = OutboundSession(session.pickle(self._store.key), self._clock.now_ms())
        own_session = InboundGroupSession(session.session_key).pickle(self._store.key)
        inbound = InboundSession(own_session, self._own_keys.user, self._own_keys.curve)
        await self._store.write(
            [
                (OUTBOUND, room_id, outbound),
                (inbound_of(self._own_keys.user), _name(room_id, session.session_id), inbound),
            ]
        )
        return outbound, session

    async def _share(
        self, room_id: str, outbound: OutboundSession, session: GroupSession, devices: list[Target]
    ) -> OutboundSession:
        """Sends the key to devices without it; returns the session with its list of devices.

        The devices that have it are stored after each request; sending it twice does no harm.
        """
        now = self._clock.now_ms()
        missing = [
            target
            for target in devices
            if target[1] not in outbound.shared.get(target[0], {})
            and now - self._without_key.get(target[:2], 0) >= _NO_KEY_MS
        ]
        content = {
            "algorithm": MEGOLM_V1,
            "room_id": room_id,
            "session_id": session.session_id,
            "session_key": session.session_key.to_base64(),
        }
        for start in range(0, len(missing), _AT_ONCE):
            targets = missing[start : start + _AT_ONCE]
            await self._olm.begin(targets)
            messages, records = await self._olm.encrypt(targets, "m.room_key", content)
            if messages:
                await self._store.write(records)
                await self._olm.send(messages)
            shared = {user: dict(names) for user, names in outbound.shared.items()}
            for user, device, peer in targets:
                if device in messages.get(user, {}):
                    shared.setdefault(user, {})[device] = peer.curve
                else:
                    self._without_key[user, device] = now
            outbound = replace(outbound, shared=shared)
            await self._store.write([(OUTBOUND, room_id, outbound)])
        return outbound

    def _inbound(self, stored: InboundSession) -> InboundGroupSession | None:
        try:
            return InboundGroupSession.from_pickle(stored.pickle, self._store.key)
        except ValueError:
            return None

    def _outbound(self, stored: OutboundSession) -> GroupSession | None:
        try:
            return GroupSession.from_pickle(stored.pickle, self._store.key)
        except ValueError:
            return None


def _name(room_id: str, session_id: str) -> str:
    return f"{room_id[:_MAX_ROOM_ID]} {session_id[:64]}"
