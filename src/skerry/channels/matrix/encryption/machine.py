"""Encryption of one account: handles sync responses, decrypts and encrypts events of rooms."""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from skerry.channels.matrix import wire
from skerry.channels.matrix.api import MatrixApi
from skerry.channels.matrix.crypto import EncryptionError, MissingRoomKeyError
from skerry.channels.matrix.encryption.crypto_store import RECEIVED, CryptoStore, Person
from skerry.channels.matrix.encryption.device_lists import DeviceLists
from skerry.channels.matrix.encryption.megolm import (
    EncryptedRoomEvent,
    Megolm,
    MissingKeyError,
    RoomEncryption,
    UndecryptableError,
)
from skerry.channels.matrix.encryption.olm import (
    ENCRYPTED,
    EncryptedToDevice,
    Olm,
    OlmError,
    OlmPayload,
)
from skerry.channels.matrix.encryption.own_keys import KeysLostError, OwnKeys
from skerry.infra.clock import Clock
from skerry.infra.untrusted_json import UNREADABLE
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import Vault

logger = logging.getLogger(__name__)

_ANEW_MS: Final = 3_600_000
"""Time within which one new session is begun with a device whose messages cannot be decrypted."""
_MAX_RENEWED: Final = 1_000
_REMEDY: Final = (
    "Encrypted messages need a device whose keys nothing has used: log the account in again, set"
    " `accessToken` to the new token, and log the old session out."
)


class _ToDevice(Struct, frozen=True):
    type: str
    sender: str = ""
    content: Raw = Raw(b"{}")


class _Received(Struct, frozen=True):
    """Mark of a processed message between devices."""


