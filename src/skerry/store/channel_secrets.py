"""Secret state of platform accounts, such as encryption keys, and its number of changes."""

from collections.abc import Mapping, Sequence

from skerry.ports.vault import VaultEntry
from skerry.store.unit import Reader, Unit

_NUMBER = "number"
"""Kind of the row with the number of changes; its name is empty."""


def read(reader: Reader, channel: str, account: str, kind: str, name: str) -> bytes:
    """Returns a value; empty if there is none."""
    row = reader.one(
        "SELECT value FROM channel_secret"
        " WHERE channel = ? AND account = ? AND kind = ? AND name = ?",
        (channel, account, kind, name),
    )
    return bytes(row[0]) if row else b""


def every(reader: Reader, channel: str, account: str, kind: str) -> list[tuple[str, bytes]]:
    """Returns names and values of a kind, in the order in which they were first written."""
    rows = reader.all(
        "SELECT name, value FROM channel_secret"
        " WHERE channel = ? AND account = ? AND kind = ? ORDER BY serial",
        (channel, account, kind),
    )
    return [(str(name), bytes(value)) for name, value in rows]


def number(reader: Reader, channel: str, account: str) -> int:
    """Returns the number of changes of the state."""
    return int(read(reader, channel, account, _NUMBER, "") or b"0")


def write(
    unit: Unit, channel: str, account: str, changes: Sequence[VaultEntry], limits: Mapping[str, int]
) -> int:
    """Writes values, an empty one deletes; returns the new number of changes.

    Of each kind in `limits`, only that many of the newest values are kept.
    """
    for change in changes:
        _put(unit, channel, account, change)
    for kind in {change.kind for change in changes} & limits.keys():
        unit.execute(
            "DELETE FROM channel_secret WHERE channel = ? AND account = ? AND kind = ?"
            " AND serial <= (SELECT serial FROM channel_secret WHERE channel = ? AND account = ?"
            " AND kind = ? ORDER BY serial DESC LIMIT 1 OFFSET ?)",
            (channel, account, kind, channel, account, kind, limits[kind]),
        )
    return advance(unit, channel, account, number(unit, channel, account))


def advance(unit: Unit, channel: str, account: str, reached: int) -> int:
    """Sets the number of changes to one more than `reached`, and returns it."""
    _put(unit, channel, account, VaultEntry(_NUMBER, "", str(reached + 1).encode()))
    return reached + 1


def clear(unit: Unit, channel: str, account: str) -> None:
    """Deletes the whole state of an account."""
    unit.execute("DELETE FROM channel_secret WHERE channel = ? AND account = ?", (channel, account))


def _put(unit: Unit, channel: str, account: str, secret: VaultEntry) -> None:
    key = (channel, account, secret.kind, secret.name)
    if not secret.value:
        unit.execute(
            "DELETE FROM channel_secret"
            " WHERE channel = ? AND account = ? AND kind = ? AND name = ?",
            key,
        )
        return
    unit.execute(
        "INSERT INTO channel_secret (channel, account, kind, name, value) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (channel, account, kind, name) DO UPDATE SET value = excluded.value",
        (*key, secret.value),
    )
