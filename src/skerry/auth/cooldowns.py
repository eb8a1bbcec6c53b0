"""Cooldowns of credentials by model, each with a reason and an end (no input or output).

A cooldown belongs to a profile, a model and a reason: one bad model does not block a provider.
Steps and limits are those of openclaw-behaviour 6.4. Times are milliseconds of the wall clock.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from skerry.infra.backoff import Backoff
from skerry.model.errors import (
    ModelAuthError,
    ModelBillingError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelSignInError,
)

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
REST: Final = Backoff(base=60.0, cap=3_600.0, factor=5.0)
BILLING_REST: Final = Backoff(base=18_000.0, cap=86_400.0)
WINDOW: Final = 24 * HOUR
"""Time after a cooldown within which a failure continues the count of failures."""
NEVER: Final = 253_402_300_799_000
"""End of a cooldown that lasts until a person signs in again: the end of the year 9999."""
MAX_CORRECTION_MS: Final = 60_000
"""Limit of a correction of the clock, in milliseconds, that is not treated as a jump."""

Key = tuple[str, str]
"""Profile and model."""


class Reason(StrEnum):
    """Reason for a cooldown. Timeouts and broken connections cause none."""

    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    AUTH = "auth"
    BILLING = "billing"
    SIGN_IN = "sign_in"


_REASONS: Final[tuple[tuple[type[ModelError], Reason], ...]] = (
    (ModelSignInError, Reason.SIGN_IN),
    (ModelAuthError, Reason.AUTH),
    (ModelBillingError, Reason.BILLING),
    (ModelRateLimitError, Reason.RATE_LIMIT),
    (ModelOverloadedError, Reason.OVERLOADED),
)


def reason_of(error: ModelError) -> Reason | None:
    """Returns the reason for a cooldown after this failure; None for no cooldown."""
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), None)


def pause(reason: Reason, failures: int, hint: float | None = None) -> int:
    """Returns the cooldown after failure number `failures`, from 1, of one reason, in milliseconds.

    1, 5, 25, then 60 minutes; for an unpaid account 5 hours, doubling to 24. A longer `hint` of the
    provider, in seconds, replaces it up to an hour.
    """
    match reason:
        case Reason.SIGN_IN:
            return NEVER
        case Reason.BILLING:
            return round(BILLING_REST.delay(failures) * 1000)
        case _:
            return max(round(REST.delay(failures) * 1000), min(int((hint or 0) * 1000), HOUR))


class Cooldown(Struct, frozen=True):
    """Cooldown of one credential for one model and one reason."""

    profile: str
    model: str
    reason: Reason
    stamp: str
    """Fingerprint of the failed credential: a replacement has no cooldown."""
    failures: int
    failed_at: int
    until: int

    def is_on(self, now: int) -> bool:
        """Returns True during the cooldown; False when the clock was set back before its begin."""
        if self.until >= NEVER:
            return True
        return self.failed_at - MAX_CORRECTION_MS <= now < self.until


class Availability(StrEnum):
    """Availability of a credential for a model."""

    READY = "ready"
    PROBE = "probe"
    """The cooldown is over: one call may test if the credential works again."""
    BUSY = "busy"
    """The probe call is in progress."""
    COOLING = "cooling"


class Cooldowns:
    """All cooldowns. `keep` is called with each changed one, `drop` with the keys of ended ones.

    Both must not block.
    """

    def __init__(
        self,
        rows: Iterable[Cooldown] = (),
        keep: Callable[[Cooldown], object] = lambda _: None,
        drop: Callable[[Key], object] = lambda _: None,
    ) -> None:
        self.by_key: dict[Key, dict[Reason, Cooldown]] = {}
        """Cooldowns of each profile and model since its last success."""
        self._keep = keep
        self._drop = drop
        self._probing: set[Key] = set()
        for row in rows:
            self.by_key.setdefault((row.profile, row.model), {})[row.reason] = row

    def rows(self, now: int) -> list[Cooldown]:
        """Returns the active cooldowns, those that end first at the beginning."""
        on = (row for rows in self.by_key.values() for row in rows.values() if row.is_on(now))
        return sorted(on, key=lambda row: (row.until, row.profile, row.model))

    def longest(self, key: Key) -> Cooldown | None:
        """Returns the last-ending cooldown of a profile and model; None when there is none."""
        return max(self.by_key.get(key, {}).values(), key=lambda row: row.until, default=None)

    def verdict(self, key: Key, stamp: str, now: int) -> Availability:
        """Returns the availability of the credential `stamp`. A replaced credential is ready."""
        row = self.longest(key)
        if row is None:
            return Availability.READY
        if row.stamp != stamp:
            self.succeeded(key)
            return Availability.READY
        if row.is_on(now):
            return Availability.COOLING
        return Availability.BUSY if key in self._probing else Availability.PROBE

    def begin(self, key: Key) -> bool:
        """Starts the single probe of a profile and model; False when another call has it."""
        if key in self._probing:
            return False
        self._probing.add(key)
        return True

    def failed(self, key: Key, stamp: str, error: ModelError, now: int) -> Cooldown | None:
        """Records a failure; returns the cooldown that it starts, or None.

        Concurrent failures count once: a failure during a cooldown does not extend it.
        """
        self._probing.discard(key)
        reason = reason_of(error)
        if reason is None:
            return None
        before = self.by_key.get(key, {}).get(reason)
        failures = 1
        if before is not None and before.stamp == stamp:
            if before.failed_at <= now < before.until:
                return None
            if now - before.until <= WINDOW:
                failures = before.failures + 1
        until = min(now + pause(reason, failures, error.retry_after), NEVER)
        row = Cooldown(*key, reason, stamp, failures, now, until)
        self.by_key.setdefault(key, {})[reason] = row
        self._keep(row)
        return row

    def succeeded(self, key: Key) -> None:
        """Records a success, which ends all cooldowns of this profile and model."""
        self._probing.discard(key)
        if self.by_key.pop(key, None):
            self._drop(key)

    def released(self, key: Key) -> None:
        """Records a cancelled call, which has no result."""
        self._probing.discard(key)
