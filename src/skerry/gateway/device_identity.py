"""Identity of a device: an Ed25519 key, and the text that it signs when it connects."""

import base64
import binascii
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import anyio.to_thread
from msgspec import Struct

from skerry.gateway.handshake_errors import bad_device

SKEW_MS: Final = 600_000
"""Allowed difference of a device's clock, in milliseconds. The nonce prevents replays."""
_KEY_BYTES: Final = 32


class Claim(Struct, frozen=True, kw_only=True):
    """The values that a device signs."""

    device_id: str
    client_id: str
    client_mode: str
    role: str
    scopes: Sequence[str]
    signed_at: int
    """Time of the device's clock, in milliseconds since 1970."""
    token: str
    """Presented token; empty for none."""
    nonce: str
    platform: str
    device_family: str

    def signed(self) -> tuple[bytes, bytes]:
        """Returns both texts that devices may sign: only version 3 has platform and family."""
        fields = (
            self.device_id,
            self.client_id,
            self.client_mode,
            self.role,
            ",".join(self.scopes),
            str(self.signed_at),
            self.token,
            self.nonce,
        )
        about = (_lower(self.platform), _lower(self.device_family))
        return (
            "|".join(("v3", *fields, *about)).encode(),
            "|".join(("v2", *fields)).encode(),
        )


def key(device_id: str, public_key: str) -> bytes:
    """Returns the raw key of 32 bytes.

    Raises:
        HandshakeError: the key is invalid, or the id is not its SHA-256.
    """
    raw = _decoded(public_key)
    if len(raw) != _KEY_BYTES or sha256(raw).hexdigest() != device_id.lower():
        raise bad_device("device-id-mismatch")
    return raw


async def check(claim: Claim, raw_key: bytes, signature: str, nonce: str, now_ms: int) -> None:
    """Checks that the owner of the key signed the claim recently and for this connection.

    Raises:
        HandshakeError: the signature, the time or the nonce is wrong.
    """
    if abs(now_ms - claim.signed_at) > SKEW_MS:
        raise bad_device("device-signature-stale")
    if claim.nonce != nonce:
        raise bad_device("device-nonce-mismatch")
    raw = _decoded(signature)
    # In a thread: the first device imports the library.
    if not await anyio.to_thread.run_sync(_is_signed, claim, raw_key, raw):
        raise bad_device("device-signature")


def _is_signed(claim: Claim, raw_key: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - with the first device
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - with the first device
        Ed25519PublicKey,
    )

    try:
        public = Ed25519PublicKey.from_public_bytes(raw_key)
    except ValueError:
        return False
    for text in claim.signed():
        try:
            public.verify(signature, text)
        except InvalidSignature:
            continue
        return True
    return False


def _decoded(text: str) -> bytes:
    """Returns the bytes of base64url without padding; empty when it is invalid."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _lower(text: str) -> str:
    """Returns the text as devices sign it: trimmed, ASCII letters in lower case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text.strip())
