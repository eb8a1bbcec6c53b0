"""Verifies the six signed fields of a request: time, method, path, body, nonce and account."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

DRIFT: Final = 300
"""Seconds by which the clock of a client may differ, in both directions."""

SIGNED: Final = ("x-public-key", "x-signature", "x-timestamp", "x-nonce", "x-account-id")
_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}", re.ASCII)
_TIME: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_NONCE: Final = re.compile(
    r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}", re.ASCII
)
_ACCOUNT: Final = re.compile(r"0x[0-9a-f]{64}", re.ASCII)


class RejectedError(Exception):
    """Error: a request is refused with `status`, an empty body and an optional reason."""

    def __init__(self, status: int = 401, reason: str = "", *, late: bool = False) -> None:
        super().__init__(reason or f"status {status}")
        self.status = status
        self.reason = reason
        """Text of the header `x-auth-error`; empty for none."""
        self.late = late
        """True if the signature was checked: such answers are delayed by a constant time."""


@dataclass(frozen=True, slots=True)
class Signed:
    """The signed headers of a request, well-formed and recent, but not yet verified."""

    public_key: str
    signature: str
    timestamp: str
    nonce: str
    account_id: str | None

    @classmethod
    def read(cls, headers: Iterable[tuple[str, str]], now: float) -> Self:
        """Returns the fields of `headers` (names in lower case).

        Raises:
            RejectedError: 401 for a field that is missing, malformed or sent twice, or a time that
                is off by more than `DRIFT`; 426 for a client of the protocol without nonces.

        """
        signed: dict[str, str] = {}
        for name, value in headers:
            if name in SIGNED:
                if name in signed:
                    raise RejectedError
                signed[name] = value
        cls._check(signed, now)
        return cls(
            public_key=signed["x-public-key"],
            signature=signed["x-signature"],
            timestamp=signed["x-timestamp"],
            nonce=signed["x-nonce"],
            account_id=signed.get("x-account-id"),
        )

    @staticmethod
    def _check(signed: Mapping[str, str], now: float) -> None:
        if any(name not in signed for name in SIGNED[:3]):
            raise RejectedError
        if "x-nonce" not in signed:
            raise RejectedError(426)
        if not (_NONCE.fullmatch(signed["x-nonce"]) and _TIME.fullmatch(signed["x-timestamp"])):
            raise RejectedError
        if abs(int(now) - int(signed["x-timestamp"])) > DRIFT:
            raise RejectedError(401, "ERR_TIMESTAMP_OUT_OF_BOUNDS")
        account = signed.get("x-account-id")
        if not (
            _KEY.fullmatch(signed["x-public-key"])
            and _SIGNATURE.fullmatch(signed["x-signature"])
            and (account is None or _ACCOUNT.fullmatch(account))
        ):
            raise RejectedError

    def verify(self, method: str, target: str, body: bytes) -> None:
        """Checks the signature over this request; `target` is path and query as they were sent.

        Raises `RejectedError` when the key did not sign exactly this.
        """
        digest = hashlib.sha256(body).hexdigest()
        account = self.account_id or ""
        message = f"{self.timestamp}.{method}.{target}.{digest}.{self.nonce}.{account}"
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
        try:
            key.verify(bytes.fromhex(self.signature), message.encode())
        except (InvalidSignature, ValueError):
            raise RejectedError(late=True) from None
