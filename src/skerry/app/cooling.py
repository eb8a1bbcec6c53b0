"""Loads and stores the cooldowns of credentials, so that they last over a restart."""

from typing import Final

from msgspec.structs import astuple

from skerry.auth.cooldowns import WINDOW, Cooldown, Cooldowns, Reason
from skerry.infra.clock import Clock
from skerry.store import Store, cooldowns

_REASONS: Final = frozenset(Reason)


async def kept_cooldowns(store: Store, clock: Clock) -> Cooldowns:
    """Returns the stored cooldowns; later changes of them are written to the store."""
    forgotten = clock.now_ms() - WINDOW
    loaded = await store.read(cooldowns.load)
    if any(row.until < forgotten for row in loaded):  # an ordinary start writes nothing
        store.post(lambda unit: cooldowns.drop_before(unit, forgotten))
    rows = [
        Cooldown(
            row.profile,
            row.model,
            Reason(row.reason),
            row.stamp,
            row.failures,
            row.failed_at,
            row.until,
        )
        for row in loaded
        if row.reason in _REASONS and row.until >= forgotten
    ]

    def keep(row: Cooldown) -> None:
        stored = cooldowns.CooldownRow(*astuple(row))
        store.post(lambda unit: cooldowns.keep(unit, stored))

    def drop(key: tuple[str, str]) -> None:
        store.post(lambda unit: cooldowns.drop(unit, *key))

    return Cooldowns(rows, keep, drop)
