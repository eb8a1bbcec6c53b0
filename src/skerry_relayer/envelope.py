"""Encrypts texts: each with a random key that is wrapped to a public key and bound to its record.

This is envelope encryption, not threshold encryption: the private keys of the key server decrypt
everything.
"""

import os
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

KEY_BYTES: Final = 32
_NONCE: Final = bytes(12)
"""Nonce of every encryption: each key encrypts one text only."""
_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class EnvelopeError(ValueError):
    """Error: a text or key cannot be decrypted: another key or binding, or changed bytes."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Binding of a text to owner, namespace and id; only the same binding can decrypt it."""

    owner: str
    account: str
    namespace: str
    id: str
    """Id of the memory, or of the job while the text waits."""
    purpose: str = "memory"
    """`memory`, or `queue` for a text that waits."""

    def info(self) -> bytes:
        """Returns the binding as bytes, which differ between any two bindings."""
        parts = [b"skerry-relayer-1"]
        parts += [
            part.encode("utf-8", "surrogatepass")
            for part in (self.purpose, self.owner, self.account, self.namespace, self.id)
        ]
        return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


@dataclass(frozen=True, slots=True)
class SealKey:
    """Public key to which new texts are wrapped."""

    public: bytes
    generation: int
    """Number of the private key, counted from 1; `rewrap` generates the next."""


def new_key() -> bytes:
    """Generates the key of one text."""
    return os.urandom(KEY_BYTES)


def wrap(key: bytes, public: bytes, binding: Binding) -> bytes:
    """Encrypts the key of a text to a public key (HPKE, RFC 9180): 80 bytes."""
    return _SUITE.encrypt(key, X25519PublicKey.from_public_bytes(public), binding.info())


def unwrap(wrapped: bytes, private: X25519PrivateKey, binding: Binding) -> bytes:
    """Returns the key that `wrap` encrypted.

    Raises:
        EnvelopeError: it was wrapped to another key, has another binding, or was changed.
    """
    try:
        return _SUITE.decrypt(wrapped, private, binding.info())
    except (InvalidTag, ValueError) as error:
        raise EnvelopeError("the key of the text cannot be unwrapped") from error


def seal(plain: bytes, key: bytes, binding: Binding, header: bytes = b"") -> bytes:
    """Encrypts with AES-256-GCM, bound to binding and header; `key` is used only once."""
    return AESGCM(key).encrypt(_NONCE, plain, binding.info() + header)


def unseal(sealed: bytes, key: bytes, binding: Binding, header: bytes = b"") -> bytes:
    """Decrypts a result of `seal`.

    Raises:
        EnvelopeError: the key, the binding, the header or the bytes differ.
    """
    try:
        return AESGCM(key).decrypt(_NONCE, sealed, binding.info() + header)
    except (InvalidTag, ValueError) as error:
        raise EnvelopeError("the text cannot be decrypted") from error
