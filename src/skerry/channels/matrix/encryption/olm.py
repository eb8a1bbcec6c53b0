"""Messages between devices: decrypts received ones, and encrypts room keys for others."""

import base64
import binascii
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from vodozemac import AnyOlmMessage, Curve25519PublicKey, PreKeyMessage, Session

from skerry.channels.matrix.api import CLIENT, MatrixApi, path
from skerry.channels.matrix.encryption.crypto_store import (
    OLM,
    CryptoStore,
    OlmSession,
    OlmSessions,
    PeerDevice,
)
from skerry.channels.matrix.encryption.own_keys import OLM_V1, SIGNED, OwnKeys
from skerry.channels.matrix.encryption.signing import is_signed
from skerry.infra.clock import Clock
from skerry.infra.untrusted_json import UNREADABLE

logger = logging.getLogger(__name__)

ENCRYPTED: Final = "m.room.encrypted"
_MAX_SESSIONS: Final = 5
"""Limit on the sessions with one device; a device makes a new one when a session fails."""
_PRE_KEY: Final = 0
_NORMAL: Final = 1
Target = tuple[str, str, PeerDevice]
"""User, device and its keys."""


class _Ciphertext(Struct, frozen=True):
    type: int
    body: str


class EncryptedToDevice(Struct, frozen=True):
    """Content of a message between devices."""

    algorithm: str
    sender_key: str = ""
    ciphertext: dict[str, _Ciphertext] = field(default_factory=dict)


class _Claimed(Struct, frozen=True):
    one_time_keys: dict[str, dict[str, dict[str, dict[str, Any]]]] = field(default_factory=dict)


class OlmPayload(Struct, frozen=True):
    """A decrypted message between devices."""

    type: str
    sender: str
    recipient: str
    keys: dict[str, str]
    recipient_keys: dict[str, str]
    content: dict[str, Any] = field(default_factory=dict)


class OlmError(Exception):
    """Error: a message between devices cannot be decrypted, or is for another device."""


