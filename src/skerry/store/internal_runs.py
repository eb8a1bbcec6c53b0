"""Runs that the gateway itself started, and whose result their owner has not processed yet."""

from msgspec import Struct

from skerry.model.ids import RunId
from skerry.store.unit import Reader, Unit


class OwedRun(Struct, frozen=True):
    """A run whose result its owner, a part of the gateway, has not processed yet."""

    run_id: RunId
    subject: bytes
    """Bytes that the owner stored with the run."""


def add(unit: Unit, run_id: RunId, owner: str, subject: bytes, now: int) -> None:
    """Stores a run for its owner; changes nothing if the run is already stored."""
    unit.execute(
        "INSERT INTO internal_run (run_id, owner, subject, created_at, settled_at)"
        " VALUES (?, ?, ?, ?, NULL) ON CONFLICT (run_id) DO NOTHING",
        (run_id, owner, subject, now),
    )


def owed(reader: Reader, owner: str) -> list[OwedRun]:
    """Returns the runs whose result the owner has not processed, oldest first."""
    rows = reader.all(
        "SELECT run_id, subject FROM internal_run WHERE owner = ? AND settled_at IS NULL"
        " ORDER BY created_at, run_id",
        (owner,),
    )
    return [OwedRun(RunId(run_id), bytes(subject)) for run_id, subject in rows]


def settle(unit: Unit, run_id: RunId, now: int) -> bool:
    """Marks the result as processed; returns False if it already was."""
    return bool(
        unit.execute(
            "UPDATE internal_run SET settled_at = ?, subject = ? WHERE run_id = ?"
            " AND settled_at IS NULL",
            (now, b"", run_id),
        )
    )


def prune(unit: Unit, before: int) -> None:
    """Deletes the rows that were settled before a time, in milliseconds since 1970."""
    unit.execute("DELETE FROM internal_run WHERE settled_at < ?", (before,))
