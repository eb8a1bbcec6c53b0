"""Encryption of the vault's secrets. Imports `cryptography`, which takes 30 ms."""

import os
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from skerry.auth.vault import KEY_BYTES, RESTORE
from skerry.config.auth import PASSPHRASE
from skerry.model.errors import CredentialError

_NONCE_BYTES: Final = 12
_MAX_BYTES: Final = 2**22
"""Limit of n times r times p in a file: about 3 s."""


def derived(passphrase: str, salt: str, cost: tuple[int, int, int]) -> bytes:
    """Returns the key that scrypt derives from a passphrase.

    Args:
        passphrase: Passphrase of the person.
        salt: Salt in base64.
        cost: Parameters n, r and p.

    Raises:
        CredentialError: the passphrase is empty, or the cost is too high.
    """
    n, r, p = cost
    if not passphrase:
        message = "The vault is locked with a passphrase."
        raise CredentialError(message, f"Set {PASSPHRASE} for the gateway.")
    if n * r * p > _MAX_BYTES or n <= 1 or n & (n - 1) or min(r, p) < 1:
        raise CredentialError("The vault's file asks for a key of unreasonable cost.")
    return Scrypt(salt=b64decode(salt), length=KEY_BYTES, n=n, r=r, p=p).derive(passphrase.encode())


@dataclass(frozen=True, slots=True)
class Sealer:
    """Encrypts and decrypts secrets of one provider."""

    provider: str
    key: bytes = field(repr=False)

    def seal(self, name: str, text: str) -> dict[str, str]:
        """Returns nonce and ciphertext, both as base64."""
        nonce = os.urandom(_NONCE_BYTES)
        data = ChaCha20Poly1305(self.key).encrypt(nonce, text.encode(), self._bound_to(name))
        return {"nonce": b64encode(nonce).decode(), "data": b64encode(data).decode()}

    def open(self, name: str, sealed: dict[str, Any]) -> str:
        """Returns the decrypted secret.

        Raises:
            CredentialError: the key is wrong, or the entry was changed.
        """
        try:
            nonce, data = b64decode(str(sealed["nonce"])), b64decode(str(sealed["data"]))
            return bytes(
                ChaCha20Poly1305(self.key).decrypt(nonce, data, self._bound_to(name))
            ).decode()
        except (InvalidTag, KeyError, ValueError) as error:
            message = f"The vault of {self.provider} does not open: another key, or a damaged file."
            raise CredentialError(message, RESTORE) from error

    def _bound_to(self, name: str) -> bytes:
        return f"skerry-vault/1\0{self.provider}\0{name}".encode()
