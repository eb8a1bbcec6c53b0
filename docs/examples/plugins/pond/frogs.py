"""The frogs: their table, and the event of a leap."""

from skerry.sdk.checks import Check, Level
from skerry.sdk.events import Event
from skerry.sdk.http import HttpRequest, HttpResponse
from skerry.sdk.tables import Database, Reader, Unit

STEPS = (
    "CREATE TABLE frog (name TEXT PRIMARY KEY)",
    "ALTER TABLE frog ADD COLUMN leaps INTEGER NOT NULL DEFAULT 0",
)


class Frogs:
    """Counts the leaps."""

    def __init__(self, tables: Database, leapt: Event) -> None:
        self._tables = tables
        self._leapt = leapt

    async def leap(self, request: HttpRequest) -> HttpResponse:
        """Answers a request: one more leap."""
        await self._tables.write(_add)
        self._leapt({"name": "Ada", "by": request.body.decode("utf-8", "replace")})
        return HttpResponse(str(await self.leaps()))

    async def leaps(self) -> int:
        """Returns the number of leaps."""
        return await self._tables.read(_count)

    async def check(self) -> list[Check]:
        """Warns if no frog has leapt yet."""
        leaps = await self.leaps()
        if not leaps:
            return [Check("pond", Level.WARNING, "No frog leapt yet.", "Let one leap.")]
        return [Check("pond", Level.OK, f"{leaps} leaps")]


def _add(unit: Unit) -> None:
    unit.execute("INSERT INTO frog (name) VALUES (?) ON CONFLICT DO NOTHING", ("Ada",))
    unit.execute("UPDATE frog SET leaps = leaps + 1 WHERE name = ?", ("Ada",))


def _count(reader: Reader) -> int:
    row = reader.one("SELECT COALESCE(SUM(leaps), 0) FROM frog")
    return row[0] if row else 0
