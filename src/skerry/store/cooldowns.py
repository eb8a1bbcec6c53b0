"""Which credentials rest, so that a restart does not forget it."""

from skerry.store.unit import Reader, Unit

Row = tuple[str, str, str, str, int, int, int]
"""Profile, model, reason, stamp of the credential, failures, when it failed, until when."""


def load(reader: Reader) -> list[Row]:
    """Return every rest that was kept."""
    found = reader.all(
        "SELECT profile, model, reason, stamp, failures, failed_at, until FROM cooldown"
        " ORDER BY until"
    )
    return [(*map(str, row[:4]), *map(int, row[4:])) for row in found]  # type: ignore[misc] - the lengths are those of the query


def keep(unit: Unit, row: Row) -> None:
    """Keep a rest, in the place of an earlier one of its profile, model and reason."""
    unit.execute("INSERT OR REPLACE INTO cooldown VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def drop(unit: Unit, profile: str, model: str) -> None:
    """Forget the rests of a profile and model: it answered."""
    unit.execute("DELETE FROM cooldown WHERE profile = ? AND model = ?", (profile, model))


def drop_before(unit: Unit, until: int) -> None:
    """Forget what ended before `until`."""
    unit.execute("DELETE FROM cooldown WHERE until < ?", (until,))
