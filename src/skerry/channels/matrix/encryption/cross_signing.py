"""Cross-signing of the account: signs its device, without which recent clients send it no keys.

The private keys are derived from the key in the file of the vault, so nothing else is kept, and a
later device of the account is signed with the same.
"""

import base64
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct, field

from skerry.channels.matrix.api import CLIENT, MatrixApi
from skerry.channels.matrix.encryption.signing import canonical
from skerry.sdk.channel_errors import PlatformError

logger = logging.getLogger(__name__)

_USAGES: Final = ("master", "self_signing", "user_signing")
_NOT_SIGNED: Final = (
    "The device %s of %s is not signed by its account: %s. Recent clients may send it no keys."
    " Remedy: log in as %s with Element, reset its cryptographic identity, and start anew."
)


class _Queried(Struct, frozen=True):
    device_keys: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    master_keys: dict[str, dict[str, Any]] = field(default_factory=dict)


class CrossSigning:
    """The cross-signing keys of one user."""

    def __init__(self, api: MatrixApi, user: str, key: bytes) -> None:
        self._api = api
        self._user = user
        self._keys = {usage: _derived(key, usage, user) for usage in _USAGES}

    async def sign(self, device: str) -> bool:
        """Signs the device; uploads the keys before, if the account has none yet.

        Returns False where the account has keys that are not ours.
        """
        try:
            return await self._sign(device)
        except (PlatformError, msgspec.DecodeError, KeyError, TypeError) as error:
            logger.warning(_NOT_SIGNED, device, self._user, error, self._user)
            return False

    async def _sign(self, device: str) -> bool:
        answer = await self._api.post(f"{CLIENT}/keys/query", {"device_keys": {self._user: []}})
        keys = msgspec.json.decode(answer, type=_Queried)
        master = keys.master_keys.get(self._user)
        if master is None:
            await self._upload()
        elif _public(self._keys["master"]) not in dict(master.get("keys", {})).values():
            reason = "the account has an identity whose keys are elsewhere"
            logger.warning(_NOT_SIGNED, device, self._user, reason, self._user)
            return False
        content = keys.device_keys[self._user][device]
        if f"ed25519:{_public(self._keys['self_signing'])}" in content["signatures"][self._user]:
            return True
        signed = self._signed(content, "self_signing")
        body = {self._user: {device: signed}}
        await self._api.post(f"{CLIENT}/keys/signatures/upload", body)
        return True

    async def _upload(self) -> None:
        """Uploads the three keys; for the first ones a homeserver asks for no password."""
        body: dict[str, Any] = {}
        for usage in _USAGES:
            public = _public(self._keys[usage])
            content = {
                "user_id": self._user,
                "usage": [usage],
                "keys": {f"ed25519:{public}": public},
            }
            body[f"{usage}_key"] = self._signed(content, "master")
        await self._api.post(f"{CLIENT}/keys/device_signing/upload", body)
        logger.info("matrix: %s already has a cross-signing identity", self._user)

    def _signed(self, content: Mapping[str, Any], usage: str) -> dict[str, Any]:
        key = self._keys[usage]
        signature = base64.b64encode(key.sign(canonical(content))).decode().rstrip("=")
        name = f"ed25519:{_public(key)}"
        signed = {part: content[part] for part in content if part != "unsigned"}
        return {**signed, "signatures": {self._user: {name: signature}}}


def _derived(key: bytes, usage: str, user: str) -> Ed25519PrivateKey:
    info = f"skerry matrix {usage} {user}".encode()
    seed = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(key)
    return Ed25519PrivateKey.from_private_bytes(seed)


def _public(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(raw).decode().rstrip("=")
