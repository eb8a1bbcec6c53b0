"""Verifies the `x-seal-session` header: a delegate's certificate for five minutes of decryption."""

import base64
import binascii
import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MAX_BYTES = 4096
"""Maximum length of the header in bytes; official clients send 604 to 624."""

MAX_MINUTES = 30
"""Maximum lifetime of an accepted certificate in minutes; official clients use 5."""

AHEAD_SECONDS = 300
"""Seconds by which a certificate may be from the future, as for signatures."""

_CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_PACKAGE = re.compile(r"0x[0-9a-f]{64}")


class CertificateError(ValueError):
    """A certificate that is malformed, forged, expired, or for another key or package."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A verified certificate. The key server verifies `header`, as the client sent it, again."""

    header: str
    public_key: str
    address: str
    package_id: str
    expires_at: float
    """Unix seconds."""


class _Wire(msgspec.Struct, rename="camel"):
    address: str
    package_id: str
    creation_time_ms: int
    ttl_min: int
    personal_message_signature: str
    session_key: str
    mvr_name: Any = None


def address_of(public_key: bytes) -> str:
    """Returns the Sui address of an Ed25519 public key."""
    return "0x" + hashlib.blake2b(b"\0" + public_key, digest_size=32).hexdigest()


def verify(header: str, *, public_key: str, package_id: str, now: float) -> Certificate:
    """Returns the certificate of `header` when `public_key` (hex) signed it for `package_id`.

    Raises:
        CertificateError: It is malformed, forged, expired, too long-lived or from the future, or
            names another key or package.

    """
    if len(header) > MAX_BYTES:
        raise CertificateError("the certificate is longer than 4096 bytes")
    try:
        wire = msgspec.json.decode(base64.b64decode(header, validate=True), type=_Wire)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise CertificateError("the certificate is not base64 of its JSON object") from error
    if wire.package_id != package_id or not _PACKAGE.fullmatch(package_id):
        raise CertificateError("the certificate is for another package")
    if not 1 <= wire.ttl_min <= MAX_MINUTES:
        raise CertificateError(
            f"the certificate is valid for {wire.ttl_min} minutes, not 1 to {MAX_MINUTES}"
        )
    expires_at = wire.creation_time_ms / 1000 + wire.ttl_min * 60
    if not wire.creation_time_ms / 1000 - AHEAD_SECONDS <= now < expires_at:
        raise CertificateError("the certificate has expired or is from the future")
    key = bytes.fromhex(public_key)
    if wire.address != address_of(key):
        raise CertificateError("the certificate is for another address")
    _check_signature(wire, key)
    return Certificate(header, public_key, wire.address, package_id, expires_at)


def _check_signature(wire: _Wire, key: bytes) -> None:
    try:
        signed = base64.b64decode(wire.personal_message_signature, validate=True)
    except (ValueError, binascii.Error) as error:
        raise CertificateError("the signature of the certificate is not base64") from error
    if len(signed) != 97 or signed[0] != 0 or signed[65:] != key:  # noqa: PLR2004 - flag, 64, 32
        raise CertificateError("the certificate is signed by another key")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signed[1:65], _digest(wire))
    except (InvalidSignature, ValueError) as error:
        raise CertificateError("the signature of the certificate does not match") from error


def _digest(wire: _Wire) -> bytes:
    """Returns the 32 bytes that a Sui wallet signs for the personal message of the certificate."""
    try:
        created_at = datetime.fromtimestamp(wire.creation_time_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise CertificateError("the certificate has no valid date") from error
    session = Ed25519PrivateKey.from_private_bytes(_seed(wire.session_key)).public_key()
    text = (
        f"Accessing keys of package {wire.package_id} for {wire.ttl_min} mins from "
        f"{created_at:%Y-%m-%d %H:%M:%S} UTC, session key "
        f"{base64.b64encode(session.public_bytes_raw()).decode()}"
    ).encode()
    length, remaining = bytearray(), len(text)
    while remaining > 0x7F:  # noqa: PLR2004 - ULEB128
        length.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    length.append(remaining)
    return hashlib.blake2b(b"\3\0\0" + bytes(length) + text, digest_size=32).digest()


def _seed(text: str) -> bytes:
    """Decodes `suiprivkey1...` (bech32 of a zero flag and an Ed25519 seed); returns the seed."""
    prefix, _, data = text.rpartition("1")
    if prefix != "suiprivkey" or len(text) > 90 or set(data) - set(_CHARSET):  # noqa: PLR2004
        raise CertificateError("the session key of the certificate is not a suiprivkey")
    words = [_CHARSET.index(letter) for letter in data]
    if _polymod([*_expanded(prefix), *words]) != 1:
        raise CertificateError("the session key of the certificate has a wrong checksum")
    bits = value = 0
    out = bytearray()
    for word in words[:-6]:
        value = (value << 5 | word) & 0xFFF
        bits += 5
        if bits >= 8:  # noqa: PLR2004 - a byte
            bits -= 8
            out.append(value >> bits & 0xFF)
    if len(out) != 33 or out[0] != 0:  # noqa: PLR2004 - flag and seed
        raise CertificateError("the session key of the certificate is not an Ed25519 key")
    return bytes(out[1:])


def _expanded(prefix: str) -> list[int]:
    """Returns the values of a prefix in the checksum."""
    return [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]


def _polymod(values: list[int]) -> int:
    """Computes the checksum of bech32 (BIP 173); 1 for a valid text."""
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, part in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            if top >> bit & 1:
                check ^= part
    return check


def issue(key: Ed25519PrivateKey, package_id: str, now: float) -> str:
    """Returns a certificate for five minutes that is signed by `key`, as clients make it."""
    public_key, seed = key.public_key().public_bytes_raw(), secrets.token_bytes(32)
    wire = _Wire(
        address=address_of(public_key),
        package_id=package_id,
        creation_time_ms=int(now * 1000),
        ttl_min=5,
        personal_message_signature="",
        session_key=_suiprivkey(seed),
    )
    signed = b"\0" + key.sign(_digest(wire)) + public_key
    wire.personal_message_signature = base64.b64encode(signed).decode()
    return base64.b64encode(msgspec.json.encode(wire)).decode()


def _suiprivkey(seed: bytes) -> str:
    bits = "".join(f"{byte:08b}" for byte in b"\0" + seed)
    bits += "0" * (-len(bits) % 5)
    words = [int(bits[index : index + 5], 2) for index in range(0, len(bits), 5)]
    check = _polymod([*_expanded("suiprivkey"), *words, *[0] * 6]) ^ 1
    words += [check >> 5 * (5 - index) & 31 for index in range(6)]
    return "suiprivkey1" + "".join(_CHARSET[word] for word in words)
