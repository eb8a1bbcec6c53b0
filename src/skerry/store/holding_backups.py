"""Backups that still contain erased text, and when they are deleted."""

import sqlite3
from pathlib import Path
from shlex import quote

from skerry.infra.clock import DAY_MS
from skerry.model.redaction import Redaction
from skerry.model.redaction_report import HoldingBackup
from skerry.store.backups import KEPT_DAILY, Backup, BackupKind, every, replaced, unfinished
from skerry.store.forgetting import holds


def holding(state_dir: Path, redaction: Redaction) -> list[HoldingBackup]:
    """Returns the backups that have the phrases or cannot be read, the newest first. Blocks.

    Backups are never changed, so that they remain the state of their time. Each is read completely,
    about a second for 100 MB.
    """
    backups = every(state_dir)
    daily = [backup for backup in backups if backup.kind is BackupKind.DAILY]
    holders = []
    for backup in (*backups, *replaced(state_dir)):
        try:
            if not holds(backup.path, redaction):
                continue
            doubt = ""
        except sqlite3.Error as error:
            doubt = f"The file cannot be read: {error}. "
        until = None
        if backup in daily:
            remaining_days = KEPT_DAILY - daily.index(backup)
            until = daily[0].made_at + remaining_days * DAY_MS
        remedy = doubt + _remedy(backup)
        holders.append(HoldingBackup(backup.name, str(backup.path), backup.made_at, until, remedy))
    for path in unfinished(state_dir):
        if not path.exists():
            continue  # its backup has ended meanwhile
        made_at = path.stat().st_mtime_ns // 1_000_000
        remedy = (
            f"It is an unfinished copy, which the next backup deletes. Or: rm {quote(str(path))}"
        )
        holders.append(HoldingBackup(path.name, str(path), made_at, None, remedy))
    return holders


def _remedy(backup: Backup) -> str:
    match backup.kind:
        case BackupKind.DAILY:
            end = f"It is deleted when {KEPT_DAILY} newer daily backups exist. To delete it now:"
            return f"{end} rm {quote(str(backup.path))}"
        case BackupKind.MIGRATION:
            end = "It is deleted when three newer backups of its kind exist. To delete it now:"
            return f"{end} rm {quote(str(backup.path))}"
        case BackupKind.MANUAL:
            return f"It is kept until you delete it: rm {quote(str(backup.path))}"
        case BackupKind.REPLACED:
            return f"It is kept until you delete it: rm -r {quote(str(backup.path.parent))}"
