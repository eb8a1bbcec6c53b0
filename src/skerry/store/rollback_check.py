"""Progress of the database, stored in a separate file, so that a start detects a rollback.

SQLite opens an older copy of `state.sqlite`, or a database whose log was deleted or is unreadable,
without an error, and the latest messages are missing. The database has a counter that is increased
each time the mirror saves its marks; the file has the same number, written after the COMMIT.
"""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from skerry.infra.atomic import write_atomic
from skerry.infra.untrusted_json import UNREADABLE
from skerry.store.unit import Reader, Unit

FILE: Final = "state.reached.json"
"""File in the state directory. It is not part of a backup, and a restore removes it."""
NOTE: Final = "rolled-back.json"
"""File in the folder of recovered messages with the difference; kept until a person discards it."""


class DatabaseProgress(Struct, frozen=True, rename="camel"):
    """Progress of a database."""

    generation: str
    """Id of the database; each new database has another."""
    number: int
    """Value of the counter."""
    runs: int = 0
    """Number of its run rows."""
    entries: int = 0
    """Number of entries of all transcripts."""


class RolledBack(Struct, frozen=True, rename="camel"):
    """A database that is older than its noted progress."""

    had: DatabaseProgress
    has: DatabaseProgress

    @property
    def message(self) -> str:
        """Returns the difference as a sentence."""
        had, has = self.had, self.has
        change = "was replaced" if had.generation != has.generation else "was rolled back"
        return (
            f"The database {change}: it had {had.entries} entries and {had.runs} runs, now it has"
            f" {has.entries} and {has.runs}. Its log was lost, or an older file was copied over it."
        )


def read(reader: Reader) -> DatabaseProgress:
    """Returns the progress of the database."""
    row = reader.one(
        "SELECT generation, number,"
        " (SELECT count(*) FROM run),"
        " (SELECT coalesce(sum(tail), 0) FROM session) FROM reached"
    )
    return DatabaseProgress(*row) if row else DatabaseProgress("", 0)


def advance(unit: Unit) -> DatabaseProgress:
    """Increases the counter; returns the progress including this unit."""
    unit.execute("UPDATE reached SET number = number + 1")
    return read(unit)


def write(state_dir: Path, reached: DatabaseProgress) -> None:
    """Writes the progress after its COMMIT. Blocks: it waits for the disk."""
    write_atomic(state_dir / FILE, msgspec.json.encode(reached))


def noted(state_dir: Path) -> DatabaseProgress | None:
    """Returns the last note; None if there is none, or it is unreadable."""
    try:
        return msgspec.json.decode((state_dir / FILE).read_bytes(), type=DatabaseProgress)
    except (OSError, *UNREADABLE):
        return None


def compare(noted_before: DatabaseProgress | None, has: DatabaseProgress) -> RolledBack | None:
    """Returns the difference if the database is behind the note."""
    if noted_before is None:
        return None
    if noted_before.generation == has.generation and noted_before.number <= has.number:
        return None
    return RolledBack(noted_before, has)


def keep(folder: Path, rollback: RolledBack) -> None:
    """Stores the rollback for a person. An earlier note is kept: it has the largest difference."""
    if read_note(folder) is None:
        write_atomic(folder / NOTE, msgspec.json.encode(rollback))


def read_note(folder: Path) -> RolledBack | None:
    """Returns the stored rollback; None if there is none or a person discarded it."""
    try:
        return msgspec.json.decode((folder / NOTE).read_bytes(), type=RolledBack)
    except (OSError, *UNREADABLE):
        return None


def forget(state_dir: Path) -> None:
    """Deletes the noted progress, so that an intended rollback is not reported."""
    (state_dir / FILE).unlink(missing_ok=True)
