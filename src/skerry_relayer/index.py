"""All SQL about memories: rows, counts, and blobs that must be deleted; for all engines."""

from dataclasses import dataclass, replace
from typing import Final

from skerry_relayer.database import Row, Unit
from skerry_relayer.ports import After

_COLUMNS: Final = (
    "memory_id, owner, account_id, namespace, blob_id, created_at, updated_at, size, importance,"
    " agent_id, package_id"
)
MAX_PARAMETERS: Final = 500
"""Maximum number of values in a list of a statement."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One row, without its vector. Times are milliseconds since 1970."""

    id: str
    owner: str
    account_id: str
    namespace: str
    blob_id: str
    created_at: int
    updated_at: int
    size: int
    importance: float
    agent_id: str | None = None
    package_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Size of one namespace."""

    namespace: str
    memories: int
    bytes: int
    updated_at: int


def add(unit: Unit, memory: Memory, tag: str | None, space: str, vector: object) -> bool:
    """Inserts a memory; returns False without a change if its text is stored already.

    `tag` is the keyed hash of the text; a memory without one is always inserted. `vector` is the
    value that the engine binds.
    """
    changed = unit.execute(
        "INSERT INTO memory (memory_id, owner, account_id, namespace, blob_id, tag, created_at,"
        " updated_at, size, importance, agent_id, package_id, space, vector)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (owner, namespace, tag) DO NOTHING",
        (
            memory.id,
            memory.owner,
            memory.account_id,
            memory.namespace,
            memory.blob_id,
            tag,
            memory.created_at,
            memory.updated_at,
            memory.size,
            memory.importance,
            memory.agent_id,
            memory.package_id,
            space,
            vector,
        ),
    )
    if changed:
        _count(unit, memory, 1)
    return bool(changed)


def _count(unit: Unit, memory: Memory, sign: int) -> None:
    unit.execute(
        "INSERT INTO tally (owner, namespace, memories, bytes, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (owner, namespace) DO UPDATE SET"
        " memories = tally.memories + excluded.memories, bytes = tally.bytes + excluded.bytes,"
        " updated_at = excluded.updated_at",
        (memory.owner, memory.namespace, sign, sign * memory.size, memory.updated_at),
    )


def by_tag(unit: Unit, owner: str, namespace: str, tag: str) -> Memory | None:
    """Returns the memory whose text has this tag."""
    row = unit.first_row(
        f"SELECT {_COLUMNS} FROM memory WHERE owner = ? AND namespace = ? AND tag = ?",  # noqa: S608 - constants
        (owner, namespace, tag),
    )
    return None if row is None else Memory(*row)


def by_ids(unit: Unit, owner: str, ids: list[str]) -> list[Memory]:
    """Returns the memories of an owner with these ids, in no order."""
    return _listed(unit, owner, "memory_id", ids)


def by_blobs(unit: Unit, owner: str, blob_ids: list[str]) -> list[Memory]:
    """Returns the memories of an owner with these blobs, in no order."""
    return _listed(unit, owner, "blob_id", blob_ids)


def _listed(unit: Unit, owner: str, column: str, values: list[str]) -> list[Memory]:
    rows: list[Row] = []
    for begin in range(0, len(values), MAX_PARAMETERS):
        some = values[begin : begin + MAX_PARAMETERS]
        marks = ", ".join("?" * len(some))
        rows += unit.all(
            f"SELECT {_COLUMNS} FROM memory WHERE owner = ? AND {column} IN ({marks})",  # noqa: S608 - constants
            (owner, *some),
        )
    return [Memory(*row) for row in rows]


def of_namespace(unit: Unit, owner: str, namespace: str) -> list[Memory]:
    """Returns all memories of a namespace."""
    rows = unit.all(
        f"SELECT {_COLUMNS} FROM memory WHERE owner = ? AND namespace = ?",  # noqa: S608 - constants
        (owner, namespace),
    )
    return [Memory(*row) for row in rows]


def with_blob(unit: Unit, blob_id: str) -> str | None:
    """Returns the owner of the memory with a blob; None without one."""
    row = unit.first_row("SELECT owner FROM memory WHERE blob_id = ? LIMIT 1", (blob_id,))
    return None if row is None else str(row[0])


def forget(unit: Unit, memories: list[Memory], now: int) -> None:
    """Deletes rows, and schedules the deletion of their blobs."""
    for memory in memories:
        changed = unit.execute(
            "DELETE FROM memory WHERE memory_id = ? AND owner = ?", (memory.id, memory.owner)
        )
        if changed:
            _count(unit, replace(memory, updated_at=now), -1)
            doom(unit, memory.owner, memory.blob_id)


def doom(unit: Unit, owner: str, blob_id: str) -> None:
    """Records that a blob must be deleted, also after a crash."""
    unit.execute(
        "INSERT INTO doomed (owner, blob_id) VALUES (?, ?) ON CONFLICT (owner, blob_id) DO NOTHING",
        (owner, blob_id),
    )


def doomed(unit: Unit, limit: int) -> list[tuple[str, str]]:
    """Returns owner and id of blobs that must be deleted."""
    rows = unit.all("SELECT owner, blob_id FROM doomed ORDER BY owner, blob_id LIMIT ?", (limit,))
    return [(str(owner), str(blob_id)) for owner, blob_id in rows]


def is_doomed(unit: Unit, owner: str, blob_id: str) -> bool:
    """Returns whether a blob must be deleted."""
    row = unit.first_row("SELECT 1 FROM doomed WHERE owner = ? AND blob_id = ?", (owner, blob_id))
    return row is not None


def deleted(unit: Unit, blobs: list[tuple[str, str]]) -> None:
    """Removes the records of blobs that were deleted."""
    for owner, blob_id in blobs:
        unit.execute("DELETE FROM doomed WHERE owner = ? AND blob_id = ?", (owner, blob_id))


def writing(unit: Unit, owner: str, blob_id: str, now: int) -> None:
    """Records a blob that a request will write; jobs record blobs in their rows."""
    unit.execute(
        "INSERT INTO writing (owner, blob_id, noted_at) VALUES (?, ?, ?)", (owner, blob_id, now)
    )


def remove_note(unit: Unit, owner: str, blob_id: str) -> bool:
    """Removes the record of `writing` in the unit that inserts the row; False if there is none."""
    changed = unit.execute("DELETE FROM writing WHERE owner = ? AND blob_id = ?", (owner, blob_id))
    return bool(changed)


def doom_unwritten(unit: Unit, before: int) -> None:
    """Schedules the deletion of blobs that were recorded before a time and have no row."""
    rows = unit.all("SELECT owner, blob_id FROM writing WHERE noted_at < ?", (before,))
    for owner, blob_id in rows:
        doom(unit, owner, blob_id)
    unit.execute("DELETE FROM writing WHERE noted_at < ?", (before,))


def being_written(unit: Unit, owner: str) -> set[str]:
    """Returns the blobs of an owner that may have a file, but have no row yet."""
    noted = unit.all("SELECT blob_id FROM writing WHERE owner = ?", (owner,))
    jobs = unit.all(
        "SELECT blob_id FROM job WHERE owner = ? AND blob_id IS NOT NULL"
        " AND status IN ('pending', 'running', 'uploaded')",
        (owner,),
    )
    return {row[0] for row in noted} | {row[0] for row in jobs}


def used_bytes(unit: Unit, owner: str) -> int:
    """Returns the number of bytes of an owner's blobs."""
    row = unit.first_row("SELECT coalesce(sum(bytes), 0) FROM tally WHERE owner = ?", (owner,))
    return int(row[0]) if row else 0


