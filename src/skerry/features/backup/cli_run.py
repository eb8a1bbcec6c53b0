"""`skerry backup`: makes, lists, checks and restores backups of the database."""

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
"""Seconds that a backup waits for a forget in progress."""
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
    made = _without_words(state_dir, PATIENCE_SECONDS)
    if arguments.json:
        show_json(_row(made))
    else:
        show(f"{made.path} ({_size(made.size)})")
    return 0


def _without_words(state_dir: Path, seconds: float) -> Backup:
    """Returns a backup that was not made during a forget, where one can be made in that time."""
    end = time.monotonic() + seconds
    while True:
        now = SystemClock().now_ms()
        made = backups.create(state_dir, BackupKind.MANUAL, now, _progress("Copying"))
        if not _is_forgetting(made.path):
            return made
        if time.monotonic() >= end:
            break
        made.path.unlink()  # it has words that are to be nowhere
        time.sleep(_LOOK_SECONDS)
    # A job that does not end must not keep the state without a copy.
    notice(
        "An erasure is in progress, and this copy still has the text. When it is done, make"
        f" another and delete this one: {made.path}"
    )
    return made


def _is_forgetting(path: Path) -> bool:
    try:
        return is_forgetting(path)
    except sqlite3.Error:  # `skerry backup verify` tells what is wrong with it
        return False


def _list(state_dir: Path, arguments: Namespace) -> int:
    copies = [*backups.every(state_dir), *backups.replaced(state_dir)]
    if arguments.json:
        show_json([_row(copy) for copy in copies])
        return 0
    if not copies:
        show("No backup yet. A running gateway makes one a day; now: skerry backup create")
        return 0
    lines = [("BACKUP", "MADE", "KIND", "SIZE")]
    lines += [(copy.name, local_time(copy.made_at), copy.kind, _size(copy.size)) for copy in copies]
    show(table(lines))
    return 0


def _verify(state_dir: Path, arguments: Namespace) -> int:
    """Looks for damage in the database and in backups; exit code 1 where there is some."""
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
        notice("There is no database yet, and no backup.")
    return 1 if any(findings.values()) else 0


def _restore(state_dir: Path, arguments: Namespace) -> int:
    try:
        with locked(state_dir / LOCK):
            chosen = _chosen(state_dir, arguments.name)
            if chosen is not None and not arguments.yes:
                _ask(state_dir, chosen)
            done = restore.restore(
                state_dir,
                chosen,
                SystemClock().now_ms(),
                read_damaged=not arguments.no_salvage,
                progress=_progress("Reading the damaged file"),
            )
    except LockedError as error:
        raise StateLockedError(str(state_dir), error.owner.pid) from error
    if arguments.json:
        show_json(_report(done))
    else:
        _tell(done)
    return 0


def _chosen(state_dir: Path, name: str | None) -> Backup | None:
    """Returns the backup that is meant: the newest, and none where there is none at all."""
    if name is None and not backups.every(state_dir):
        return None
    return backups.find(state_dir, name or "latest")


def _ask(state_dir: Path, chosen: Backup) -> None:
    """Lets a person say whether a sound database with newer messages is to give way.

    Raises:
        BackupError: it is not, or nobody is there to say so.
    """
    if not restore.loses(state_dir, chosen):
        return
    what = f"The database is sound and has what came after {local_time(chosen.made_at)}"
    if sys.stdin.isatty():
        notice(f"{what}; it is put aside and can be restored by its name. Restore it anyway?")
        if input("[y/N] ").strip().lower() in {"y", "yes"}:
            return
    error = backups.BackupError(f"{what}; nothing was changed.")
    error.remedy = f"To restore it anyway: skerry backup restore {chosen.name} --yes"
    raise error


def _report(done: Restored) -> object:
    return {
        "backup": _row(done.backup) if done.backup else None,
        "damage": list(done.damage),
        "tables": [
            {
                "name": table_row.name,
                "kept": table_row.backup_rows,
                "salvaged": table_row.salvaged,
                "whole": table_row.is_complete,
            }
            for table_row in done.tables
        ],
        "missing": [
            {"key": gap.key, "sessionId": gap.session_id, "messages": gap.missing}
            for gap in done.gaps
        ],
        "before": _contents(done.before),
        "after": _contents(done.after),
        "devices": asdict(done.devices),
        "aside": str(done.aside) if done.aside else None,
    }


def _contents(held: Contents | None) -> object:
    return None if held is None else {"sessions": held.sessions, "messages": held.entries}


def _tell(done: Restored) -> None:
    if done.backup:
        show(f"Restored {done.backup.name}, made {local_time(done.backup.made_at)}.")
    was = done.before
    before = f" (before: {was.sessions}, {was.entries})" if was else ""
    show(f"Sessions, messages: {done.after.sessions}, {done.after.entries}{before}.")
    _tell_devices(done.devices)
    if done.tables:
        rows = sum(table_row.salvaged for table_row in done.tables)
        show(f"{rows} rows of the damaged database could be read and are there.")
    broken = [table_row for table_row in done.tables if not table_row.is_complete]
    if broken:
        lines = [("DAMAGED TABLE", "FROM THE BACKUP", "READ")]
        lines += [
            (table_row.name, str(table_row.backup_rows), str(table_row.salvaged))
            for table_row in broken
        ]
        show(table(lines))
    if done.gaps:
        lines = [("MESSAGES MISSING", "CONVERSATION", "SESSION")]
        lines += [(str(gap.missing), gap.key, gap.session_id) for gap in done.gaps]
        show(table(lines))
    elif done.tables:
        show("No conversation has a gap.")
    if done.backup and (broken or not done.tables):
        unread = " and could not be read" if broken else ""
        show(f"What came after {local_time(done.backup.made_at)}{unread} is not in it.")
    if done.aside:
        notice(
            f"The replaced files are kept. To undo this: skerry backup restore {done.aside.name}"
        )
    notice("Start the gateway: skerry gateway run")


def _tell_devices(devices: KeptDevices) -> None:
    dropped = devices.dropped
    if devices.is_known:
        show(f"Devices stay as they were before the restore: {devices.paired} paired.")
        if dropped:
            show(f"{dropped} devices of the backup were revoked or removed since, and stay out.")
    elif dropped:
        show(f"{dropped} devices must pair again: nothing tells who was revoked since.")


def _progress(what: str) -> Callable[[int, int], None]:
    """Returns a function that prints progress on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _done, _all: None

    def progress(done: int, total: int) -> None:
        share = 100 * done // total if total else 100
        end = "\n" if done >= total else ""
        print(f"\r{what} ... {share} %", end=end, file=sys.stderr, flush=True)

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
