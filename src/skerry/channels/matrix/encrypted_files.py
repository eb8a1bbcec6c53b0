"""Encrypted files of Matrix: AES-CTR under a key of the message, and a hash of the upload."""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Any, Final

import msgspec
from msgspec import Struct, field

_KEY_BYTES: Final = 32
_IV_BYTES: Final = 16
_RANDOM_IV_BYTES: Final = 8
"""The other half counts blocks, and begins at 0 so that it never runs over."""
_MAX_ADDRESS: Final = 512
_ADDRESS: Final = re.compile(
    r"mxc://(?=[^/]*[A-Za-z0-9])[A-Za-z0-9.:\[\]-]{1,255}/[A-Za-z0-9_-]{1,255}", re.ASCII
)


class _Key(Struct, frozen=True):
    k: str
    kty: str = "oct"
    alg: str = "A256CTR"
    ext: bool = True
    key_ops: tuple[str, ...] = ("encrypt", "decrypt")


class EncryptedFile(Struct, frozen=True):
    """Address, key and hash of an encrypted file, as the content of its message has them."""

    url: str
    key: _Key
    iv: str
    hashes: dict[str, str] = field(default_factory=dict)
    v: str = "v2"


class BrokenFileError(ValueError):
    """A file cannot be decrypted: its description is wrong, or its bytes are others."""


def parsed(content: object) -> EncryptedFile | None:
    """Returns the file that the content of a message describes; None where it describes none."""
    try:
        file = msgspec.convert(content, EncryptedFile)
    except msgspec.ValidationError:
        return None
    fits = file.v == "v2" and file.key.alg == "A256CTR" and len(file.url) <= _MAX_ADDRESS
    return file if fits and is_address(file.url) and "sha256" in file.hashes else None


def is_address(text: str) -> bool:
    """Returns whether a text names a file of a media repository, and no other thing of a server.

    With the account's token it is asked for a path that is made of it.
    """
    return _ADDRESS.fullmatch(text) is not None


def handle(file: EncryptedFile) -> str:
    """Returns all that is needed to fetch the file, as the text that names it."""
    hashes = {"sha256": file.hashes["sha256"]}
    described = EncryptedFile(file.url, _Key(file.key.k), file.iv, hashes)
    return msgspec.json.encode(described).decode()


def of_handle(text: str) -> EncryptedFile | None:
    """Returns the file that a text names; None for one that is not encrypted."""
    if not text.startswith("{"):
        return None
    return parsed(msgspec.json.decode(text))


def sealed(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """Returns the encrypted bytes, and the description of the file but for its address."""
    key = secrets.token_bytes(_KEY_BYTES)
    iv = secrets.token_bytes(_RANDOM_IV_BYTES) + bytes(_IV_BYTES - _RANDOM_IV_BYTES)
    encrypted = _counted(key, iv, data)
    digest = hashlib.sha256(encrypted).digest()
    text = base64.urlsafe_b64encode(key).decode().rstrip("=")
    described = EncryptedFile("", _Key(text), _unpadded(iv), {"sha256": _unpadded(digest)})
    return encrypted, msgspec.to_builtins(described)


def opened(file: EncryptedFile, encrypted: bytes) -> bytes:
    """Returns the bytes of a file.

    Raises:
        BrokenFileError: their SHA-256 is wrong, or the key has another form.
    """
    try:
        key = base64.urlsafe_b64decode(_padded(file.key.k))
        iv = base64.b64decode(_padded(file.iv))
        expected = base64.b64decode(_padded(file.hashes["sha256"]))
    except (binascii.Error, ValueError) as error:
        raise BrokenFileError(f"its key is no Base64: {error}") from None
    if len(key) != _KEY_BYTES or len(iv) != _IV_BYTES:
        raise BrokenFileError(f"its key has {len(key)} bytes and its counter {len(iv)}")
    if not hmac.compare_digest(hashlib.sha256(encrypted).digest(), expected):
        raise BrokenFileError("its SHA-256 differs from that in the message")
    return _counted(key, iv, encrypted)


def _counted(key: bytes, iv: bytes, data: bytes) -> bytes:
    """Encrypts, and decrypts, which is the same in this mode."""
    # Imported here: accounts without encrypted files do not need it.
    from cryptography.hazmat.primitives.ciphers import (  # noqa: PLC0415 - at first use
        Cipher,
        algorithms,
        modes,
    )

    return Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor().update(data)


def _unpadded(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