class Olm:
    """Sessions with devices. Methods that change a session are called under the records' lock."""

    def __init__(self, store: CryptoStore, own_keys: OwnKeys, api: MatrixApi, clock: Clock) -> None:
        self._store = store
        self._own_keys = own_keys
        self._api = api
        self._clock = clock

    async def decrypt(
        self, sender: str, sealed: EncryptedToDevice
    ) -> tuple[OlmPayload, list[tuple[str, str, Struct]]]:
        """Returns the message, and the records that must be stored before it counts.

        Raises:
            OlmError: it cannot be decrypted, or was encrypted for others.
        """
        part = sealed.ciphertext.get(self._own_keys.curve)
        if sealed.algorithm != OLM_V1 or part is None or part.type not in {_PRE_KEY, _NORMAL}:
            raise OlmError("it is not encrypted for this device")
        try:
            body = base64.b64decode(part.body + "=" * (-len(part.body) % 4))
            message = AnyOlmMessage.from_parts(part.type, body)
        except (binascii.Error, ValueError) as error:
            raise OlmError(f"it is malformed: {error}") from None
        plaintext, records = await self._opened(sealed.sender_key, message)
        try:
            payload = msgspec.json.decode(plaintext, type=OlmPayload)
        except UNREADABLE as error:
            raise OlmError(f"its content has another form: {error}") from None
        is_ours = payload.recipient == self._own_keys.user
        if not is_ours or payload.recipient_keys.get("ed25519") != self._own_keys.ed:
            raise OlmError("it was encrypted for another device")
        if payload.sender != sender:
            raise OlmError(f"it names another sender, {payload.sender[:255]!r}")
        return payload, records

    async def _opened(
        self, sender_key: str, message: AnyOlmMessage
    ) -> tuple[bytes, list[tuple[str, str, Struct]]]:
        stored = await self._sessions(sender_key)
        pre_key = message.to_pre_key()
        for number, stored_session in enumerate(stored):
            session = self._session(stored_session)
            if session is None or (pre_key is not None and not session.session_matches(pre_key)):
                continue
            try:
                plaintext = session.decrypt(message)
            except ValueError as error:
                if pre_key is not None:
                    raise OlmError(str(error)) from None
                continue
            other_sessions = (*stored[:number], *stored[number + 1 :])
            return plaintext, [self._record(sender_key, session, other_sessions)]
        if pre_key is None:
            raise OlmError("no session with the device decrypts it")
        return await self._begun(sender_key, pre_key, stored)

    async def _begun(
        self, sender_key: str, message: PreKeyMessage, stored: Sequence[OlmSession]
    ) -> tuple[bytes, list[tuple[str, str, Struct]]]:
        account = await self._own_keys.account()
        try:
            identity = Curve25519PublicKey.from_base64(sender_key)
            session, plaintext = account.create_inbound_session(identity, message)
        except ValueError as error:
            raise OlmError(str(error)) from None
        # The key that the session was begun with is used up with this.
        return plaintext, [
            self._record(sender_key, session, stored),
            self._own_keys.record(account),
        ]

    async def encrypt(
        self, targets: Sequence[Target], kind: str, content: Mapping[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str, Struct]]]:
        """Returns messages to send, by user and device, and the records to store before.

        Devices with which there is no session are left out.
        """
        messages: dict[str, dict[str, Any]] = {}
        changed: dict[str, tuple[OlmSession, ...]] = {}
        for user, device, peer in targets:
            # Two devices may claim the same key: a session is never used twice from one state.
            sessions = changed.get(peer.curve) or await self._sessions(peer.curve)
            session = self._session(sessions[0]) if sessions else None
            if session is None:
                continue
            payload = {
                "type": kind,
                "content": content,
                "sender": self._own_keys.user,
                "sender_device": self._own_keys.device,
                "keys": {"ed25519": self._own_keys.ed},
                "recipient": user,
                "recipient_keys": {"ed25519": peer.ed},
            }
            number, body = session.encrypt(msgspec.json.encode(payload)).to_parts()
            text = base64.b64encode(body).decode().rstrip("=")
            messages.setdefault(user, {})[device] = {
                "algorithm": OLM_V1,
                "sender_key": self._own_keys.curve,
                "ciphertext": {peer.curve: {"type": number, "body": text}},
            }
            used = OlmSession(session.pickle(self._store.key), sessions[0].used_at)
            changed[peer.curve] = (used, *sessions[1:])
        return messages, [
            (OLM, curve, OlmSessions(sessions)) for curve, sessions in changed.items()
        ]

    async def begin(self, targets: Sequence[Target], *, anew: bool = False) -> None:
        """Begins and stores sessions with devices that have none, or with all.

        Raises:
            PlatformError: the homeserver gives no keys.
        """
        pending = [
            target for target in targets if anew or not await self._sessions(target[2].curve)
        ]
        if not pending:
            return
        body: dict[str, dict[str, str]] = {}
        for user, device, _ in pending:
            body.setdefault(user, {})[device] = SIGNED
        request = {"one_time_keys": body, "timeout": 8000}
        answer = await self._api.post(f"{CLIENT}/keys/claim", request)
        claimed = msgspec.json.decode(answer, type=_Claimed).one_time_keys
        records: list[tuple[str, str, Struct]] = []
        account = await self._own_keys.account()
        for user, device, peer in pending:
            keys = claimed.get(user, {}).get(device, {})
            one_time = next((_key(keys[name], user, device, peer) for name in keys), None)
            if one_time is None:
                logger.info("matrix: the device %s of %s offers no key", device, user)
                continue
            try:
                identity = Curve25519PublicKey.from_base64(peer.curve)
                session = account.create_outbound_session(identity, one_time)
            except ValueError as error:
                logger.warning("matrix: no session with %s of %s: %s", device, user, error)
                continue
            sessions = await self._sessions(peer.curve)
            records.append(self._record(peer.curve, session, sessions))
        await self._store.write(records)

    async def send(self, messages: Mapping[str, Mapping[str, Any]]) -> None:
        """Sends encrypted messages to devices.

        Raises:
            PlatformError: the homeserver does not take them.
        """
        request_path = path(ENCRYPTED, f"skerry-{secrets.token_hex(16)}")
        await self._api.put(f"{CLIENT}/sendToDevice/{request_path}", {"messages": messages})

    async def _sessions(self, curve: str) -> tuple[OlmSession, ...]:
        stored = await self._store.read(OLM, curve, OlmSessions)
        return stored.sessions if stored else ()

    def _session(self, stored: OlmSession) -> Session | None:
        try:
            return Session.from_pickle(stored.pickle, self._store.key)
        except ValueError:
            return None

    def _record(
        self, curve: str, session: Session, other_sessions: Sequence[OlmSession]
    ) -> tuple[str, str, Struct]:
        """Returns the record with the session that was just used first."""
        used = OlmSession(session.pickle(self._store.key), self._clock.now_ms())
        return OLM, curve, OlmSessions((used, *other_sessions)[:_MAX_SESSIONS])


def _key(
    content: Mapping[str, Any], user: str, device: str, peer: PeerDevice
) -> Curve25519PublicKey | None:
    """Returns a claimed key that the device signed."""
    if not is_signed(content, user, device, peer.ed):
        return None
    try:
        return Curve25519PublicKey.from_base64(content["key"])
    except (KeyError, TypeError, ValueError):
        return None
