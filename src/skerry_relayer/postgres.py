"""The PostgreSQL engine: units on a few connections, and nearest vectors by pgvector."""

import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.to_thread
import psycopg

from skerry_recall.numbers import Floats
from skerry_relayer.database import Database, Row, Unit
from skerry_relayer.errors import DownError
from skerry_relayer.vector_search import VectorScope

T = TypeVar("T")
WORDS: Final = {"bytes": "BYTEA", "vector": "VECTOR"}
"""Types of PostgreSQL for the words in braces of the schema."""
EXACT_ROWS: Final = 4_000
"""Maximum number of memories of a namespace that are all compared; above it the index is used."""
GRAPH: Final = "m = 24, ef_construction = 128"
"""Edges of a vector, and candidates for them. With the defaults of pgvector (16 and 64) a tenant
with 50,000 of a million rows found 88 % of the nearest ten, with these 98 %
(`bench.memwal_tenants`)."""
EF_SEARCH: Final = 800
"""Candidates that the index examines in one step; pgvector permits at most 1000."""
_CONNECTIONS: Final = 8
_TRIES: Final = 5
STATEMENT_SECONDS: Final = 30.0
"""Limit of a statement of a request or a job."""
_UNLIMITED: Final = "SET LOCAL statement_timeout = 0"
"""Lifts the time limit for building the index, which takes minutes for a million vectors."""
_LOCK: Final = 7_305_113
"""Advisory lock that is held while the schema is made."""
_RETRYABLE: Final = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
)
"""Errors after which a unit is repeated: another node was faster."""


