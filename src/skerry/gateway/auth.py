"""Who may connect, with which scopes, and how failures are slowed down."""

import hmac
import ipaddress
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from skerry.gateway.access import OPERATOR_SCOPES, READ, WRITE

_UNASKED: Final = (READ, WRITE)

_FIRST_DELAY: Final = 0.25
_LONGEST_DELAY: Final = 2.0
_FORGET_AFTER: Final = 60.0
_ADDRESSES: Final = 1024


def grant(claimed: Iterable[str] | None) -> tuple[str, ...]:
    """Return the scopes that a client with the right token gets: of the claimed ones those we know.

    Who claims nothing gets reading and writing, never admin.
    """
    if claimed is None:
        return _UNASKED
    return tuple(scope for scope in dict.fromkeys(claimed) if scope in OPERATOR_SCOPES)


def same_token(expected: str, given: str) -> bool:
    """Return whether the tokens are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(expected.encode(), given.encode())


@dataclass(slots=True)
class _Record:
    failures: int = 0
    last: float = 0.0
    answered: float = 0.0


@dataclass(slots=True)
class Failures:
    """Slows down whoever fails again and again: 0.25 s, 0.5 s, 1 s, then 2 s, per address.

    Failures of one address are answered one after another, so that many connections at once do not
    guess faster than one. The right token is never delayed, so nobody can lock out another.
    """

    _records: OrderedDict[str, _Record] = field(default_factory=OrderedDict)

    def delay(self, address: str, now: float) -> float:
        """Note a failure; return how many seconds to wait before it is answered."""
        key = _bucket(address)
        record = self._records.pop(key, None)
        if record is None or now - record.last > _FORGET_AFTER:
            record = _Record()
        self._records[key] = record
        while len(self._records) > _ADDRESSES:
            self._records.popitem(last=False)
        wait = min(_FIRST_DELAY * 2 ** (record.failures - 1), _LONGEST_DELAY)
        record.failures = min(record.failures + 1, 16)
        record.last = now
        if record.failures == 1:
            record.answered = now
            return 0.0
        record.answered = max(record.answered, now) + wait
        return record.answered - now

    def forget(self, address: str) -> None:
        """Forget the failures of an address that has now given the right token."""
        self._records.pop(_bucket(address), None)


def _bucket(address: str) -> str:
    """Return the address in one spelling: `::ffff:127.0.0.1` is `127.0.0.1`."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)
