"""Compares a vector exactly with all vectors of a namespace, in memory."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from skerry_recall.numbers import Floats, np
from skerry_relayer.database import Database, Unit

MAX_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of vectors in memory, in bytes; the least recently searched namespace is dropped."""
_FIRST_ROWS: Final = 64
_CHUNK: Final = 500
"""Number of vectors in one read."""
_GROWTH: Final = 1.25


@dataclass(frozen=True, slots=True)
class VectorScope:
    """Set of vectors that can be compared."""

    owner: str
    namespace: str
    space: str
    """Model and calibration of the vectors."""


class Nearest(Protocol):
    """Finds the memories of a namespace whose vectors are nearest to a vector."""

    async def find(self, scope: VectorScope, vector: Floats, limit: int) -> list[tuple[str, float]]:
        """Returns memory ids with their cosines, highest first."""
        ...

    def bound(self, vector: Floats) -> object:
        """Returns the vector as a value for the SQL statements of the engine."""
        ...

    def added(self, scope: VectorScope, memory_id: str, vector: Floats) -> None:
        """Records a memory whose row is durable."""
        ...

    def removed(self, owner: str, namespace: str, ids: Iterable[str]) -> None:
        """Records memories whose rows were deleted."""
        ...


class _Matrix:
    """Vectors of one namespace."""

    def __init__(self, ids: list[str], rows: Floats) -> None:
        self.ids = ids
        self.rows = rows
        """Vectors, with free rows at the end."""
        self._ids = set(ids)

    def add(self, memory_id: str, vector: Floats) -> None:
        if memory_id in self._ids:  # the rows were read after its COMMIT
            return
        count = len(self.ids)
        if count == len(self.rows):
            larger = np.empty((max(_FIRST_ROWS, int(count * _GROWTH)), vector.size), np.float32)
            if count:
                larger[:count] = self.rows
            self.rows = larger
        self.rows[count] = vector
        self.ids.append(memory_id)
        self._ids.add(memory_id)

    def remove(self, removed: set[str]) -> None:
        keep = [index for index, memory_id in enumerate(self.ids) if memory_id not in removed]
        self.rows = self.rows[keep]
        self.ids = [self.ids[index] for index in keep]
        self._ids -= removed

    def find(self, vector: Floats, limit: int) -> list[tuple[str, float]]:
        count = len(self.ids)
        cosines = np.vecdot(self.rows[:count], vector)  # `@` wakes the threads of BLAS
        size = min(limit, count)
        nearest = np.argpartition(-cosines, size - 1)[:size] if size < count else np.arange(count)
        ordered = sorted(nearest.tolist(), key=lambda index: (-cosines[index], self.ids[index]))
        return [(self.ids[index], float(cosines[index])) for index in ordered]


class NearestInMemory:
    """Reads the vectors of a namespace from the database once, then follows its changes.

    Only one process may change the database.
    """

    def __init__(self, database: Database, max_bytes: int = MAX_BYTES) -> None:
        self._database = database
        self._most_bytes = max_bytes
        self._matrices: OrderedDict[VectorScope, _Matrix] = OrderedDict()
        self._changes = 0
        """Counts changes: a read from the database during a change is repeated."""

    async def find(self, scope: VectorScope, vector: Floats, limit: int) -> list[tuple[str, float]]:
        """Returns memory ids with their cosines, highest first."""
        while scope not in self._matrices:
            changes = self._changes
            matrix = await self._database.read(lambda unit: _read(unit, scope))
            if changes == self._changes:
                self._matrices[scope] = matrix
                self._drop_oldest(scope)
        self._matrices.move_to_end(scope)
        matrix = self._matrices[scope]
        return matrix.find(vector, limit) if matrix.ids else []

    def bound(self, vector: Floats) -> object:
        """Returns the vector as bytes."""
        return vector.tobytes()

    def added(self, scope: VectorScope, memory_id: str, vector: Floats) -> None:
        """Adds a row."""
        self._changes += 1
        if (matrix := self._matrices.get(scope)) is not None:
            matrix.add(memory_id, vector)

    def removed(self, owner: str, namespace: str, ids: Iterable[str]) -> None:
        """Removes rows."""
        self._changes += 1
        removed = set(ids)
        for scope, matrix in self._matrices.items():
            if (scope.owner, scope.namespace) == (owner, namespace):
                matrix.remove(removed)

    def _drop_oldest(self, newest: VectorScope) -> None:
        size = sum(matrix.rows.nbytes for matrix in self._matrices.values())
        for key in list(self._matrices):
            if size <= self._most_bytes or key == newest:
                return
            size -= self._matrices.pop(key).rows.nbytes


def _read(unit: Unit, scope: VectorScope) -> _Matrix:
    ids = [
        row[0]
        for row in unit.all(
            "SELECT memory_id FROM memory WHERE owner = ? AND namespace = ? AND space = ?",
            (scope.owner, scope.namespace, scope.space),
        )
    ]
    matrix = np.empty((0, 0), np.float32)
    for begin in range(
        0, len(ids), _CHUNK
    ):  # one read of all rows would take three times the memory
        some = ids[begin : begin + _CHUNK]
        vectors = np.frombuffer(b"".join(_vectors(unit, some)), np.float32).reshape(len(some), -1)
        if begin == 0:
            matrix = np.empty((len(ids), vectors.shape[1]), np.float32)
        matrix[begin : begin + len(some)] = vectors
    return _Matrix(ids, matrix)


def _vectors(unit: Unit, ids: Sequence[str]) -> list[bytes]:
    """Returns the vectors of memories, in their order."""
    marks = ", ".join("?" * len(ids))
    rows = unit.all(f"SELECT memory_id, vector FROM memory WHERE memory_id IN ({marks})", ids)  # noqa: S608 - question marks
    vectors: dict[str, bytes] = dict(rows)
    return [vectors[memory_id] for memory_id in ids]
