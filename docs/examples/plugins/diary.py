"""A diary: stores messages in the plugin's own tables, and is the memory of the gateway."""

from collections.abc import Sequence

from skerry.sdk.api import PluginApi
from skerry.sdk.memory import Remembered, SlotStatus
from skerry.sdk.tables import Database, Reader, Unit
from skerry.sdk.transcripts import SpokenRow

STEPS = (
    """
    CREATE TABLE line (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, text TEXT NOT NULL,
        at INTEGER NOT NULL);
    CREATE TABLE place (id INTEGER PRIMARY KEY, serial INTEGER NOT NULL)
    """,
)


class Diary:
    """The lines of all agents. Implements `skerry.sdk.memory.SlotMemory`."""

    def __init__(self, tables: Database) -> None:
        self._tables = tables

    async def cursor(self) -> int | None:
        """Returns the read position in the transcripts; None before the first read."""
        row = await self._tables.read(lambda reader: reader.one("SELECT serial FROM place"))
        return None if row is None else int(row[0])

    async def add(self, messages: Sequence[SpokenRow], cursor: int, now_ms: int) -> None:
        """Stores the lines and the read position in one transaction: each is stored once."""

        def work(unit: Unit) -> None:
            unit.executemany(
                "INSERT INTO line (agent, text, at) VALUES (?, ?, ?)",
                [(message.agent_id, message.text, now_ms) for message in messages if message.text],
            )
            unit.execute("DELETE FROM place")
            unit.execute("INSERT INTO place (serial) VALUES (?)", (cursor,))

        await self._tables.write(work)

    async def search(self, agent: str, query: str, limit: int) -> Sequence[Remembered]:
        """Returns the newest lines that have the words of the query."""

        def work(reader: Reader) -> list[Remembered]:
            rows = reader.all(
                "SELECT id, text, at FROM line WHERE agent = ? AND lower(text) LIKE ?"
                " ORDER BY id DESC LIMIT ?",
                (agent, f"%{query.lower()}%", limit),
            )
            return [Remembered(str(number), text, at=at) for number, text, at in rows]

        return await self._tables.read(work)

    async def forget(self, agent: str, phrases: Sequence[str]) -> int:
        """Erases the lines with one of the phrases."""

        def work(unit: Unit) -> int:
            return sum(
                unit.execute(
                    "DELETE FROM line WHERE agent = ? AND lower(text) LIKE ?",
                    (agent, f"%{phrase.lower()}%"),
                )
                for phrase in phrases
            )

        return await self._tables.write(work)

    async def status(self, agent: str) -> SlotStatus:
        """Returns the number of lines."""
        query = "SELECT count(*) FROM line WHERE agent = ?"
        ((count,),) = await self._tables.read(lambda reader: reader.all(query, (agent,)))
        return SlotStatus(is_ok=True, text=f"The diary has {count} lines.", count=count)


def register(api: PluginApi) -> None:
    """Registers the diary as the memory, and the service that fills it."""
    diary = Diary(api.database(STEPS))
    api.claim_slot("memory", diary)

    async def keep() -> None:
        cursor = await diary.cursor()
        if cursor is None:
            cursor = await api.transcripts.latest()
            await diary.add((), cursor, api.clock.now_ms())
        while True:
            messages = await api.transcripts.since(cursor)
            if messages:
                cursor = messages[-1].serial
                await diary.add(messages, cursor, api.clock.now_ms())
            await api.transcripts.wait(cursor)

    api.register_service("keep", keep)
