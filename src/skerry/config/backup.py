"""Backups of the configuration: five earlier files, the last good file, an audit line per write."""

import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.config.expand import Expanded
from skerry.config.source import Source
from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.clock import iso

logger = logging.getLogger(__name__)

BACKUPS: Final = (".bak", ".bak.1", ".bak.2", ".bak.3", ".bak.4")
"""Endings of the copies of earlier files, the newest first."""
LAST_GOOD: Final = ".last-good"
LAST_GOOD_REMEDY: Final = (
    "skerry config edit; or restore the last good file: cp {path}.last-good {path}"
)
"""Remedy shown while the last good file is in force instead of the broken one."""
REJECTED: Final = ".rejected"
"""Ending of the copy of a text that `skerry config edit` rejected."""
AUDIT: Final = Path("logs") / "config-audit.jsonl"
MAX_AUDIT: Final = 1_048_576
"""Maximum bytes of the audit file; a longer file is renamed, and replaces the earlier one."""
_MAX_PATHS: Final = 200


def copy_path(path: Path, ending: str) -> Path:
    """Returns the path of a copy of the configuration file, in the same directory."""
    return path.with_name(path.name + ending)


def keep_before(before: Source) -> None:
    """Copies the file to the newest of the five backups; the oldest is deleted.

    Raises:
        OSError: the copy cannot be written.
    """
    paths = [copy_path(before.path, ending) for ending in BACKUPS]
    for older, newer in zip(reversed(paths), reversed(paths[:-1]), strict=False):
        with suppress(FileNotFoundError):
            newer.replace(older)
    write_atomic(paths[0], before.data)


def keep_good(read: Source, expanded: Expanded) -> None:
    """Stores a copy of a configuration that a start or a change has used.

    It replaces the file when that is broken. Included files are merged into the copy; references
    stay unresolved. A failure is logged.
    """
    if not read.exists:
        return
    text = read.raw
    if expanded.files:
        text = json.dumps(expanded.merged, indent=2, ensure_ascii=False) + "\n"
    data = text.encode()
    copy = copy_path(read.path.resolve(), LAST_GOOD)
    try:
        if not copy.is_file() or copy.is_symlink() or copy.read_bytes() != data:
            write_atomic(copy, data)
    except OSError:  # the gateway works without it
        logger.exception("%s cannot be written", copy)


class AuditEntry(Struct, frozen=True):
    """One write of the file."""

    at_ms: int
    by: str
    before: Source
    after: Source
    changed: Sequence[str]


def note(state_dir: Path, entry: AuditEntry) -> None:
    """Appends a line about a write: hashes, sizes and key paths, no values. A failure is logged."""
    file = state_dir / AUDIT
    line = {
        "ts": iso(entry.at_ms),
        "event": "config.write",
        "by": entry.by,
        "configPath": str(entry.after.path),
        "previousHash": entry.before.hash if entry.before.exists else None,
        "nextHash": entry.after.hash,
        "previousBytes": len(entry.before.data),
        "nextBytes": len(entry.after.data),
        "changedPathCount": len(entry.changed),
        "changedPaths": list(entry.changed[:_MAX_PATHS]),
        "suspicious": suspicious(entry.before, entry.after),
    }
    try:
        make_private(file.parent)
        if file.exists() and file.stat().st_size > MAX_AUDIT:
            file.replace(copy_path(file, ".1"))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(file, flags, 0o600), "a", encoding="utf-8") as opened:
            opened.write(json.dumps(line, ensure_ascii=False) + "\n")
    except OSError:  # the change was written already
        logger.exception("%s cannot be written", file)


def suspicious(before: Source, after: Source) -> list[str]:
    """Returns the names of suspicious changes in a write. Source: openclaw-behaviour 1.5."""
    errors = []
    old, new = len(before.data), len(after.data)
    if old >= 512 and new < old / 2:  # noqa: PLR2004 - a small file may well lose half of it
        errors.append(f"size-drop:{old}->{new}")
    if "meta" in before.parsed and "meta" not in after.parsed:
        errors.append("meta-removed")
    return errors
