"""Times of the last executions of regular tasks, so that a restart does not reset intervals."""

from skerry.store.unit import Reader, Unit

HOUR_MS = 3_600_000


def done_at(reader: Reader, name: str) -> int | None:
    """Returns the time of the last execution of the task, in ms; None if it never ran."""
    row = reader.one("SELECT done_at FROM task WHERE name = ?", (name,))
    return int(row[0]) if row else None


def note(unit: Unit, name: str, now: int, outcome: str) -> None:
    """Stores time and outcome of an execution of the task."""
    unit.execute(
        "INSERT INTO task (name, done_at, outcome) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at, outcome = excluded.outcome",
        (name, now, outcome),
    )


def outcomes(reader: Reader) -> dict[str, tuple[int, str]]:
    """Returns time and outcome of the last execution of each task, by name."""
    rows = reader.all("SELECT name, done_at, outcome FROM task")
    return {str(name): (at, text) for name, at, text in rows}


def is_due(last: int | None, now: int, every: int) -> bool:
    """Returns whether a task with the interval `every`, in ms, is due.

    It is also due if `last` is more than an hour ahead, which means that the clock was set back.
    """
    return last is None or now - last >= every or last > now + HOUR_MS