class PostgresUnit:
    """A unit on a connection of PostgreSQL."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        """Runs a statement; returns how many rows it changed."""
        changed: int = self._connection.execute(_marked(sql), tuple(values)).rowcount
        return changed

    def all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Returns the rows of a query."""
        rows: list[Row] = self._connection.execute(_marked(sql), tuple(values)).fetchall()
        return rows

    def first_row(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        """Returns the first row of a query, or None."""
        row: Row | None = self._connection.execute(_marked(sql), tuple(values)).fetchone()
        return row


def _marked(sql: str) -> Any:
    """Returns a statement with the placeholders of this driver; it must not contain `%`."""
    return sql.replace("?", "%s")


class PostgresDatabase(anyio.AsyncContextManagerMixin):
    """One database that several relayers may share. Use as `async with PostgresDatabase(...)`.

    A unit is repeated if another node was faster, so it must change nothing but the database.
    """

    def __init__(self, url: str, steps: tuple[str, ...]) -> None:
        self._url = url
        self._steps = steps
        self._idle: list[psycopg.Connection[Any]] = []
        self._lock = threading.Lock()
        self._limit = anyio.CapacityLimiter(_CONNECTIONS)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        await anyio.to_thread.run_sync(self._run, self._migrate)
        try:
            yield self
        finally:
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    async def write(self, unit: Callable[[Unit], T]) -> T:
        """Runs a unit; returns its result after COMMIT. An exception rolls it back."""
        return await anyio.to_thread.run_sync(self._run, unit, limiter=self._limit)

    async def read(self, unit: Callable[[Unit], T]) -> T:
        """Runs a unit that only reads, in one snapshot."""

        def look(inner: Unit) -> T:
            inner.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return unit(inner)

        return await anyio.to_thread.run_sync(self._run, look, limiter=self._limit)

    def _run(self, unit: Callable[[Unit], T]) -> T:
        for attempt in range(_TRIES):
            connection = self._connection()
            try:
                with connection.transaction():
                    result = unit(PostgresUnit(connection))
            except _RETRYABLE as error:
                self._give_back(connection)
                if attempt == _TRIES - 1:
                    raise DownError("The database is too busy.") from error
            except psycopg.Error as error:
                connection.close()
                if attempt or not isinstance(error, psycopg.OperationalError):
                    raise DownError(f"The database does not answer: {_first(error)}.") from error
            except BaseException:
                self._give_back(connection)
                raise
            else:
                self._give_back(connection)
                return result
        raise DownError("The database is too busy.")

    def _connection(self) -> "psycopg.Connection[Any]":
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5)
            connection.execute("SET synchronous_commit = on")
            # A generic plan does not use the index of vectors: most owners have few rows.
            connection.execute("SET plan_cache_mode = force_custom_plan")
            connection.execute(f"SET statement_timeout = {round(STATEMENT_SECONDS * 1000)}")
        except psycopg.Error as error:
            raise DownError(f"The database does not answer: {_first(error)}.") from error
        return connection

    def _give_back(self, connection: "psycopg.Connection[Any]") -> None:
        if connection.closed:
            return
        with self._lock:
            self._idle.append(connection)

    def _migrate(self, unit: Unit) -> None:
        """Runs the missing steps of the schema, on one node at a time."""
        unit.execute(_UNLIMITED)
        unit.first_row("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        unit.execute("CREATE EXTENSION IF NOT EXISTS vector")
        unit.execute("CREATE TABLE IF NOT EXISTS relayer_schema (version BIGINT PRIMARY KEY)")
        row = unit.first_row("SELECT coalesce(max(version), 0) FROM relayer_schema")
        version = int(row[0]) if row else 0
        if version > len(self._steps):
            raise DownError(
                f"The database has schema {version}, this program knows up to {len(self._steps)}: "
                "a newer version made it. Install that version."
            )
        for number, step in enumerate(self._steps[version:], version + 1):
            for statement in filter(str.strip, step.split(";")):
                unit.execute(statement)
            unit.execute("INSERT INTO relayer_schema (version) VALUES (?)", (number,))


class NearestInPostgres:
    """Searches with pgvector: all rows of a small namespace, or an index of a large one."""

    def __init__(self, database: Database, *, exact_rows: int = EXACT_ROWS) -> None:
        self._database = database
        self._exact_rows = exact_rows

    async def index_space(self, space: str, dims: int) -> None:
        """Makes the index of a space, unless it exists."""
        name = f"memory_near_{dims}_{sum(space.encode())}"
        literal = space.replace("'", "''")

        def make(unit: Unit) -> None:
            unit.execute(_UNLIMITED)
            unit.first_row("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
            unit.execute(
                f"CREATE INDEX IF NOT EXISTS {name} ON memory"
                f" USING hnsw ((vector::vector({dims})) vector_cosine_ops) WITH ({GRAPH})"
                f" WHERE space = '{literal}'"
            )

        await self._database.write(make)

    async def find(self, scope: VectorScope, vector: Floats, limit: int) -> list[tuple[str, float]]:
        """Returns memory ids with their cosines, highest first."""
        bound, dims = self.bound(vector), int(vector.size)

        def look(unit: Unit) -> list[Row]:
            row = unit.first_row(
                "SELECT coalesce(max(memories), 0) FROM tally WHERE owner = ? AND namespace = ?",
                (scope.owner, scope.namespace),
            )
            if row is not None and row[0] > self._exact_rows:
                near = _by_index(unit, scope, bound, dims, limit)
                if len(near) == limit:
                    return near
            return _exact(unit, scope, bound, limit)  # also if the index returned too few rows

        rows = await self._database.read(look)
        return [(id_, _number(cosine)) for id_, cosine in rows]

    def bound(self, vector: Floats) -> str:
        """Returns the vector as text, which pgvector reads."""
        return "[" + ",".join(f"{number:.9g}" for number in vector.tolist()) + "]"

    def added(self, scope: VectorScope, memory_id: str, vector: Floats) -> None:
        """Does nothing: the database contains the row."""

    def removed(self, owner: str, namespace: str, ids: Iterable[str]) -> None:
        """Does nothing: the rows are deleted in the database."""


def _exact(unit: Unit, scope: VectorScope, bound: object, limit: int) -> list[Row]:
    """Compares all vectors of a namespace."""
    return unit.all(
        "WITH candidate AS MATERIALIZED (SELECT memory_id, vector FROM memory"
        " WHERE owner = ? AND namespace = ? AND space = ?)"
        " SELECT memory_id, 1 - (vector <=> ?::vector) FROM candidate"
        " ORDER BY vector <=> ?::vector, memory_id LIMIT ?",
        (scope.owner, scope.namespace, scope.space, bound, bound, limit),
    )


def _by_index(unit: Unit, scope: VectorScope, bound: object, dims: int, limit: int) -> list[Row]:
    """Searches the index, which continues until enough rows of the namespace are found."""
    unit.execute("SET LOCAL hnsw.iterative_scan = strict_order")
    unit.execute(f"SET LOCAL hnsw.ef_search = {max(EF_SEARCH, 2 * limit)}")
    literal = scope.space.replace("'", "''")
    return unit.all(
        f"SELECT memory_id, 1 - (vector::vector({dims}) <=> ?::vector) FROM memory"  # noqa: S608 - a number and our own name
        f" WHERE owner = ? AND namespace = ? AND space = '{literal}'"
        f" ORDER BY vector::vector({dims}) <=> ?::vector LIMIT ?",
        (bound, scope.owner, scope.namespace, bound, limit),
    )


def _number(cosine: float | None) -> float:
    """Returns a cosine; 0 if it is undefined because a vector is zero."""
    return 0.0 if cosine is None or cosine != cosine else float(cosine)  # noqa: PLR0124 - not a number


def _first(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