class CryptoMachine:
    """Implements `crypto.Crypto` with the keys of a device."""

    def __init__(self, vault: Vault, api: MatrixApi, clock: Clock) -> None:
        self.problem = ""
        self.remedy = ""
        self._store = CryptoStore(vault)
        self._clock = clock
        self._own_keys = OwnKeys(self._store, api)
        self._device_lists = DeviceLists(self._store, api)
        self._olm = Olm(self._store, self._own_keys, api, clock)
        self._megolm = Megolm(self._store, self._own_keys, self._olm, clock)
        self._anew: dict[str, int] = {}

    @property
    def notice(self) -> tuple[str, str]:
        """Returns a problem for people, with its remedy; empty for none."""
        return self.problem, self.remedy

    @property
    def about(self) -> str:
        """Returns the device and its fingerprint in groups of four, as clients show it."""
        if not self._own_keys.ed:
            return ""
        key = self._own_keys.ed
        groups = " ".join(key[start : start + 4] for start in range(0, len(key), 4))
        signed = "" if self._own_keys.is_signed else ", not signed by its account"
        return f"device {self._own_keys.device}, fingerprint {groups}{signed}"

    async def open(self, user: str, device: str) -> None:
        """Makes the keys of the device usable; notes a problem where they are lost.

        Raises:
            PlatformError: the homeserver cannot be asked.
        """
        self.problem = self.remedy = ""
        if not device:
            self.problem = "The access token belongs to no device, so nothing is encrypted."
            self.remedy = "Log the account in, and set `accessToken` to that token."
            return
        try:
            async with self._store.lock:
                await self._own_keys.open(user, device)
        except KeysLostError as error:
            self.problem = f"Encrypted rooms are neither read nor written: {error}."
            self.remedy = _REMEDY

    async def take(self, synced: wire.Synced) -> frozenset[str]:
        """Takes messages between devices, durably; returns the sessions whose keys arrived.

        Raises:
            PlatformError: the homeserver cannot be asked for the senders; take the sync again.
        """
        if self.problem:
            return frozenset()
        self._device_lists.outdate(synced.device_lists.changed)
        events = [event for raw in synced.to_device.events if (event := _decoded(raw)) is not None]
        for sender, sealed, _ in events:
            if not _has(await self._device_lists.devices_of(sender), sealed.sender_key):
                self._device_lists.outdate([sender])
        if events:
            await self._device_lists.get({sender for sender, _, _ in events})
        arrived = [await self._take_event(*event) for event in events]
        counts = synced.device_one_time_keys_count
        await self._own_keys.replenish(counts, synced.device_unused_fallback_key_types)
        return frozenset(session for session in arrived if session)

    async def _take_event(self, sender: str, sealed: EncryptedToDevice, digest: str) -> str:
        """Stores the content of a message between devices; returns the id of a session, if any."""
        async with self._store.lock:
            if await self._store.vault.read(RECEIVED, digest):
                return ""
            try:
                payload, records = await self._olm.decrypt(sender, sealed)
                await self._check(payload, sealed.sender_key)
            except OlmError as error:
                logger.warning("matrix: a message of a device of %s: %s", sender, error)
                await self._store.write([(RECEIVED, digest, _Received())])
                await self._begin_anew(sender, sealed.sender_key)
                return ""
            session_id = ""
            if payload.type == "m.room_key":
                key = await self._megolm.received(payload, sealed.sender_key)
                if key is not None:
                    session_id, record = key
                    records.append(record)
            await self._store.write([*records, (RECEIVED, digest, _Received())])
            return session_id

    async def _check(self, payload: OlmPayload, sender_key: str) -> None:
        """Refuses messages of a device that the homeserver never listed for the sender."""
        person = await self._device_lists.devices_of(payload.sender)
        for peer in person.devices.values():
            if peer.curve == sender_key and peer.ed == payload.keys.get("ed25519"):
                return
        raise OlmError("it was encrypted by a device that is not listed")

    async def _begin_anew(self, sender: str, sender_key: str) -> None:
        """Begins a new session with a device whose session is broken, at most once an hour."""
        now = self._clock.now_ms()
        if now - self._anew.get(sender_key, 0) < _ANEW_MS:
            return
        person = await self._device_lists.devices_of(sender)
        targets = [
            (sender, device, peer)
            for device, peer in person.devices.items()
            if peer.curve == sender_key and not peer.gone
        ][:1]
        if not targets:
            return
        if len(self._anew) >= _MAX_RENEWED:
            self._anew.pop(next(iter(self._anew)))
        self._anew[sender_key] = now
        try:
            await self._olm.begin(targets, anew=True)
            messages, records = await self._olm.encrypt(targets, "m.dummy", {})
            await self._store.write(records)
            if messages:
                await self._olm.send(messages)
        except PlatformError as error:
            logger.warning("matrix: no new session with a device of %s: %s", sender, error)

    async def decrypt(
        self, room_id: str, event: wire.RoomEvent, *, note: bool = True
    ) -> wire.RoomEvent:
        """Returns the event inside an encrypted event.

        Raises:
            LockedError: its key is missing.
            SealedError: it cannot be decrypted.
        """
        if self.problem:
            raise EncryptionError(self.problem)
        try:
            sealed = msgspec.convert(event.content, EncryptedRoomEvent)
            async with self._store.lock:
                opened = await self._megolm.decrypt(
                    room_id, event.sender, event.event_id, sealed, note=note
                )
        except msgspec.ValidationError as error:
            raise EncryptionError(f"it has another form: {error}") from None
        except MissingKeyError as error:
            raise MissingRoomKeyError(str(error), _session_id(event)) from None
        except UndecryptableError as error:
            raise EncryptionError(str(error)) from None
        content = opened.content
        if "m.relates_to" not in content and "m.relates_to" in event.content:
            content = {**content, "m.relates_to": event.content["m.relates_to"]}
        return msgspec.structs.replace(event, type=opened.type, content=content)

    async def encrypt(
        self,
        room_id: str,
        members: Iterable[str],
        state: Mapping[str, Any],
        kind: str,
        content: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Returns the content of the encrypted event.

        Raises:
            PlatformError: the homeserver does not give or take keys.
            SealedError: the account cannot encrypt.
        """
        if self.problem:
            raise EncryptionError(f"{self.problem} {self.remedy}")
        encryption = _encryption(state)
        people = await self._device_lists.get(members)
        async with self._store.lock:
            return await self._megolm.encrypt(room_id, people, encryption, kind, content)


def _has(person: Person, curve: str) -> bool:
    return any(peer.curve == curve for peer in person.devices.values())


def _encryption(state: Mapping[str, Any]) -> RoomEncryption:
    try:
        encryption = msgspec.convert(state, RoomEncryption)
    except msgspec.ValidationError:
        encryption = RoomEncryption(str(state.get("algorithm")))
    if encryption.algorithm != "m.megolm.v1.aes-sha2":
        raise EncryptionError(f"The room's encryption {encryption.algorithm[:64]!r} is unknown.")
    return encryption


def _session_id(event: wire.RoomEvent) -> str:
    session_id = event.content.get("session_id")
    return session_id if isinstance(session_id, str) else ""


def _decoded(raw: Raw) -> tuple[str, EncryptedToDevice, str] | None:
    """Returns sender, content and digest of an encrypted message between devices."""
    try:
        event = msgspec.json.decode(raw, type=_ToDevice)
        if event.type != ENCRYPTED:
            return None
        sealed = msgspec.json.decode(event.content, type=EncryptedToDevice)
    except UNREADABLE as error:
        logger.warning("matrix: a message between devices is malformed: %s", error)
        return None
    parts: Sequence[str] = (event.sender, *(part.body for part in sealed.ciphertext.values()))
    return event.sender, sealed, hashlib.sha256("\0".join(parts).encode()).hexdigest()
