"""Messages that arrived and that the gateway has not accepted: IRC sends nothing a second time."""

from skerry.sdk.tables import Database, Reader, Unit

STEPS = (
    """CREATE TABLE waiting (
        serial INTEGER PRIMARY KEY AUTOINCREMENT,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        text TEXT NOT NULL,
        is_for_me INTEGER NOT NULL,
        at INTEGER NOT NULL
    )""",
)
Row = tuple[int, str, str, str, bool, int]
"""Serial number, source, channel or empty, text, whether the bot is addressed, and the time."""


class Waiting:
    """Stores each message from its arrival until it was accepted."""

    def __init__(self, tables: Database) -> None:
        self._tables = tables

    async def add(self, source: str, target: str, text: str, at: int, *, is_for_me: bool) -> None:
        """Stores a message; returns after the COMMIT."""
        row = (source, target, text, is_for_me, at)

        def insert(unit: Unit) -> None:
            unit.execute(
                "INSERT INTO waiting (source, target, text, is_for_me, at) VALUES (?, ?, ?, ?, ?)",
                row,
            )

        await self._tables.write(insert)

    async def first(self) -> Row | None:
        """Returns the oldest message."""

        def select(reader: Reader) -> Row | None:
            row = reader.one(
                "SELECT serial, source, target, text, is_for_me, at FROM waiting"
                " ORDER BY serial LIMIT 1"
            )
            if row is None:
                return None
            serial, source, target, text, is_for_me, at = row
            return int(serial), str(source), str(target), str(text), bool(is_for_me), int(at)

        return await self._tables.read(select)

    async def drop(self, serial: int) -> None:
        """Deletes a message that was accepted."""
        await self._tables.write(
            lambda unit: unit.execute("DELETE FROM waiting WHERE serial = ?", (serial,))
        )
