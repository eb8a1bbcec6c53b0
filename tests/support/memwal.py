"""A client of the MemWal protocol for tests: signs requests and certificates as the SDKs do."""

import base64
import hashlib
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def suiprivkey(seed: bytes) -> str:
    """Returns the bech32 text of an Ed25519 seed."""
    bits = "".join(f"{byte:08b}" for byte in b"\0" + seed)
    bits += "0" * (-len(bits) % 5)
    words = [int(bits[i : i + 5], 2) for i in range(0, len(bits), 5)]
    prefix = "suiprivkey"
    expanded = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    check = _polymod([*expanded, *words, *[0] * 6]) ^ 1
    words += [check >> 5 * (5 - i) & 31 for i in range(6)]
    return f"{prefix}1{''.join(_LETTERS[word] for word in words)}"


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for i, part in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= part if top >> i & 1 else 0
    return check


@dataclass
class Delegate:
    """A delegate key and its signatures."""

    account_id: str = "0x" + "12" * 32
    seed: bytes = bytes(range(1, 33))
    package_id: str = "0x" + "cd" * 32
    key: Ed25519PrivateKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def public(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    def certificate(
        self, now: float, *, minutes: int = 5, package_id: str = "", **changes: object
    ) -> str:
        """Returns an `x-seal-session` made at `now`; `changes` replace fields after signing."""
        session = Ed25519PrivateKey.from_private_bytes(bytes(32))
        package = package_id or self.package_id
        made = datetime.fromtimestamp(int(now), UTC)
        text = (
            f"Accessing keys of package {package} for {minutes} mins from "
            f"{made:%Y-%m-%d %H:%M:%S} UTC, session key "
            f"{base64.b64encode(session.public_key().public_bytes_raw()).decode()}"
        ).encode()
        assert 128 <= len(text) < 16384
        length = bytes([len(text) & 127 | 128, len(text) >> 7])
        digest = hashlib.blake2b(b"\3\0\0" + length + text, digest_size=32).digest()
        wire = {
            "address": "0x" + hashlib.blake2b(b"\0" + self.public, digest_size=32).hexdigest(),
            "packageId": package,
            "creationTimeMs": int(now * 1000),
            "ttlMin": minutes,
            "personalMessageSignature": base64.b64encode(
                b"\0" + self.key.sign(digest) + self.public
            ).decode(),
            "sessionKey": suiprivkey(bytes(32)),
        }
        return base64.b64encode(json.dumps(wire | changes).encode()).decode()

    def headers(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        now: float,
        nonce: str = "",
        session: bool = True,
    ) -> dict[str, str]:
        """Returns the headers of a six-field signed request."""
        nonce = nonce or str(uuid.uuid4())
        stamp = str(int(now))
        message = f"{stamp}.{method}.{path}.{hashlib.sha256(body).hexdigest()}.{nonce}"
        headers = {
            "content-type": "application/json",
            "x-public-key": self.public.hex(),
            "x-signature": self.key.sign(f"{message}.{self.account_id}".encode()).hex(),
            "x-timestamp": stamp,
            "x-nonce": nonce,
            "x-account-id": self.account_id,
        }
        if session:
            headers["x-seal-session"] = self.certificate(now)
        return headers
