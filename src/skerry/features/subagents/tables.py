"""Registry of sub-agents: one row for each, kept for some time after its end.

The text of a task or report is only stored in the transcripts, where an erasure finds it.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from skerry.model.ids import RunId, SessionKey
from skerry.model.run import RunRequest
from skerry.store.unit import Reader, Row, Unit

STEPS: Final = (
    """
    CREATE TABLE subagents (
        run_id TEXT PRIMARY KEY,
        session_key TEXT NOT NULL,
        session_id TEXT NOT NULL,
        parent_key TEXT NOT NULL,
        request BLOB NOT NULL,
        label TEXT NOT NULL,
        cleanup TEXT NOT NULL,
        state TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        ended_at INTEGER NOT NULL,
        archive_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX subagents_of_parent ON subagents (parent_key, state);
    CREATE INDEX subagents_of_session ON subagents (session_key)
    """,
)
KEPT: tuple[str, ...] = ()
"""Tables whose newer rows stay when a backup is restored."""
TEXTS: Final = (
    (
        (
            "subagents",
            ("run_id",),
            ("label", "request"),
            "session_id IN (SELECT session_id FROM session WHERE agent_id = ?)",
        ),
        ((), ()),
    ),
)
"""Columns with text of people, which an erasure searches (`store.forgetting_tables`)."""
_COLUMNS: Final = (
    "run_id, session_key, session_id, parent_key, request, label, cleanup, state, status,"
    " created_at, ended_at, archive_at"
)
_requests: Final = msgspec.json.Decoder(RunRequest)


class SubagentState(StrEnum):
    """Progress of a sub-agent."""

    RUNNING = "running"
    """Accepted; its end is not announced yet."""
    ENDED = "ended"
    """Announced, or stopped without an announcement."""
    ARCHIVED = "archived"
    """Its session is archived."""


class SubagentOutcome(StrEnum):
    """Outcome of a sub-agent."""

    NONE = ""
    """It has not ended."""
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"
    """The gateway stopped during its run."""
    STOPPED = "stopped"
    """Its parent or a person stopped it."""


class Subagent(Struct, frozen=True):
    """One sub-agent. Times are milliseconds since 1970, 0 means none."""

    run_id: RunId
    session_key: str
    session_id: str
    parent_key: str
    request: RunRequest
    """Request of the run that started it, without text: the announcement has its rights."""
    label: str
    cleanup: str
    """`keep`, or `delete` to archive its session right after the announcement."""
    state: SubagentState
    status: SubagentOutcome
    created_at: int
    ended_at: int
    archive_at: int

    @property
    def key(self) -> SessionKey:
        """Returns the key of its session."""
        return SessionKey.parse(self.session_key)


def add(unit: Unit, subagent: Subagent) -> None:
    """Writes the row of a new sub-agent."""
    unit.execute(
        f"INSERT INTO subagents ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constant columns
        (
            subagent.run_id,
            subagent.session_key,
            subagent.session_id,
            subagent.parent_key,
            msgspec.json.encode(subagent.request),
            subagent.label,
            subagent.cleanup,
            subagent.state,
            subagent.status,
            subagent.created_at,
            subagent.ended_at,
            subagent.archive_at,
        ),
    )


def get(reader: Reader, run_id: str) -> Subagent | None:
    """Returns the sub-agent of a run."""
    row = reader.one(f"SELECT {_COLUMNS} FROM subagents WHERE run_id = ?", (run_id,))  # noqa: S608 - constant columns
    return _subagent(row) if row else None


def of_session(reader: Reader, key: str) -> Subagent | None:
    """Returns the sub-agent whose session has the key."""
    row = reader.one(f"SELECT {_COLUMNS} FROM subagents WHERE session_key = ?", (key,))  # noqa: S608 - constant columns
    return _subagent(row) if row else None


def unfinished(reader: Reader) -> list[Subagent]:
    """Returns the sub-agents that are running or wait for their archive, oldest first."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM subagents WHERE state = ? OR (state = ? AND archive_at > 0)"  # noqa: S608 - constant columns
        " ORDER BY created_at, run_id",
        (SubagentState.RUNNING, SubagentState.ENDED),
    )
    return [_subagent(row) for row in rows]


def listed(reader: Reader, parent: str | None, since: int, limit: int) -> list[Subagent]:
    """Returns running sub-agents and those started after `since`, latest first.

    `parent` None selects all conversations; `since` is milliseconds since 1970.
    """
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM subagents WHERE (state = ? OR created_at >= ?)"  # noqa: S608 - constant columns
        " AND (? = '' OR parent_key = ?) ORDER BY created_at DESC, run_id LIMIT ?",
        (SubagentState.RUNNING, since, parent or "", parent or "", limit),
    )
    return [_subagent(row) for row in rows]


def running(reader: Reader, parent: str) -> int:
    """Returns the number of sub-agents of a conversation that have not ended."""
    row = reader.one(
        "SELECT count(*) FROM subagents WHERE parent_key = ? AND state = ?",
        (parent, SubagentState.RUNNING),
    )
    return int(row[0]) if row else 0


def end(unit: Unit, run_id: str, status: SubagentOutcome, ended_at: int, archive_at: int) -> None:
    """Stores the end of a sub-agent; `archive_at` is 0 when its session is kept."""
    unit.execute(
        "UPDATE subagents SET state = ?, status = ?, ended_at = ?, archive_at = ?"
        " WHERE run_id = ? AND state = ?",
        (SubagentState.ENDED, status, ended_at, archive_at, run_id, SubagentState.RUNNING),
    )


def postpone(unit: Unit, run_id: str, archive_at: int) -> None:
    """Stores a later archive time for a session that was used again."""
    unit.execute("UPDATE subagents SET archive_at = ? WHERE run_id = ?", (archive_at, run_id))


def archived(unit: Unit, run_id: str, now: int) -> None:
    """Marks the session as archived."""
    unit.execute(
        "UPDATE subagents SET state = ?, archive_at = ? WHERE run_id = ?",
        (SubagentState.ARCHIVED, now, run_id),
    )


def any_old(reader: Reader, before: int) -> bool:
    """Returns true when `prune` would delete a row."""
    return (
        reader.one(
            "SELECT 1 FROM subagents WHERE state <> ? AND ended_at < ? LIMIT 1",
            (SubagentState.RUNNING, before),
        )
        is not None
    )


def prune(unit: Unit, before: int) -> int:
    """Deletes the rows of sub-agents that ended before a time; returns their number."""
    return unit.execute(
        "DELETE FROM subagents WHERE state <> ? AND ended_at < ?", (SubagentState.RUNNING, before)
    )


def _subagent(row: Row) -> Subagent:
    run_id, key, session_id, parent, request, label, cleanup, state, status, *times = row
    created_at, ended_at, archive_at = times
    return Subagent(
        RunId(run_id),
        key,
        session_id,
        parent,
        _requests.decode(request),
        label,
        cleanup,
        SubagentState(state),
        SubagentOutcome(status),
        created_at,
        ended_at,
        archive_at,
    )
