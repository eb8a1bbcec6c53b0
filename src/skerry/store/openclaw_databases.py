"""Reads the databases of OpenClaw 2026.9: an agent's sessions and credentials, and the jobs.

Copies the database and its log, and reads the copy; the original is never opened.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from skerry.infra.clock import iso
from skerry.infra.untrusted_json import UNREADABLE

FILE: Final = "openclaw-agent.sqlite"
STATE_FILE: Final = "openclaw.sqlite"
"""Database of the data without an agent, in the folder `state` of the home."""


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """One session, with its transcript as the lines of a version 3 file."""

    key: str
    session_id: str
    present: bool
    """True for the session with which its conversation continues."""
    lines: tuple[bytes, ...]
    packed: int
    """Number of lines stored in an unsupported form (zstd)."""
    damage: str = ""
    """Reason why its lines cannot be read; `lines` is empty then."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Entry of its conversation, in the form of the session map of 2026.2."""


@contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    """Opens a copy of the database for the block.

    Raises:
        OSError: the file cannot be copied.
        sqlite3.Error: the file is not a database.
    """
    with TemporaryDirectory(prefix="skerry-import-") as folder:
        for ending in ("", "-wal"):
            part = file.with_name(file.name + ending)
            if part.is_file() and not part.is_symlink():
                shutil.copyfile(part, Path(folder) / part.name)
        with closing(sqlite3.connect(Path(folder) / file.name)) as database:
            yield database


def sessions(database: sqlite3.Connection) -> Iterator[ForeignSession]:
    """Yields every session, the archived ones first and the present ones last.

    A session on a damaged page is yielded without lines.

    Raises:
        sqlite3.Error: the list of the sessions cannot be read.
    """
    columns = {row[1] for row in database.execute("PRAGMA table_info(session_nodes)")}
    entry = "n.entry_json" if "entry_json" in columns else "NULL"
    rows = database.execute(
        "SELECT w.session_id, w.session_key, w.created_at, n.current_session_id = w.session_id,"  # noqa: S608 - one of two constants
        f" {entry}"
        " FROM session_windows w JOIN session_nodes n ON n.session_key = w.session_key"
        " ORDER BY 4, w.created_at, w.session_id"
    ).fetchall()
    for session_id, key, created_at, present, entry_json in rows:
        try:
            events = database.execute(
                "SELECT event_json FROM transcript_events WHERE session_id = ? ORDER BY seq",
                (session_id,),
            ).fetchall()
        except sqlite3.Error as error:
            yield ForeignSession(str(key), str(session_id), bool(present), (), 0, str(error))
            continue
        lines = [str(event).encode() for (event,) in events if event is not None]
        packed = len(events) - len(lines)
        if not lines or not _is_header(lines[0]):
            header = {"type": "session", "version": 3, "id": session_id}
            lines.insert(0, json.dumps(header | {"timestamp": iso(created_at)}).encode())
        about = _object(entry_json)
        yield ForeignSession(
            str(key), str(session_id), bool(present), tuple(lines), packed, about=about
        )


def profiles(database: sqlite3.Connection) -> dict[str, Any]:
    """Returns the stored credentials, in the form of the credentials file."""
    row = database.execute(
        "SELECT store_json FROM auth_profile_store WHERE store_key = 'primary'"
    ).fetchone()
    value = json.loads(row[0]) if row else {}
    return value if isinstance(value, dict) else {}


def jobs(database: sqlite3.Connection) -> list[dict[str, Any]]:
    """Returns the scheduled jobs of the state database, in the form of the file of 2026.2."""
    rows = database.execute("SELECT job_json FROM cron_jobs ORDER BY sort_order, job_id")
    return [_object(text) for (text,) in rows]


def _object(text: object) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str | bytes) else None
    except UNREADABLE:  # the transcript is imported without it
        return {}
    return value if isinstance(value, dict) else {}


def _is_header(line: bytes) -> bool:
    try:
        value = json.loads(line)
    except UNREADABLE:  # the reader of the lines reports it
        return False
    return isinstance(value, dict) and value.get("type") == "session"
