"""Approvals of tool calls. Each step is one unit; the state in the row decides if it is valid."""

import msgspec
from msgspec import Struct

from skerry.model.approval import ApprovalState, Verdict
from skerry.model.run import RunRequest
from skerry.model.tool import ToolResult
from skerry.ports.approval import PendingCall
from skerry.store import allowlist, audit
from skerry.store.unit import Reader, Row, Unit

_encode = msgspec.json.encode
OPEN = (ApprovalState.PENDING, ApprovalState.ALLOWED)
"""States in which the call has not begun but still can."""


class ApprovedCall(Struct, frozen=True):
    """The call of an approval, and the request of its run without the text."""

    call: PendingCall
    request: RunRequest


class StoredApproval(Struct, frozen=True):
    """One approval. Times are milliseconds since 1970."""

    id: str
    state: ApprovalState
    fingerprint: str
    """Digest of tool, arguments, agent, session and binding; equal for equal calls."""
    stored: ApprovedCall | None
    """None when a client requested the approval and executes the call itself."""
    subject: "ApprovalView"
    created_at: int
    expires_at: int
    owed: bool = False
    """True when the run no longer waits, so that the outcome is sent as a message."""
    verdict: Verdict | None = None
    resolved_by: str = ""
    outcome: ToolResult | None = None


class ApprovalView(Struct, frozen=True):
    """The facts that are shown to the person who decides."""

    tool: str
    command: str
    host: str
    cwd: str
    agent: str
    session_key: str
    rule: str
    reason: str = ""
    argv: tuple[str, ...] | None = None
    env_keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Patterns that `allow-always` adds; `allow-always` is not offered if empty."""
    security: str = ""
    """`security`, `ask` and `resolved_path`: as a client reports them for its own command."""
    ask: str = ""
    resolved_path: str = ""


_calls = msgspec.json.Decoder(ApprovedCall)
_views = msgspec.json.Decoder(ApprovalView)
_results = msgspec.json.Decoder(ToolResult)
_COLUMNS = (
    "approval_id, state, fingerprint, call, subject, created_at, expires_at, owed, verdict,"
    " resolved_by, outcome"
)


def add(unit: Unit, approval: StoredApproval, run_id: str, call_id: str) -> None:
    """Adds a pending approval of a run's call; `run_id` is empty for a client's request."""
    unit.execute(
        "INSERT INTO approval (approval_id, state, fingerprint, run_id, call_id, call, subject,"
        " created_at, expires_at, owed, resolved_by, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, FALSE, '', ?)",
        (
            approval.id,
            approval.state,
            approval.fingerprint,
            run_id,
            call_id,
            _encode(approval.stored) if approval.stored else None,
            _encode(approval.subject),
            approval.created_at,
            approval.expires_at,
            approval.created_at,
        ),
    )
    view = approval.subject
    facts = {
        "id": approval.id,
        "tool": view.tool,
        "command": view.command,
        "host": view.host,
        "cwd": view.cwd,
        "agent": view.agent,
        "session": view.session_key,
        "rule": view.rule,
        "fingerprint": approval.fingerprint,
    }
    audit.append(unit, approval.created_at, "approval.requested", facts)


def get(reader: Reader, approval_id: str) -> StoredApproval | None:
    """Returns the approval; None if the id is unknown."""
    row = reader.one(
        f"SELECT {_COLUMNS} FROM approval WHERE approval_id = ?",  # noqa: S608 - constant columns
        (approval_id,),
    )
    return _approval(row) if row else None


def open_call(reader: Reader, fingerprint: str, now: int) -> StoredApproval | None:
    """Returns the oldest open approval with the fingerprint; None without one."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM approval WHERE fingerprint = ?"  # noqa: S608 - constant columns
        " AND state IN (?, ?) AND call IS NOT NULL ORDER BY created_at",
        (fingerprint, *OPEN),
    )
    approvals = map(_approval, rows)
    return next(
        (
            approval
            for approval in approvals
            if approval.state not in OPEN[:1] or approval.expires_at > now
        ),
        None,
    )


def attach_run(unit: Unit, approval_id: str, run_id: str, call_id: str, now: int) -> bool:
    """Attaches the call of a run to an open approval; returns False if it is no longer open."""
    return bool(
        unit.execute(
            "UPDATE approval SET run_id = ?, call_id = ?, owed = FALSE, updated_at = ?"
            " WHERE approval_id = ? AND state IN (?, ?)",
            (run_id, call_id, now, approval_id, *OPEN),
        )
    )