def tally(unit: Unit, owner: str, namespace: str) -> Tally:
    """Returns the size of a namespace."""
    row = unit.first_row(
        "SELECT namespace, memories, bytes, updated_at FROM tally"
        " WHERE owner = ? AND namespace = ?",
        (owner, namespace),
    )
    return Tally(namespace, 0, 0, 0) if row is None else Tally(*row)


def tallies(
    unit: Unit, owner: str, names: frozenset[str] | None, after: After | None, limit: int
) -> list[Tally]:
    """Returns the namespaces with memories after `after`, ordered by (`updated_at`, name).

    Only namespaces in `names` are returned; None means all.
    """
    condition, bound = _within(names, after, "namespace")
    rows = unit.all(
        "SELECT namespace, memories, bytes, updated_at FROM tally"  # noqa: S608 - constants
        f" WHERE owner = ? AND memories > 0{condition} ORDER BY updated_at, namespace LIMIT ?",
        (owner, *bound, limit),
    )
    return [Tally(*row) for row in rows]


def listed(
    unit: Unit, owner: str, names: frozenset[str] | None, after: After | None, limit: int
) -> list[Memory]:
    """Returns memories after `after`, ordered by (`updated_at`, id).

    Only memories of the namespaces in `names` are returned; None means all.
    """
    condition, bound = _within(names, after, "memory_id")
    rows = unit.all(
        f"SELECT {_COLUMNS} FROM memory"  # noqa: S608 - constants
        f" WHERE owner = ?{condition} ORDER BY updated_at, memory_id LIMIT ?",
        (owner, *bound, limit),
    )
    return [Memory(*row) for row in rows]


def _within(
    names: frozenset[str] | None, after: After | None, column: str
) -> tuple[str, tuple[object, ...]]:
    condition, bound = "", tuple[object, ...]()
    if names is not None:
        condition, bound = f" AND namespace IN ({', '.join('?' * len(names))})", tuple(names)
    if after is not None:
        at = round(after.updated_at.timestamp() * 1000)
        condition += f" AND (updated_at > ? OR (updated_at = ? AND {column} > ?))"
        bound += (at, at, after.key)
    return condition, bound
