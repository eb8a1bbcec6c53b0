"""Cooldowns of credentials, stored so that they survive a restart."""

from typing import NamedTuple

from skerry.store.unit import Reader, Unit


class CooldownRow(NamedTuple):
    """One rest: of which credential for which model, and why; times in milliseconds."""

    profile: str
    model: str
    reason: str
    stamp: str
    """Fingerprint of the credential."""
    failures: int
    failed_at: int
    until: int


def load(reader: Reader) -> list[CooldownRow]:
    """Returns every rest that was kept."""
    rows = reader.all(
        "SELECT profile, model, reason, stamp, failures, failed_at, until FROM cooldown"
        " ORDER BY until"
    )
    return [CooldownRow(*row) for row in rows]


def keep(unit: Unit, row: CooldownRow) -> None:
    """Keeps a rest, in the place of an earlier one of its profile, model and reason."""
    unit.execute(
        "INSERT INTO cooldown (profile, model, reason, stamp, failures, failed_at, until)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (profile, model, reason) DO UPDATE SET"
        " stamp = excluded.stamp, failures = excluded.failures, failed_at = excluded.failed_at,"
        " until = excluded.until",
        row,
    )


def drop(unit: Unit, profile: str, model: str) -> None:
    """Forgets the rests of a profile and model: it answered."""
    unit.execute("DELETE FROM cooldown WHERE profile = ? AND model = ?", (profile, model))


def drop_before(unit: Unit, until: int) -> None:
    """Forgets what ended before `until`."""
    unit.execute("DELETE FROM cooldown WHERE until < ?", (until,))
