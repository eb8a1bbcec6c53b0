"""The shared secret, its scopes, and the delays after failures."""

import hmac
from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from msgspec import Struct, field

from skerry.config.gateway import AuthConfig, AuthMode
from skerry.gateway.peer import ClientPeer
from skerry.infra.backoff import Backoff
from skerry.policy.access import OPERATOR_SCOPES, READ

_UNASKED: Final = (READ,)
DELAYS: Final = Backoff(base=0.25, cap=2.0)
_FORGET_AFTER: Final = 60.0
_ADDRESSES: Final = 4096
LOCKED_AFTER: Final = 10
"""Failures of a remote address, each within a minute of the last, that lock it out."""
LOCKED_SECONDS: Final = 300.0


def operator_scopes(scopes: Iterable[str] | None) -> tuple[str, ...]:
    """Returns the valid ones of the scopes that an operator requests; by default the read scope."""
    if scopes is None:
        return _UNASKED
    return tuple(scope for scope in dict.fromkeys(scopes) if scope in OPERATOR_SCOPES)


class SecretCheck(Enum):
    """Result of checking a client's shared secret."""

    RIGHT = auto()
    """The secret is correct, or none is required."""
    WRONG = auto()
    MISSING = auto()


def check_secret(config: AuthConfig, token: str | None, password: str | None) -> SecretCheck:
    """Compares the client's token or password with the secret of the configured mode.

    A password is also accepted in the field for a token. Where a token is required, a password
    without a token is wrong, not missing.
    """
    if config.mode is AuthMode.NONE:
        return SecretCheck.RIGHT
    presented = (password or token) if config.mode is AuthMode.PASSWORD else token
    if not presented and password:
        return SecretCheck.WRONG
    if not presented:
        return SecretCheck.MISSING
    secret = config.secret
    right = secret is not None and same_secret(secret, presented)
    return SecretCheck.RIGHT if right else SecretCheck.WRONG


def same_secret(expected: str, presented: str) -> bool:
    """Compares two secrets in constant time."""
    return hmac.compare_digest(expected.encode(), presented.encode())


class _Record(Struct):
    failures: int = 0
    last: float = 0.0
    answered: float = 0.0
    locked_until: float = 0.0


class Failures(Struct):
    """Delays responses to repeated failures: 0.25 s, 0.5 s, 1 s, then 2 s, per address.

    Failures of one address are answered one after another, so that many connections do not guess
    faster. On this machine the right secret is never delayed, so that no program can lock out
    another. A remote address is locked out for 5 minutes after `LOCKED_AFTER` failures.
    """

    _records: OrderedDict[str, _Record] = field(default_factory=OrderedDict)

    def locked(self, peer: ClientPeer, now: float) -> float:
        """Returns the seconds for which the address is still locked out; 0 when it is not."""
        record = self._records.get(peer.bucket)
        return 0.0 if record is None else max(0.0, record.locked_until - now)

    def delay(self, peer: ClientPeer, now: float) -> float:
        """Records a failure; returns the seconds to wait before the response."""
        record = self._records.pop(peer.bucket, None)
        if record is None or now - record.last > _FORGET_AFTER:
            record = _Record()
        self._records[peer.bucket] = record
        while len(self._records) > _ADDRESSES:
            self._records.popitem(last=False)
        wait = DELAYS.delay(record.failures)
        record.failures = min(record.failures + 1, 16)
        record.last = now
        if record.failures >= LOCKED_AFTER and not peer.local:
            record.locked_until = now + LOCKED_SECONDS
        if record.failures == 1:
            record.answered = now
            return 0.0
        record.answered = max(record.answered, now) + wait
        return record.answered - now

    def forget(self, peer: ClientPeer) -> None:
        """Drops the failures of an address after a correct secret."""
        self._records.pop(peer.bucket, None)
