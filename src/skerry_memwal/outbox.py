"""Tables of the plugin: the position in the transcripts, and the unsent texts."""

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from skerry.sdk.memory import Redaction
from skerry.sdk.tables import Database, Reader, Unit

STEPS: Final = (
    """
    CREATE TABLE place (id INTEGER PRIMARY KEY, serial INTEGER NOT NULL);
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL,
        namespace TEXT NOT NULL,
        text TEXT NOT NULL,
        occurred_at TEXT NOT NULL,
        key TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        refused TEXT NOT NULL DEFAULT ''
    )
    """,
)


class Letter(Struct, frozen=True):
    """A text that is sent until the server has answered."""

    agent: str
    namespace: str
    text: str
    occurred_at: str
    """Time of the last message, as ISO 8601."""
    key: str
    """Idempotency key: the server stores the facts of one key once."""
    id: int = 0


class Outbox:
    """The tables, in the plugin's own database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cursor(self) -> int | None:
        """Returns the position up to which transcripts were read; None before the first read."""
        row = await self._database.read(lambda reader: reader.one("SELECT serial FROM place"))
        return None if row is None else int(row[0])

    async def write(self, cursor: int, letters: Sequence[Letter]) -> None:
        """Stores the texts and the position in one transaction."""

        def work(unit: Unit) -> None:
            unit.executemany(
                "INSERT INTO outbox (agent, namespace, text, occurred_at, key)"
                " VALUES (?, ?, ?, ?, ?)",
                [
                    (letter.agent, letter.namespace, letter.text, letter.occurred_at, letter.key)
                    for letter in letters
                ],
            )
            unit.execute(
                "INSERT INTO place (id, serial) VALUES (1, ?)"
                " ON CONFLICT (id) DO UPDATE SET serial = excluded.serial",
                (cursor,),
            )

        await self._database.write(work)

    async def pause(self) -> None:
        """Deletes the position, so that messages from now on are not captured later."""
        await self._database.write(lambda unit: unit.execute("DELETE FROM place"))

    async def waiting(self, limit: int, excluded: Collection[str] = ()) -> list[Letter]:
        """Returns the oldest unsent texts, without those of the excluded agents."""
        agents = tuple(excluded) or ("",)

        def work(reader: Reader) -> list[Letter]:
            rows = reader.all(
                "SELECT agent, namespace, text, occurred_at, key, id FROM outbox"  # noqa: S608 - placeholders
                f" WHERE refused = '' AND agent NOT IN ({', '.join('?' * len(agents))})"
                " ORDER BY id LIMIT ?",
                (*agents, limit),
            )
            return [Letter(*row) for row in rows]

        return await self._database.read(work)

    async def sent(self, letters: Sequence[Letter]) -> None:
        """Removes the sent texts, except refused ones."""
        await self._database.write(
            lambda unit: unit.executemany(
                "DELETE FROM outbox WHERE id = ? AND refused = ''",
                [(letter.id,) for letter in letters],
            )
        )

    async def refuse(self, letter: Letter, reason: str) -> None:
        """Marks a text as refused permanently, with the reason."""
        await self._database.write(
            lambda unit: unit.execute(
                "UPDATE outbox SET refused = ? WHERE id = ?", (reason, letter.id)
            )
        )

    async def counts(self) -> tuple[int, int]:
        """Returns the numbers of unsent and of refused texts."""

        def work(reader: Reader) -> tuple[int, int]:
            ((waiting, refused),) = reader.all(
                "SELECT coalesce(sum(CASE WHEN refused = '' THEN 1 ELSE 0 END), 0),"
                " coalesce(sum(CASE WHEN refused = '' THEN 0 ELSE 1 END), 0) FROM outbox"
            )
            return waiting, refused

        return await self._database.read(work)

    async def forget(self, agent: str, redaction: Redaction) -> int:
        """Removes the texts of an agent that contain one of the phrases; returns their number."""

        def work(unit: Unit) -> int:
            ids = [
                number
                for number, text in unit.all(
                    "SELECT id, text FROM outbox WHERE agent = ?", (agent,)
                )
                if redaction.text(text) != text
            ]
            unit.executemany("DELETE FROM outbox WHERE id = ?", [(number,) for number in ids])
            return len(ids)

        return await self._database.write(work)