def detach_run(unit: Unit, approval_id: str, now: int) -> None:
    """Detaches the run, so that the outcome is sent as a message."""
    unit.execute(
        "UPDATE approval SET owed = TRUE, updated_at = ? WHERE approval_id = ?",
        (now, approval_id),
    )


def pending(reader: Reader, now: int) -> list[StoredApproval]:
    """Returns the pending approvals that have not expired, oldest first."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM approval WHERE state = ? AND expires_at > ?"  # noqa: S608 - constant columns
        " ORDER BY created_at, approval_id",
        (ApprovalState.PENDING, now),
    )
    return [_approval(row) for row in rows]


def count_pending(reader: Reader) -> int:
    """Returns the number of pending approvals."""
    row = reader.one("SELECT count(*) FROM approval WHERE state = ?", (ApprovalState.PENDING,))
    return int(row[0]) if row else 0


def resolve(unit: Unit, approval_id: str, verdict: Verdict, by: str, now: int) -> bool:
    """Stores a person's verdict; returns False if the approval is no longer pending.

    `allow-always` adds the patterns of the call to the allowlist of its agent.
    """
    state = ApprovalState.DENIED if verdict is Verdict.DENY else ApprovalState.ALLOWED
    changed = unit.execute(
        "UPDATE approval SET state = ?, verdict = ?, resolved_by = ?, updated_at = ?"
        " WHERE approval_id = ? AND state = ? AND expires_at > ?",
        (state, verdict, by, now, approval_id, ApprovalState.PENDING, now),
    )
    if not changed:
        return False
    audit.append(unit, now, f"approval.{verdict}", {"id": approval_id, "by": by})
    stored = get(unit, approval_id) if verdict is Verdict.ALWAYS else None
    if stored is not None:
        for pattern in stored.subject.patterns:
            allowlist.add(unit, stored.subject.agent, pattern, Verdict.ALWAYS, by, now)
    return True


def withdraw(unit: Unit, approval_id: str, by: str, now: int) -> bool:
    """Denies an approval whose call has not begun, even one that was allowed."""
    changed = unit.execute(
        "UPDATE approval SET state = ?, verdict = ?, resolved_by = ?, updated_at = ?"
        " WHERE approval_id = ? AND state IN (?, ?)",
        (ApprovalState.DENIED, Verdict.DENY, by, now, approval_id, *OPEN),
    )
    if changed:
        audit.append(unit, now, "approval.withdrawn", {"id": approval_id, "by": by})
    return bool(changed)


def expire(unit: Unit, now: int) -> list[str]:
    """Expires the pending approvals whose time is over; returns their ids."""
    rows = unit.all(
        "SELECT approval_id FROM approval WHERE state = ? AND expires_at <= ?"
        " ORDER BY created_at, approval_id",
        (ApprovalState.PENDING, now),
    )
    for (approval_id,) in rows:
        unit.execute(
            "UPDATE approval SET state = ?, updated_at = ? WHERE approval_id = ?",
            (ApprovalState.EXPIRED, now, approval_id),
        )
        audit.append(unit, now, "approval.expired", {"id": str(approval_id)})
    return [str(row[0]) for row in rows]


def begin(unit: Unit, approval_id: str, now: int) -> bool:
    """Marks the allowed call as begun; only the first caller gets True."""
    changed = unit.execute(
        "UPDATE approval SET state = ?, updated_at = ? WHERE approval_id = ? AND state = ?",
        (ApprovalState.BEGUN, now, approval_id, ApprovalState.ALLOWED),
    )
    if changed:
        audit.append(unit, now, "approval.begun", {"id": approval_id})
    return bool(changed)


def end(unit: Unit, approval_id: str, outcome: ToolResult, now: int) -> None:
    """Stores the outcome of a begun call."""
    changed = unit.execute(
        "UPDATE approval SET state = ?, outcome = ?, updated_at = ?"
        " WHERE approval_id = ? AND state = ?",
        (ApprovalState.ENDED, _encode(outcome), now, approval_id, ApprovalState.BEGUN),
    )
    if changed:
        facts = {"id": approval_id, "failed": outcome.is_error}
        audit.append(unit, now, "approval.ended", facts)


def any_begun(reader: Reader) -> bool:
    """Returns whether a call has begun and not ended."""
    row = reader.one("SELECT 1 FROM approval WHERE state = ?", (ApprovalState.BEGUN,))
    return row is not None


def interrupt(unit: Unit, now: int) -> list[str]:
    """Marks the begun calls of an earlier process as unknown; returns their ids."""
    rows = unit.all("SELECT approval_id FROM approval WHERE state = ?", (ApprovalState.BEGUN,))
    unit.execute(
        "UPDATE approval SET state = ?, owed = TRUE, updated_at = ? WHERE state = ?",
        (ApprovalState.UNKNOWN, now, ApprovalState.BEGUN),
    )
    for (approval_id,) in rows:
        audit.append(unit, now, "approval.unknown", {"id": str(approval_id)})
    return [str(row[0]) for row in rows]


def mark_reported(unit: Unit, approval_id: str, now: int) -> bool:
    """Notes that the message about the outcome was accepted; returns False for a repetition."""
    return bool(
        unit.execute(
            "UPDATE approval SET owed = FALSE, updated_at = ?"
            " WHERE approval_id = ? AND owed = TRUE",
            (now, approval_id),
        )
    )


def due(reader: Reader) -> list[tuple[StoredApproval, str]]:
    """Returns the approvals to process, each with the id of its run, oldest first.

    These are the allowed calls, and the ended ones whose outcome must be sent as a message.
    """
    rows = reader.all(
        f"SELECT {_COLUMNS}, run_id FROM approval WHERE call IS NOT NULL AND (state = ?"  # noqa: S608 - constant columns
        " OR (owed = TRUE AND state IN (?, ?, ?, ?))) ORDER BY created_at, approval_id",
        (
            ApprovalState.ALLOWED,
            ApprovalState.DENIED,
            ApprovalState.EXPIRED,
            ApprovalState.ENDED,
            ApprovalState.UNKNOWN,
        ),
    )
    return [(_approval(row[:-1]), str(row[-1])) for row in rows]


def attached(reader: Reader) -> list[tuple[str, str]]:
    """Returns (approval id, run id) of the open approvals for which a run waits."""
    rows = reader.all(
        "SELECT approval_id, run_id FROM approval WHERE state IN (?, ?) AND owed = FALSE"
        " AND call IS NOT NULL ORDER BY created_at, approval_id",
        OPEN,
    )
    return [(str(approval_id), str(run_id)) for approval_id, run_id in rows]


def next_expiry(reader: Reader) -> int | None:
    """Returns the time at which the next pending approval expires; None without one."""
    row = reader.one(
        "SELECT min(expires_at) FROM approval WHERE state = ?", (ApprovalState.PENDING,)
    )
    return int(row[0]) if row and row[0] is not None else None


def prune(unit: Unit, before: int) -> int:
    """Deletes the approvals that ended before a time and owe no message; returns their number."""
    return unit.execute(
        "DELETE FROM approval WHERE updated_at < ? AND owed = FALSE AND state NOT IN (?, ?, ?)",
        (before, *OPEN, ApprovalState.BEGUN),
    )


def any_old(reader: Reader, before: int) -> bool:
    """Returns whether `prune` would delete an approval."""
    row = reader.one(
        "SELECT 1 FROM approval WHERE updated_at < ? AND owed = FALSE AND state NOT IN (?, ?, ?)"
        " LIMIT 1",
        (before, *OPEN, ApprovalState.BEGUN),
    )
    return row is not None


def waits(reader: Reader, run_id: str, call_id: str) -> bool:
    """Returns whether the call of a run waits for an approval and has not begun."""
    row = reader.one(
        "SELECT 1 FROM approval WHERE run_id = ? AND call_id = ? AND state IN (?, ?)",
        (run_id, call_id, *OPEN),
    )
    return row is not None


def _approval(row: Row) -> StoredApproval:
    approval_id, state, fingerprint, call, subject, created, expires, owed, verdict, by, end_ = row
    return StoredApproval(
        approval_id,
        ApprovalState(state),
        fingerprint,
        _calls.decode(call) if call else None,
        _views.decode(subject),
        created,
        expires,
        bool(owed),
        Verdict(verdict) if verdict else None,
        by,
        _results.decode(end_) if end_ else None,
    )
