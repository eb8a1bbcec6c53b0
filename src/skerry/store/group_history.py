"""Group messages that were not addressed to an agent, until they are sent to its model."""

from skerry.model.message import storable
from skerry.store.unit import Reader, Unit

MAX_ROWS = 20_000
"""Limit on the rows of all groups; the oldest are deleted first."""
_ROUND = 64
"""Number of added rows after which `MAX_ROWS` is applied."""


def add(  # noqa: PLR0913 - the columns of a row
    unit: Unit, key: str, sender: str, text: str, at: int, *, limit: int, run_id: str = ""
) -> None:
    """Adds a message to the history of a conversation, and deletes the oldest beyond `limit`."""
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
    """Deletes a message that its sender deleted on the platform."""
    unit.execute("DELETE FROM group_message WHERE run_id = ?", (run_id,))


def take(unit: Unit, key: str, last: int) -> None:
    """Deletes the messages up to number `last`, which the unit adds to a request."""
    unit.execute("DELETE FROM group_message WHERE session_key = ? AND serial <= ?", (key, last))
