"""Checks a relayer's folder: file modes, the database, rows without blobs, blobs without rows."""

import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry_relayer.blobs import BlobError, FolderBlobs, unpacked
from skerry_relayer.folders import DATABASE, Folders, locations_of
from skerry_relayer.keys.registry import Registry, is_registry, now_ms
from skerry_relayer.sqlite_files import connect

_STUCK_MS: Final = 600_000
_MAX_NAMED: Final = 5
"""Maximum number of ids in a finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str
    ok: bool
    text: str
    remedy: str = ""


def examine(root: Path, *, deep: bool = False) -> list[Finding]:
    """Returns the results of all checks; `deep` reads every blob and compares its hash."""
    folders = Folders(root)
    if not is_registry(folders.keys):
        return [
            Finding(
                "folder",
                ok=False,
                text=f"There is no relayer in {root}.",
                remedy="Run `skerry relayer init`, or give --dir.",
            )
        ]
    findings = [_modes(root), _registry(folders)]
    if (folders.database / DATABASE).exists():
        findings += _database(folders, deep=deep)
    return findings


def _modes(root: Path) -> Finding:
    open_ = [
        path
        for path in (root, *root.rglob("*"))
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    return Finding(
        "modes",
        not open_,
        "Only your user may read the files."
        if not open_
        else f"Other users may read {_listed(open_)}.",
        "" if not open_ else f"Run: chmod -R go-rwx {root}",
    )


def _registry(folders: Folders) -> Finding:
    with Registry(folders.keys) as registry:
        accounts = registry.accounts()
        old = [
            account.owner for account in accounts if len(registry.generations(account.owner)) > 1
        ]
    if old:
        return Finding(
            "keys",
            ok=False,
            text=f"A rewrap of {len(old)} owners was interrupted; their old keys are kept.",
            remedy="Run `skerry relayer rewrap` again.",
        )
    keys = sum(len(account.delegates) for account in accounts)
    active = sum(account.active for account in accounts)
    return Finding("keys", ok=True, text=f"{active} active accounts, {keys} keys.")


def _database(folders: Folders, *, deep: bool) -> Iterator[Finding]:
    try:
        with closing(connect(folders.database / DATABASE)) as database:
            (word,) = database.execute("PRAGMA quick_check(1)").fetchone()
            yield Finding(
                "database", word == "ok", f"The integrity check of SQLite: {word}.", _restore(word)
            )
            yield _jobs(database)
            away = [location for location in locations_of(folders.root) if location]
            yield _not_checked(away) if away else _blobs(database, folders, deep=deep)
    except sqlite3.Error as error:
        yield Finding(
            "database", ok=False, text=f"The database cannot be read: {error}.", remedy=_restore("")
        )


def _restore(word: str) -> str:
    if word == "ok":
        return ""
    return "Stop the relayer, move db/ away, start it, and let clients restore each namespace."


def _jobs(database: sqlite3.Connection) -> Finding:
    before = now_ms() - _STUCK_MS
    (stuck,) = database.execute(
        "SELECT count(*) FROM job WHERE status IN ('pending', 'running', 'uploaded')"
        " AND created_at < ?",
        (before,),
    ).fetchone()
    return Finding(
        "jobs",
        not stuck,
        f"{stuck} texts have waited for more than ten minutes."
        if stuck
        else "No text has waited for more than ten minutes.",
        "Start the relayer; its log has the reason why they wait." if stuck else "",
    )


def _not_checked(locations: list[str]) -> Finding:
    return Finding("blobs", ok=True, text=f"Not checked: some blobs are in {', '.join(locations)}.")


def _blobs(database: sqlite3.Connection, folders: Folders, *, deep: bool) -> Finding:
    rows = set(database.execute("SELECT owner, blob_id FROM memory"))
    noted = set(database.execute("SELECT owner, blob_id FROM doomed")) | set(
        database.execute("SELECT owner, blob_id FROM writing")
    )
    noted |= set(database.execute("SELECT owner, blob_id FROM job WHERE blob_id IS NOT NULL"))
    files = set(FolderBlobs(folders.blobs).all())
    missing, extra = rows - files, files - rows - noted
    changed = [key for key in rows & files if deep and not _is_whole(folders, *key)]
    if missing or changed:
        return Finding(
            "blobs",
            ok=False,
            text=f"{len(missing)} memories have no blob, {len(changed)} a changed one: "
            f"{_listed(blob_id for _, blob_id in [*missing, *changed])}.",
            remedy="Copy blobs/ from a backup. Recall skips these memories.",
        )
    if extra:
        return Finding(
            "blobs",
            ok=False,
            text=f"{len(extra)} blobs have no row, so recall does not find them.",
            remedy="Let a client restore the namespace (/api/restore).",
        )
    return Finding("blobs", ok=True, text=f"{len(rows)} memories have their blobs.")


def _is_whole(folders: Folders, owner: str, blob_id: str) -> bool:
    try:
        unpacked((folders.blobs / owner[2:] / blob_id).read_bytes(), blob_id)
    except (BlobError, OSError):
        return False
    return True


def _listed(names: Iterable[object]) -> str:
    listed = [str(name) for name in names]
    remaining = len(listed) - _MAX_NAMED
    return ", ".join(listed[:_MAX_NAMED]) + (f" and {remaining} more" if remaining > 0 else "")
