"""Progress of the database, noted in a file beside it, so that a start detects when it went back.

An older `state.sqlite` that is copied back, a log that is deleted or that no longer reads: SQLite
opens each without a word, and what was answered last is gone. The database counts a number up each
time the mirror notes how far it is; the file has the same number, written after the COMMIT.
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
"""File in the folder of recovered messages with the difference, until a person has read it."""


class DatabaseProgress(Struct, frozen=True, rename="camel"):
    """Progress of a database."""

    generation: str
    """Id of the database; a new one has another."""
    number: int
    """Number of notes so far."""
    runs: int = 0
    """Runs of which it has a row."""
    entries: int = 0
    """Entries of the transcripts of all sessions."""


class RolledBack(Struct, frozen=True, rename="camel"):
    """A database that is older than what was noted of it."""

    had: DatabaseProgress
    has: DatabaseProgress

    @property
    def message(self) -> str:
        """Returns the difference as a sentence."""
        had, has = self.had, self.has
        change = "is another" if had.generation != has.generation else "went back"
        return (
            f"The database {change}: {had.entries} entries and {had.runs} runs were there, and"
            f" {has.entries} and {has.runs} are. Its log was lost, or an older file was copied in"
            " its place."
        )


def read(reader: Reader) -> DatabaseProgress:
    """Returns how far the database is."""
    row = reader.one(
        "SELECT generation, number,"
        " (SELECT count(*) FROM run),"
        " (SELECT coalesce(sum(tail), 0) FROM session) FROM reached"
    )
    return DatabaseProgress(*row) if row else DatabaseProgress("", 0)


def advance(unit: Unit) -> DatabaseProgress:
    """Counts one more, and returns how far the database is with this unit."""
    unit.execute("UPDATE reached SET number = number + 1")
    return read(unit)


def write(state_dir: Path, reached: DatabaseProgress) -> None:
    """Writes what a COMMIT has made true. Blocks: it waits for the disk."""
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
    """Notes it for a person to read. The first of several stays: it tells of the most."""
    if read_note(folder) is None:
        write_atomic(folder / NOTE, msgspec.json.encode(rollback))


def read_note(folder: Path) -> RolledBack | None:
    """Returns the difference that a start found, unless a person has discarded it since."""
    try:
        return msgspec.json.decode((folder / NOTE).read_bytes(), type=RolledBack)
    except (OSError, *UNREADABLE):
        return None


def forget(state_dir: Path) -> None:
    """Lets the present database be as far as it is: somebody wanted it so."""
    (state_dir / FILE).unlink(missing_ok=True)
