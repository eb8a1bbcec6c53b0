"""Signatures of requests to a MemWal server, and the certificate that lets it decrypt.

Source: memwal-contract 1.2 and 1.4. A request is signed by the delegate key; the certificate names
a key pair of its own, and the server checks that the delegate key signed it.
"""

import hashlib
import os
import uuid
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from skerry.sdk.errors import PluginError

try:
    from nacl.bindings import crypto_sign, crypto_sign_BYTES, crypto_sign_seed_keypair
except ImportError as missing:
    raise PluginError(
        f"memory-memwal signs its requests with PyNaCl, which cannot be loaded: {missing}.",
        "Install it: pip install 'skerry[memwal]'",
    ) from missing

SESSION_MINUTES: Final = 5
_SESSION_MS: Final = SESSION_MINUTES * 60_000
_EARLY_MS: Final = 30_000
"""Milliseconds before the expiry at which a certificate is replaced."""
_ED25519: Final = b"\x00"
"""Flag of the signature scheme."""
_INTENT: Final = b"\x03\x00\x00"
"""Intent of a personal message."""
_CHARS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


class Signer:
    """Signs the requests of one delegate key.

    Args:
        private_key: 64 hexadecimal digits.
        account_id: Account of the key; empty to let the server find it.
        now_ms: Returns the time.

    """

    def __init__(self, private_key: str, account_id: str, now_ms: Callable[[], int]) -> None:
        self._public, self._secret = crypto_sign_seed_keypair(bytes.fromhex(private_key))
        self.public_key: Final = self._public.hex()
        """The public key in hexadecimal digits."""
        self._account_id = account_id
        self._now_ms = now_ms
        self._session = ("", "", 0)
        """Package, certificate, and time of its expiry."""

    @property
    def address(self) -> str:
        """Returns the address of the delegate key."""
        return f"0x{hashlib.blake2b(_ED25519 + self._public, digest_size=32).hexdigest()}"

    def headers(
        self, method: str, path: str, body: bytes, *, timestamp: str = "", nonce: str = ""
    ) -> dict[str, str]:
        """Returns the headers that sign a request.

        Args:
            method: HTTP method, in capitals.
            path: Path with the query, as on the request line.
            body: Body as it is sent.
            timestamp: Seconds since 1970; now, if it is not given.
            nonce: A UUID that no other request has; a new one, if it is not given.

        """
        timestamp = timestamp or str(self._now_ms() // 1000)
        nonce = nonce or str(uuid.uuid4())
        message = canonical(timestamp, method, path, body, nonce, self._account_id)
        return {
            "content-type": "application/json",
            "x-public-key": self.public_key,
            "x-signature": self._signature(message).hex(),
            "x-timestamp": timestamp,
            "x-nonce": nonce,
            "x-account-id": self._account_id,
        }

    def session(self, package_id: str) -> str:
        """Returns the certificate for the header `x-seal-session`; it is reused for minutes."""
        package, certificate, until = self._session
        now = self._now_ms()
        if package != package_id or now >= until - _EARLY_MS:
            certificate = self.certificate(package_id, now, os.urandom(32))
            self._session = (package_id, certificate, now + _SESSION_MS)
        return certificate

    def certificate(self, package_id: str, created_ms: int, seed: bytes) -> str:
        """Returns a certificate that is valid from `created_ms`, for the session key of `seed`."""
        public, _ = crypto_sign_seed_keypair(seed)
        signed = self._signature(_digest(_personal(package_id, created_ms, public)))
        fields = {
            "address": self.address,
            "packageId": package_id,
            "mvrName": None,
            "creationTimeMs": created_ms,
            "ttlMin": SESSION_MINUTES,
            "personalMessageSignature": b64encode(_ED25519 + signed + self._public).decode(),
            "sessionKey": _bech32("suiprivkey", _ED25519 + seed),
        }
        return b64encode(msgspec.json.encode(fields)).decode()

    def _signature(self, message: bytes) -> bytes:
        return crypto_sign(message, self._secret)[:crypto_sign_BYTES]


def canonical(
    timestamp: str, method: str, path: str, body: bytes, nonce: str, account_id: str
) -> bytes:
    """Returns the bytes of a request that are signed."""
    digest = hashlib.sha256(body).hexdigest()
    return f"{timestamp}.{method}.{path}.{digest}.{nonce}.{account_id}".encode()


def _personal(package_id: str, created_ms: int, public: bytes) -> bytes:
    begins = datetime.fromtimestamp(created_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f"Accessing keys of package {package_id} for {SESSION_MINUTES} mins from {begins},"
        f" session key {b64encode(public).decode()}"
    ).encode()


def _digest(message: bytes) -> bytes:
    """Returns the hash of a personal message, which is signed."""
    length, prefix = len(message), b""
    while length > 0x7F:  # noqa: PLR2004 - seven bits a byte (ULEB128)
        prefix += bytes((length & 0x7F | 0x80,))
        length >>= 7
    prefix += bytes((length,))
    return hashlib.blake2b(_INTENT + prefix + message, digest_size=32).digest()


def _bech32(prefix: str, data: bytes) -> str:
    """Returns bytes as bech32 text with a checksum (BIP 173)."""
    bits = int.from_bytes(data, "big") << (-len(data) * 8 % 5)
    count = -(-len(data) * 8 // 5)
    digits = [bits >> 5 * (count - 1 - position) & 31 for position in range(count)]
    head = [ord(char) >> 5 for char in prefix] + [0] + [ord(char) & 31 for char in prefix]
    check = _polymod([*head, *digits, 0, 0, 0, 0, 0, 0]) ^ 1
    digits += [check >> 5 * (5 - position) & 31 for position in range(6)]
    return f"{prefix}1{''.join(_CHARS[digit] for digit in digits)}"


def _polymod(values: Sequence[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for position, generator in enumerate(_GENERATOR):
            check ^= generator if top >> position & 1 else 0
    return check
