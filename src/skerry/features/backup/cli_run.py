"""`skerry backup`: creates, lists, checks and restores backups of the database."""

import os
import sqlite3
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from skerry.cli.render import local_time, notice, one_line, show, show_json, table
from skerry.config.gateway import LOCK
from skerry.config.load import locate
from skerry.infra import sqlite
from skerry.infra.clock import SystemClock
from skerry.infra.lock import LockedError, locked
from skerry.model.errors import StateLockedError
from skerry.store import DATABASE, backups, restore
from skerry.store.backups import Backup, BackupKind, Contents
from skerry.store.forgetting import is_forgetting
from skerry.store.restore import Restored
from skerry.store.restore_guard import KeptDevices

_CURRENT = "current"
PATIENCE_SECONDS: Final = 20.0
"""Seconds for which a backup waits for an erasure in progress."""
_LOOK_SECONDS: Final = 0.5


def run(arguments: Namespace) -> int:
    """Runs `skerry backup ...`; returns the exit code."""
    state_dir, _ = locate(os.environ)
    match arguments.action:
        case "create":
            return _create(state_dir, arguments)
        case "list":
            return _list(state_dir, arguments)
        case "verify":
            return _verify(state_dir, arguments)
    return _restore(state_dir, arguments)


def _create(state_dir: Path, arguments: Namespace) -> int:
    backup = _without_words(state_dir, PATIENCE_SECONDS)
    if arguments.json:
        show_json(_row(backup))
    else:
        show(f"{backup.path} ({_size(backup.size)})")
    return 0


def _without_words(state_dir: Path, seconds: float) -> Backup:
    """Returns a backup made outside of an erasure, if that is possible in this time."""
    end = time.monotonic() + seconds
    while True:
        now = SystemClock().now_ms()
        backup = backups.create(state_dir, BackupKind.MANUAL, now, _progress("Copying"))
        if not _is_forgetting(backup.path):
            return backup
        if time.monotonic() >= end:
            break
        backup.path.unlink()  # it contains text that is being erased
        time.sleep(_LOOK_SECONDS)
    # An erasure that does not end must not prevent a backup.
    notice(
        "An erasure is in progress, and this copy still contains the text. When it is done, make"
        f" another and delete this one: {backup.path}"
    )
    return backup


def _is_forgetting(path: Path) -> bool:
    try:
        return is_forgetting(path)
    except sqlite3.Error:  # `skerry backup verify` reports the damage
        return False


def _list(state_dir: Path, arguments: Namespace) -> int:
    copies = [*backups.every(state_dir), *backups.replaced(state_dir)]
    if arguments.json:
        show_json([_row(copy) for copy in copies])
        return 0
    if not copies:
        show("No backup yet. A running gateway makes one each day. Now: skerry backup create")
        return 0
    lines = [("BACKUP", "MADE", "KIND", "SIZE")]
    lines += [(copy.name, local_time(copy.made_at), copy.kind, _size(copy.size)) for copy in copies]
    show(table(lines))
    return 0


def _verify(state_dir: Path, arguments: Namespace) -> int:
    """Checks the database and backups for damage; returns exit code 1 when it finds some."""
    paths = {} if arguments.name else {_CURRENT: state_dir / DATABASE}
    if arguments.name == _CURRENT:
        paths = {_CURRENT: state_dir / DATABASE}
    elif arguments.name:
        backup = backups.find(state_dir, arguments.name)
        paths = {backup.name: backup.path}
    else:
        paths |= {backup.name: backup.path for backup in backups.every(state_dir)}
    findings = {}
    for number, (name, path) in enumerate(paths.items(), 1):
        _progress("Checking")(number, len(paths))
        if path.exists():
            findings[name] = sqlite.problems(path, whole=True)
    if arguments.json:
        show_json([{"name": name, "problems": problems} for name, problems in findings.items()])
    for name, problems in findings.items() if not arguments.json else ():
        show(f"{name}: {one_line(problems[0]) if problems else 'sound'}")
    if not findings:
        notice("The database and its backups do not exist yet.")
    return 1 if any(findings.values()) else 0


def _restore(state_dir: Path, arguments: Namespace) -> int:
    try:
        with locked(state_dir / LOCK):
            chosen = _chosen(state_dir, arguments.name)
            if chosen is not None and not arguments.yes:
                _ask(state_dir, chosen)
            restored = restore.restore(
                state_dir,
                chosen,
                SystemClock().now_ms(),
                read_damaged=not arguments.no_salvage,
                progress=_progress("Reading the damaged file"),
            )
    except LockedError as error:
        raise StateLockedError(str(state_dir), error.owner.pid) from error
    if arguments.json:
        show_json(_report(restored))
    else:
        _tell(restored)
    return 0


