"""Times at which regular tasks last ran, so that a restart does not reset their intervals."""

from skerry.store.unit import Reader, Unit

HOUR_MS = 3_600_000


def done_at(reader: Reader, name: str) -> int | None:
    """Returns when the task was last done, in ms; None when it never was."""
    row = reader.one("SELECT done_at FROM task WHERE name = ?", (name,))
    return int(row[0]) if row else None


def note(unit: Unit, name: str, now: int, outcome: str) -> None:
    """Notes that the task was done, and what came of it."""
    unit.execute(
        "INSERT INTO task (name, done_at, outcome) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at, outcome = excluded.outcome",
        (name, now, outcome),
    )


def outcomes(reader: Reader) -> dict[str, tuple[int, str]]:
    """Returns when each task was last done, and what came of it."""
    rows = reader.all("SELECT name, done_at, outcome FROM task")
    return {str(name): (at, text) for name, at, text in rows}


def is_due(last: int | None, now: int, every: int) -> bool:
    """Returns whether a task is due that is done `every` so many ms.

    A time that lies ahead says that the clock was set back: then it is due too.
    """
    return last is None or now - last >= every or last > now + HOUR_MS
