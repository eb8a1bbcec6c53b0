"""Replaces the database with a backup, plus the readable rows of a damaged database.

Nothing is deleted: the replaced files are moved to a folder next to the backups, with the
transcript files of conversations that have gaps. The caller holds the lock of the state directory.
"""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skerry.infra import sqlite
from skerry.store import restore_guard, rollback_check, salvage
from skerry.store.backups import ASIDE, FOLDER, Backup, BackupError, Contents, contents
from skerry.store.salvage import Gap, SalvagedTable
from skerry.store.schema_migrations import migrate
from skerry.store.store import DATABASE

_ENDINGS: Final = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore, with the losses."""

    backup: Backup | None
    """None if there was no backup and all rows are from the damaged file."""
    damage: tuple[str, ...]
    """Damage of the replaced database; empty if it was sound."""
    tables: tuple[SalvagedTable, ...]
    """Tables salvaged from the damaged database; empty if that was not requested."""
    gaps: tuple[Gap, ...]
    before: Contents | None
    """Content of the replaced database; None if it is unreadable."""
    after: Contents
    devices: restore_guard.KeptDevices
    """Devices that may connect."""
    aside: Path | None
    """Folder with the replaced files; None if there were none."""


def damage(state_dir: Path) -> tuple[str, ...]:
    """Returns the damage of the database; a missing one has none."""
    path = state_dir / DATABASE
    if not path.exists():
        return ()
    try:
        return tuple(sqlite.problems(path, whole=True))
    except sqlite3.Error as error:
        return (str(error),)


def loses(state_dir: Path, backup: Backup) -> bool:
    """Returns whether the database is usable and has messages that are newer than the backup."""
    path = state_dir / DATABASE
    try:
        if not path.exists() or sqlite.problems(path, whole=False):
            return False
        now, then = contents(path), contents(backup.path)
    except (sqlite3.Error, BackupError):
        return False
    return now.newest > then.newest or now.entries > then.entries


def restore(
    state_dir: Path,
    backup: Backup | None,
    now: int,
    *,
    read_damaged: bool = True,
    progress: sqlite.Progress = lambda _completed, _total: None,
) -> Restored:
    """Restores the backup. Blocks.

    A sound database is replaced completely, because its newer state is not wanted. The readable
    rows of a damaged one are copied first, unless `read_damaged` is false. Devices are never taken
    from the backup, so that a later revocation or rotation stays valid.

    Raises:
        BackupError: the backup is damaged or not of this program; there is no backup and the
            database is sound or unreadable; or the disk is full.
    """
    path, problems = state_dir / DATABASE, damage(state_dir)
    if backup is None and not problems:
        raise BackupError("There is no backup, and the database is not damaged.")
    restored_path = path.with_name(f"{DATABASE}.restored")
    try:
        _start_from(backup, restored_path)
        tables: list[SalvagedTable] = []
        if problems and read_damaged:
            tables = salvage.salvage(path, restored_path, progress)
        complete = {table.name for table in tables if table.is_complete}
        _close_open_work(restored_path, complete)
        devices = restore_guard.keep(path, restored_path)
        if faults := sqlite.problems(restored_path, whole=True):
            raise BackupError(f"The restored database is damaged: {faults[0]}.")
        missing = salvage.gaps(restored_path)
        before, after = _contents(path), contents(restored_path)
        aside = _set_aside(state_dir, missing, now) if path.exists() else None
        restored_path.replace(path)
        rollback_check.forget(state_dir)  # the older state is intended
    except (OSError, sqlite3.Error) as error:
        raise BackupError(f"Nothing was restored: {error}.") from error
    finally:
        for ending in (*_ENDINGS, "-journal"):
            restored_path.with_name(f"{restored_path.name}{ending}").unlink(missing_ok=True)
    return Restored(backup, problems, tuple(tables), tuple(missing), before, after, devices, aside)


def _contents(path: Path) -> Contents | None:
    try:
        return contents(path) if path.exists() else None
    except BackupError:
        return None


def _start_from(backup: Backup | None, restored_path: Path) -> None:
    """Creates a database of the newest schema: a copy of the backup, or an empty one."""
    restored_path.unlink(missing_ok=True)
    restored_path.touch(mode=0o600)
    if backup is not None:
        if foreign := restore_guard.foreign(backup.path):
            error = BackupError(f"{backup.name} was not created by this program: it has {foreign}.")
            error.remedy = "Restore another backup: skerry backup list"
            raise error
        if faults := sqlite.problems(backup.path, whole=True):
            raise BackupError(f"{backup.name} is damaged: {faults[0]}.")
        with closing(sqlite.connect(backup.path, read_only=True)) as connection:
            sqlite.copy(connection, restored_path)
    with closing(sqlite3.connect(restored_path, isolation_level=None)) as connection:
        migrate(connection, restored_path, keep=False)


def _close_open_work(restored_path: Path, current: set[str]) -> None:
    """Closes work that was open in the backup and may be done by now, so that it is not repeated.

    The next start closes open runs instead of running them again, and asks the adapter about parts
    that may have been delivered. Encryption counters are deleted, because they are behind the used
    ones.
    """
    with closing(sqlite3.connect(restored_path, isolation_level=None)) as connection:
        if "run" not in current:
            connection.execute(
                "UPDATE run SET left_trace = 1, restarts = 1000 WHERE result IS NULL"
            )
        if "outbox" not in current:
            connection.execute("UPDATE outbox SET state = 'sending' WHERE state = 'pending'")
        if "channel_secret" not in current:  # a message key must not be used twice
            connection.execute("DELETE FROM channel_secret WHERE kind = 'number'")


def _set_aside(state_dir: Path, missing: list[Gap], now: int) -> Path:
    """Moves the database to a new folder, and copies the transcript files of sessions with gaps."""
    stamp = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    folder = state_dir / FOLDER / f"{ASIDE}{stamp}"
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{ASIDE}{stamp}-{number}")
    folder.mkdir(mode=0o700, parents=True)
    for gap in missing:
        for file in state_dir.glob(f"agents/*/sessions/{gap.session_id}.jsonl*"):
            shutil.copy2(file, folder / file.name)
    # The write-ahead log is moved first: SQLite would apply it to another database at this path.
    for ending in reversed(_ENDINGS):
        file = state_dir / f"{DATABASE}{ending}"
        if file.exists():
            file.rename(folder / file.name)
    return folder
