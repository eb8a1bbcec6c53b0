"""Encryption of memories in the gateway: mode `e2e` (memwal-contract 2.2, manual mode).

The key of a namespace is derived from the delegate key with HKDF-SHA256: salt is the account, info
is `memwal/e2e/v1/` and the namespace. A memory is encrypted with AES-256-GCM under a random nonce,
bound to account and namespace. The server has neither the delegate key nor a key derived from it.
"""

import os
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

MAGIC: Final = b"SKE2E1\n"
"""First bytes of an encrypted memory."""
_INFO: Final = "memwal/e2e/v1/"
_NONCE: Final = 12
_STEP: Final = 256
"""Lengths are padded to a multiple of this, so that the server learns little about them."""
_LENGTH: Final = 4


class Sealed(Struct, frozen=True, array_like=True):
    """Plain content of an encrypted memory."""

    text: str
    space: str
    """Model of the vector; see `skerry.sdk.embedding`."""
    vector: bytes
    """Floats of 32 bits, little-endian."""


class Cipher:
    """Encrypts and decrypts the memories of one delegate key.

    Args:
        private_key: 64 hexadecimal digits.
        account_id: Account of the key.

    """

    def __init__(self, private_key: str, account_id: str) -> None:
        self._seed = bytes.fromhex(private_key)
        self._account = account_id.lower().encode()
        self._keys: dict[str, AESGCM] = {}

    def encrypt(self, memory: Sealed, namespace: str) -> bytes:
        """Returns the memory encrypted for a namespace."""
        plain = msgspec.msgpack.encode(memory)
        plain = len(plain).to_bytes(_LENGTH, "big") + plain
        plain += bytes(-len(plain) % _STEP)
        nonce = os.urandom(_NONCE)
        return MAGIC + nonce + self._key(namespace).encrypt(nonce, plain, self._bound(namespace))

    def decrypt(self, data: bytes, namespace: str) -> Sealed | None:
        """Returns the memory; None if it was not encrypted with this key for this namespace."""
        nonce, body = data[len(MAGIC) : len(MAGIC) + _NONCE], data[len(MAGIC) + _NONCE :]
        if not data.startswith(MAGIC) or len(nonce) < _NONCE:
            return None
        try:
            plain = self._key(namespace).decrypt(nonce, body, self._bound(namespace))
            end = _LENGTH + int.from_bytes(plain[:_LENGTH], "big")
            return msgspec.msgpack.decode(plain[_LENGTH:end], type=Sealed)
        except (InvalidTag, msgspec.MsgspecError):
            return None

    def _bound(self, namespace: str) -> bytes:
        return b"\0".join((MAGIC, self._account, namespace.encode()))

    def _key(self, namespace: str) -> AESGCM:
        key = self._keys.get(namespace)
        if key is None:
            info = (_INFO + namespace).encode()
            key = AESGCM(HKDF(SHA256(), 32, self._account, info).derive(self._seed))
            self._keys[namespace] = key
        return key
