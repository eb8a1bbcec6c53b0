"""Puts a backup in the place of the database, with what can still be read of a damaged one.

Nothing is deleted: the files that were there are moved to a folder beside the backups, with the
transcript files of conversations that have gaps. Who calls holds the lock of the state directory.
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
    """None where there was none and all comes from the damaged file."""
    damage: tuple[str, ...]
    """Damage of the replaced database; empty if it was sound."""
    tables: tuple[SalvagedTable, ...]
    """Tables salvaged from it; empty if that was not requested."""
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
    """Returns whether the database can be used and has what came after the backup."""
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
    """Restores the backup; blocks.

    A database that is sound is replaced as it is: who restores then wants to go back. Of a damaged
    one everything that can be read is taken over first, unless `read_damaged` is false. Devices are
    never those of the backup: what was revoked or rotated since stays so.

    Raises:
        BackupError: the backup is damaged, or no database of this program; there is none and
            nothing can be read; or there is no room.
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
            raise BackupError(f"What was restored is damaged itself: {faults[0]}.")
        missing = salvage.gaps(restored_path)
        before, after = _contents(path), contents(restored_path)
        aside = _set_aside(state_dir, missing, now) if path.exists() else None
        restored_path.replace(path)
        rollback_check.forget(state_dir)  # it goes back because somebody wants it so
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
    """Makes a database of the newest version: the backup's, or one without rows."""
    restored_path.unlink(missing_ok=True)
    restored_path.touch(mode=0o600)
    if backup is not None:
        if foreign := restore_guard.foreign(backup.path):
            error = BackupError(f"{backup.name} was not made by this program: it has {foreign}.")
            error.remedy = "Restore another one: skerry backup list"
            raise error
        if faults := sqlite.problems(backup.path, whole=True):
            raise BackupError(f"{backup.name} is damaged: {faults[0]}.")
        with closing(sqlite.connect(backup.path, read_only=True)) as connection:
            sqlite.copy(connection, restored_path)
    with closing(sqlite3.connect(restored_path, isolation_level=None)) as connection:
        migrate(connection, restored_path, keep=False)


def _close_open_work(restored_path: Path, current: set[str]) -> None:
    """Lets nothing happen twice that was still to do when the backup was made, and may be done.

    Open runs are closed at the start, not run again; of parts to deliver the adapter is asked; keys
    of encryption are behind those that were used.
    """
    with closing(sqlite3.connect(restored_path, isolation_level=None)) as connection:
        if "run" not in current:
            connection.execute(
                "UPDATE run SET left_trace = 1, restarts = 1000 WHERE result IS NULL"
            )
        if "outbox" not in current:
            connection.execute("UPDATE outbox SET state = 'sending' WHERE state = 'pending'")
        if "channel_secret" not in current:  # an old key of a message must not be used again
            connection.execute("DELETE FROM channel_secret WHERE kind = 'number'")


def _set_aside(state_dir: Path, missing: list[Gap], now: int) -> Path:
    """Moves the database away, and copies the transcript files that have what it lacks."""
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
    # The log of changes goes first: beside another database it would be written into that.
    for ending in reversed(_ENDINGS):
        file = state_dir / f"{DATABASE}{ending}"
        if file.exists():
            file.rename(folder / file.name)
    return folder
