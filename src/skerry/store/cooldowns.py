"""Cooldowns of credentials, stored so that they survive a restart."""

from typing import NamedTuple

from skerry.store.unit import Reader, Unit


class CooldownRow(NamedTuple):
    """Cooldown of a credential for a model. Times are milliseconds since 1970."""

    profile: str
    model: str
    reason: str
    stamp: str
    """Fingerprint of the credential."""
    failures: int
    failed_at: int
    until: int


def load(reader: Reader) -> list[CooldownRow]:
    """Returns every stored cooldown, the earliest end first."""
    rows = reader.all(
        "SELECT profile, model, reason, stamp, failures, failed_at, until FROM cooldown"
        " ORDER BY until"
    )
    return [CooldownRow(*row) for row in rows]


def keep(unit: Unit, row: CooldownRow) -> None:
    """Stores a cooldown; it replaces one with the same profile, model and reason."""
    unit.execute(
        "INSERT INTO cooldown (profile, model, reason, stamp, failures, failed_at, until)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (profile, model, reason) DO UPDATE SET"
        " stamp = excluded.stamp, failures = excluded.failures, failed_at = excluded.failed_at,"
        " until = excluded.until",
        row,
    )


def drop(unit: Unit, profile: str, model: str) -> None:
    """Deletes the cooldowns of a profile and model after a successful call."""
    unit.execute("DELETE FROM cooldown WHERE profile = ? AND model = ?", (profile, model))


def drop_before(unit: Unit, until: int) -> None:
    """Deletes the cooldowns that ended before `until`."""
    unit.execute("DELETE FROM cooldown WHERE until < ?", (until,))
