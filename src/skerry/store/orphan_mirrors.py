"""Mirror files of sessions that the database no longer has, for example after a restore."""

from collections.abc import Collection
from pathlib import Path

import msgspec

from skerry.infra.atomic import write_atomic
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.redaction import Redaction


def clean(folder: Path, sessions: Collection[str], redaction: Redaction) -> int:
    """Erases statements from the files of all sessions except `sessions`. Blocks.

    Returns the number of changed files.

    Raises:
        OSError: a file cannot be read or written.
    """
    changed = 0
    for path in sorted(folder.glob("*.jsonl*")):
        if path.name.partition(".jsonl")[0] in sessions or not path.is_file():
            continue
        old = path.read_text("utf-8", errors="replace")
        if not redaction.may_be_in(old):
            continue
        new = "".join(_line(line, redaction) for line in old.splitlines(keepends=True))
        if new != old:
            write_atomic(path, new.encode())
            changed += 1
    return changed


def _line(line: str, redaction: Redaction) -> str:
    try:
        value = msgspec.json.decode(line)
    except UNREADABLE:
        return redaction.text(line)
    new = redaction.value(value)
    return line if new == value else msgspec.json.encode(new).decode() + "\n"
