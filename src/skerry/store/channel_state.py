"""Positions up to which platform accounts have received, in the form of each platform."""

from skerry.store.unit import Reader, Unit

MAX_VALUE = 65_536


def read(reader: Reader, channel: str, account: str, name: str) -> str:
    """Returns a value; empty if there is none."""
    row = reader.one(
        "SELECT value FROM channel_state WHERE channel = ? AND account = ? AND name = ?",
        (channel, account, name),
    )
    return str(row[0]) if row else ""


def write(unit: Unit, channel: str, account: str, name: str, value: str) -> None:
    """Sets a value."""
    unit.execute(
        "INSERT INTO channel_state (channel, account, name, value) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (channel, account, name) DO UPDATE SET value = excluded.value",
        (channel, account, name, value[:MAX_VALUE]),
    )
