"""Messages of groups that were not addressed to an agent, until they are given to its model."""

from skerry.model.message import storable
from skerry.store.unit import Reader, Unit

MAX_ROWS = 20_000
"""Rows of all groups together; the oldest go first."""
_ROUND = 64
"""Rows after which the limit over all groups is applied."""


def add(  # noqa: PLR0913 - the columns of a row
    unit: Unit, key: str, sender: str, text: str, at: int, *, limit: int, run_id: str = ""
) -> None:
    """Adds a message to the history of a conversation, and drops those beyond its limit."""
    row = unit.one(
        "INSERT INTO group_message (session_key, sender, text, at, run_id) VALUES (?, ?, ?, ?, ?)"
        " RETURNING serial",
        (key, storable(sender), storable(text), at, run_id),
    )
    serial = int(row[0]) if row else 0
    unit.execute(
        "DELETE FROM group_message WHERE session_key = ? AND serial NOT IN"
        " (SELECT serial FROM group_message WHERE session_key = ? ORDER BY serial DESC LIMIT ?)",
        (key, key, limit),
    )
    if serial % _ROUND == 0:
        unit.execute("DELETE FROM group_message WHERE serial <= ?", (serial - MAX_ROWS,))


def read(reader: Reader, key: str, limit: int) -> list[tuple[int, str, str]]:
    """Returns number, sender and text of the last messages of a conversation, oldest first."""
    rows = reader.all(
        "SELECT serial, sender, text FROM group_message WHERE session_key = ?"
        " ORDER BY serial DESC LIMIT ?",
        (key, limit),
    )
    return [(int(serial), str(sender), str(text)) for serial, sender, text in reversed(rows)]


def drop(unit: Unit, run_id: str) -> None:
    """Deletes a message: its sender deleted it on the platform."""
    unit.execute("DELETE FROM group_message WHERE run_id = ?", (run_id,))


def take(unit: Unit, key: str, last: int) -> None:
    """Deletes the messages up to a number: they are given to the model with this unit."""
    unit.execute("DELETE FROM group_message WHERE session_key = ? AND serial <= ?", (key, last))
