"""Backups that still contain erased text, and their end of life."""

import sqlite3
from pathlib import Path
from shlex import quote

from skerry.infra.clock import DAY_MS
from skerry.model.redaction import Redaction
from skerry.model.redaction_report import HoldingBackup
from skerry.store.backups import KEPT_DAILY, Backup, BackupKind, every, replaced
from skerry.store.forgetting import holds


def holding(state_dir: Path, redaction: Redaction) -> list[HoldingBackup]:
    """Returns the backups that have the phrases or cannot be read, the newest first. Blocks.

    A backup is never changed: it would not be the state of that time. It reads all of each, about
    a second for 100 MB.
    """
    there = every(state_dir)
    daily = [one for one in there if one.kind is BackupKind.DAILY]
    found = []
    for one in (*there, *replaced(state_dir)):
        try:
            if not holds(one.path, redaction):
                continue
            doubt = ""
        except sqlite3.Error as error:
            doubt = f"It cannot be read: {error}. "
        until = None
        if one in daily:
            more = KEPT_DAILY - daily.index(one)
            until = daily[0].made_at + more * DAY_MS
        remedy = doubt + _remedy(one)
        found.append(HoldingBackup(one.name, str(one.path), one.made_at, until, remedy))
    return found


def _remedy(one: Backup) -> str:
    match one.kind:
        case BackupKind.DAILY:
            kept = f"It is deleted once {KEPT_DAILY} newer daily ones exist; sooner:"
            return f"{kept} rm {quote(str(one.path))}"
        case BackupKind.MIGRATION:
            kept = "It is deleted once three newer ones of its kind exist; sooner:"
            return f"{kept} rm {quote(str(one.path))}"
        case BackupKind.MANUAL:
            return f"It is kept until you delete it: rm {quote(str(one.path))}"
        case BackupKind.REPLACED:
            return f"It is kept until you delete it: rm -r {quote(str(one.path.parent))}"
