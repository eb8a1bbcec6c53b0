"""Backups of the database: created while it is in use, listed, inspected and rotated."""

import shutil
import sqlite3
from contextlib import closing, suppress
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
STALE_MS: Final = 600_000
"""Time without a write after which an unfinished copy belongs to a process that was killed."""
_STAMP: Final = "%Y%m%dT%H%M%S"


class BackupError(StateError):
    """A backup cannot be created, found or used."""

    code = "state.backup"
    remedy = "`skerry backup list` shows the backups; `skerry doctor` checks the disk."


class BackupKind(StrEnum):
    """Reason for a backup, which decides its retention."""

    MANUAL = "manual"
    """Created by command; kept until the file is deleted by hand."""
    DAILY = "daily"
    MIGRATION = "migration"
    """Created before a newer version changed the tables."""
    REPLACED = "replaced"
    """Database replaced by a restore, in a separate folder; kept until that is deleted by hand."""


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup file."""

    path: Path
    kind: BackupKind
    made_at: int
    """Time in milliseconds since 1970."""
    size: int

    @property
    def name(self) -> str:
        """Returns the name of the backup as lists show it."""
        return (self.path.parent if self.kind is BackupKind.REPLACED else self.path).name


@dataclass(frozen=True, slots=True)
class Contents:
    """Counts of the content of a backup."""

    sessions: int
    entries: int
    newest: int
    """Time of the last message, in milliseconds since 1970; 0 without one."""


def create(
    state_dir: Path,
    kind: BackupKind,
    now: int,
    progress: sqlite.Progress = lambda _completed, _total: None,
) -> Backup:
    """Copies the database in its present state, and checks the copy. Blocks.

    A gateway may run and write meanwhile.

    Raises:
        BackupError: the disk has too little room, or the database is missing or damaged; the
            incomplete copy is removed.
    """
    source, folder = state_dir / DATABASE, state_dir / FOLDER
    if not source.exists():
        raise BackupError(f"There is no {source} yet.")
    folder.mkdir(mode=0o700, exist_ok=True)
    remove_stale(state_dir, now)
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
    try:
        problems = sqlite.problems(target, whole=False)
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise BackupError(f"The copy {target} could not be checked: {error}.") from error
    if problems:
        target.unlink()
        raise BackupError(f"{source} is damaged: {problems[0]}.")
    return Backup(target, kind, now, target.stat().st_size)


def unfinished(state_dir: Path) -> list[Path]:
    """Returns the copies that are being made, and those whose process was killed."""
    patterns = (f"{FOLDER}/state-*.sqlite.new", f"{DATABASE}.*.new")
    return sorted(path for pattern in patterns for path in state_dir.glob(pattern))


def remove_stale(state_dir: Path, now: int) -> None:
    """Deletes the unfinished copies of processes that were killed."""
    for path in unfinished(state_dir):
        with suppress(FileNotFoundError):
            if abs(now - path.stat().st_mtime_ns // 1_000_000) > STALE_MS:
                path.unlink()


def every(state_dir: Path) -> list[Backup]:
    """Returns the backups, the newest first."""
    backups = [_read(path) for path in (state_dir / FOLDER).glob("state-*.sqlite")]
    for path in state_dir.glob(f"{DATABASE}.v*.bak"):
        status = path.stat()
        backups.append(
            Backup(path, BackupKind.MIGRATION, round(status.st_mtime * 1000), status.st_size)
        )
    readable = [backup for backup in backups if backup is not None]
    return sorted(readable, key=lambda backup: (backup.made_at, backup.name), reverse=True)


def replaced(state_dir: Path) -> list[Backup]:
    """Returns the databases that restores replaced, the latest first."""
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
    """Returns the backup or replaced database with the name; `latest` is the newest backup.

    Raises:
        BackupError: no backup has the name.
    """
    backups = every(state_dir)
    if backups and name == "latest":
        return backups[0]
    backups += replaced(state_dir)
    for backup in backups:
        if name == backup.name:
            return backup
    raise BackupError(f"No backup is named {name!r}." if backups else "There is no backup yet.")


def rotate(state_dir: Path) -> list[Backup]:
    """Deletes the daily backups except the newest `KEPT_DAILY`; returns the deleted ones."""
    daily = [backup for backup in every(state_dir) if backup.kind is BackupKind.DAILY]
    for backup in daily[KEPT_DAILY:]:
        backup.path.unlink(missing_ok=True)
    return daily[KEPT_DAILY:]


def contents(path: Path) -> Contents:
    """Counts the sessions and entries of a backup.

    Raises:
        BackupError: the file cannot be read.
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
    if free < 2 * needed:  # messages that arrive meanwhile need room too
        required, available = (f"{size / (1 << 20):.1f} MiB" for size in (2 * needed, free))
        raise BackupError(f"A backup needs {required} free at {folder}; {available} are free.")


def _read(path: Path) -> Backup | None:
    """Returns the backup, with its kind and time from the file name; None for any other file."""
    stamp, _, kind = path.name.removeprefix("state-").removesuffix(".sqlite").partition(".")
    try:
        created = datetime.strptime(stamp[:15], _STAMP).replace(tzinfo=UTC)
        made_at = round(created.timestamp() * 1000)
        return Backup(path, BackupKind(kind), made_at, path.stat().st_size)
    except (ValueError, FileNotFoundError):
        return None
