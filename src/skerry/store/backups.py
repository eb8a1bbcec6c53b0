"""Copies of the database: made while it is used, listed, looked into, and let go when old."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from skerry.infra import sqlite
from skerry.model.errors import StateError
from skerry.store.store import DATABASE

FOLDER: Final = "backups"
"""Folder in the state directory."""
ASIDE: Final = "replaced-"
"""Prefix of the folders for replaced files, followed by a time."""
KEPT_DAILY: Final = 7
_STAMP: Final = "%Y%m%dT%H%M%S"


class BackupError(StateError):
    """A backup cannot be made, found or used."""

    code = "state.backup"
    remedy = "`skerry backup list` shows what there is; `skerry doctor` looks at the disk."


class BackupKind(StrEnum):
    """Reason for a backup; its retention follows from it."""

    MANUAL = "manual"
    """Made by command; kept until somebody deletes the file."""
    DAILY = "daily"
    MIGRATION = "migration"
    """Made before a newer version changed the tables."""
    REPLACED = "replaced"
    """Database replaced by a restore, in a folder of its own; kept until somebody deletes that."""


@dataclass(frozen=True, slots=True)
class Backup:
    """One file."""

    path: Path
    kind: BackupKind
    made_at: int
    """Time in milliseconds since 1970."""
    size: int

    @property
    def name(self) -> str:
        """Returns the name of the backup for people."""
        return (self.path.parent if self.kind is BackupKind.REPLACED else self.path).name


@dataclass(frozen=True, slots=True)
class Contents:
    """Size of a backup's content."""

    sessions: int
    entries: int
    newest: int
    """Time of the last message, in milliseconds since 1970; 0 if there is none."""


def create(
    state_dir: Path,
    kind: BackupKind,
    now: int,
    progress: sqlite.Progress = lambda _completed, _total: None,
) -> Backup:
    """Copies the database as it is now, and looks whether the copy is sound. Blocks.

    A gateway may run and write meanwhile.

    Raises:
        BackupError: there is no room, or nothing sound to copy; no file is left.
    """
    source, folder = state_dir / DATABASE, state_dir / FOLDER
    if not source.exists():
        raise BackupError(f"There is no {source} yet.")
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_room(source, folder)
    stamp = datetime.fromtimestamp(now / 1000, UTC).strftime(_STAMP)
    target = folder / f"state-{stamp}.{kind}.sqlite"
    if target.exists():
        target = folder / f"state-{stamp}-{now % 1000:03}.{kind}.sqlite"
    try:
        with closing(sqlite.connect(source, read_only=True)) as connection:
            sqlite.copy(connection, target, progress)
    except (OSError, sqlite3.Error) as error:
        target.with_name(f"{target.name}.new").unlink(missing_ok=True)
        raise BackupError(f"{source} could not be copied: {error}.") from error
    if problems := sqlite.problems(target, whole=False):
        target.unlink()
        raise BackupError(f"{source} is damaged: {problems[0]}.")
    return Backup(target, kind, now, target.stat().st_size)


def every(state_dir: Path) -> list[Backup]:
    """Returns list the backups, the newest first."""
    backups = [_read(path) for path in (state_dir / FOLDER).glob("state-*.sqlite")]
    for path in state_dir.glob(f"{DATABASE}.v*.bak"):
        about = path.stat()
        backups.append(
            Backup(path, BackupKind.MIGRATION, round(about.st_mtime * 1000), about.st_size)
        )
    readable = [backup for backup in backups if backup is not None]
    return sorted(readable, key=lambda backup: (backup.made_at, backup.name), reverse=True)


def replaced(state_dir: Path) -> list[Backup]:
    """Returns the databases that restores put aside, the latest first."""
    replaced_files = []
    for folder in (state_dir / FOLDER).glob(f"{ASIDE}*"):
        path = folder / DATABASE
        try:
            stamp = folder.name.removeprefix(ASIDE)[:15]
            created = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
            at = round(created.timestamp() * 1000)
            replaced_files.append(Backup(path, BackupKind.REPLACED, at, path.stat().st_size))
        except (ValueError, FileNotFoundError):
            continue
    return sorted(replaced_files, key=lambda backup: (backup.made_at, backup.name), reverse=True)


def find(state_dir: Path, name: str) -> Backup:
    """Returns the backup of that name, or what a restore put aside; `latest` is the newest backup.

    Raises:
        BackupError: there is none.
    """
    backups = every(state_dir)
    if backups and name == "latest":
        return backups[0]
    backups += replaced(state_dir)
    for backup in backups:
        if name == backup.name:
            return backup
    raise BackupError(f"There is no backup {name!r}." if backups else "There is no backup yet.")


def rotate(state_dir: Path) -> list[Backup]:
    """Deletes the daily backups but the newest few; returns those that went."""
    daily = [backup for backup in every(state_dir) if backup.kind is BackupKind.DAILY]
    for backup in daily[KEPT_DAILY:]:
        backup.path.unlink(missing_ok=True)
    return daily[KEPT_DAILY:]


def contents(path: Path) -> Contents:
    """Counts the sessions and entries of the backup.

    Raises:
        BackupError: it cannot be read.
    """
    try:
        with closing(sqlite.connect(path, read_only=True)) as connection:
            (sessions,) = connection.execute("SELECT count(*) FROM session").fetchone()
            (entries,) = connection.execute("SELECT count(*) FROM entry").fetchone()
            (newest,) = connection.execute("SELECT max(updated_at) FROM session").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"{path} cannot be read: {error}.") from error
    return Contents(sessions, entries, newest or 0)


def _check_room(source: Path, folder: Path) -> None:
    wal = source.with_name(f"{source.name}-wal")
    needed = source.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    free = shutil.disk_usage(folder).free
    if free < 2 * needed:  # what is said meanwhile needs room too
        takes, has = (f"{size / (1 << 20):.1f} MiB" for size in (2 * needed, free))
        message = f"A backup wants {takes} free at {folder}, and {has} are."
        raise BackupError(message)


def _read(path: Path) -> Backup | None:
    """Returns the backup that the file is, from its name; None for a file of somebody else."""
    stamp, _, kind = path.name.removeprefix("state-").removesuffix(".sqlite").partition(".")
    try:
        created = datetime.strptime(stamp[:15], _STAMP).replace(tzinfo=UTC)
        made_at = round(created.timestamp() * 1000)
        return Backup(path, BackupKind(kind), made_at, path.stat().st_size)
    except (ValueError, FileNotFoundError):
        return None