def _chosen(state_dir: Path, name: str | None) -> Backup | None:
    """Returns the named backup, by default the newest; None without backups."""
    if name is None and not backups.every(state_dir):
        return None
    return backups.find(state_dir, name or "latest")


def _ask(state_dir: Path, chosen: Backup) -> None:
    """Asks a person before the restore replaces an intact database with newer messages.

    Raises:
        BackupError: the person refuses, or stdin is not a terminal.
    """
    if not restore.loses(state_dir, chosen):
        return
    state = f"The database is intact and has messages after {local_time(chosen.made_at)}"
    if sys.stdin.isatty():
        notice(f"{state}; the restore keeps it aside under its name. Restore the backup anyway?")
        if input("[y/N] ").strip().lower() in {"y", "yes"}:
            return
    error = backups.BackupError(f"{state}; nothing was changed.")
    error.remedy = f"Restore it anyway: skerry backup restore {chosen.name} --yes"
    raise error


def _report(restored: Restored) -> object:
    return {
        "backup": _row(restored.backup) if restored.backup else None,
        "damage": list(restored.damage),
        "tables": [
            {
                "name": table_row.name,
                "kept": table_row.backup_rows,
                "salvaged": table_row.salvaged,
                "whole": table_row.is_complete,
            }
            for table_row in restored.tables
        ],
        "missing": [
            {"key": gap.key, "sessionId": gap.session_id, "messages": gap.missing}
            for gap in restored.gaps
        ],
        "before": _contents(restored.before),
        "after": _contents(restored.after),
        "devices": asdict(restored.devices),
        "aside": str(restored.aside) if restored.aside else None,
    }


def _contents(contents: Contents | None) -> object:
    return (
        None if contents is None else {"sessions": contents.sessions, "messages": contents.entries}
    )


def _tell(restored: Restored) -> None:
    if restored.backup:
        show(f"Restored {restored.backup.name}, made {local_time(restored.backup.made_at)}.")
    was = restored.before
    before = f" (before: {was.sessions}, {was.entries})" if was else ""
    show(f"Sessions, messages: {restored.after.sessions}, {restored.after.entries}{before}.")
    _tell_devices(restored.devices)
    _tell_senders(restored.devices.senders_dropped)
    if restored.tables:
        rows = sum(table_row.salvaged for table_row in restored.tables)
        show(f"{rows} rows of the damaged database were salvaged.")
    broken = [table_row for table_row in restored.tables if not table_row.is_complete]
    if broken:
        lines = [("DAMAGED TABLE", "FROM THE BACKUP", "READ")]
        lines += [
            (table_row.name, str(table_row.backup_rows), str(table_row.salvaged))
            for table_row in broken
        ]
        show(table(lines))
    if restored.gaps:
        lines = [("MESSAGES MISSING", "CONVERSATION", "SESSION")]
        lines += [(str(gap.missing), gap.key, gap.session_id) for gap in restored.gaps]
        show(table(lines))
    elif restored.tables:
        show("No conversation has a gap.")
    if restored.backup and (broken or not restored.tables):
        unread = " and could not be read" if broken else ""
        show(f"Messages after {local_time(restored.backup.made_at)}{unread} are missing.")
    if restored.aside:
        notice(
            f"The replaced files are kept. Undo this: skerry backup restore {restored.aside.name}"
        )
    notice("Start the gateway: skerry gateway run")


def _tell_devices(devices: KeptDevices) -> None:
    dropped = devices.dropped
    if devices.is_known:
        show(f"Devices are unchanged by the restore: {devices.paired} paired.")
        if dropped:
            show(f"{dropped} devices of the backup were revoked or removed since: still excluded.")
    elif dropped:
        show(f"{dropped} devices must pair again, because later revocations are unknown.")


def _tell_senders(dropped: int) -> None:
    if dropped:
        notice(
            f"{dropped} approved senders of chat platforms are not approved any more: they were"
            " removed or rejected since, or that is unknown. They can pair again."
        )


def _progress(label: str) -> Callable[[int, int], None]:
    """Returns a function that prints progress on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _completed, _all: None

    def progress(completed: int, total: int) -> None:
        share = 100 * completed // total if total else 100
        end = "\n" if completed >= total else ""
        print(f"\r{label} ... {share} %", end=end, file=sys.stderr, flush=True)

    return progress


def _row(backup: Backup) -> dict[str, object]:
    return {
        "name": backup.name,
        "path": str(backup.path),
        "kind": backup.kind,
        "madeAtMs": backup.made_at,
        "bytes": backup.size,
    }


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
