"""Removal of settled runs: their texts after a day, their rows after a week.

The messages are in the transcript. A run has copies in its request, its result and its parts in
the outbox, so that a repeated key gets the same answer and a part can be sent again. After the key
is free, these copies have no use. Days are counted as quarters of an hour of gateway uptime (see
`idempotency_keys`), so that a change of the clock removes nothing too early.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from skerry.infra.clock import DAY_MS
from skerry.infra.untrusted_json import UNREADABLE
from skerry.store import engine, idempotency_keys
from skerry.store.unit import Row, Unit, marks

BATCH: Final = 500
"""Limit on the runs of one unit, because other units wait for it."""
_TEXTS: Final = frozenset(
    {"text", "extra_system_prompt", "images", "inline", "opening", "context", "skill"}
)
"""Fields of a request that contain text."""


def blank(unit: Unit) -> bool:
    """Removes the texts of runs whose keys are free again; returns whether there may be more."""
    rows = unit.all(
        "SELECT serial, run_id, request, result FROM run WHERE settled = FALSE AND quarter < ?"
        " AND result IS NOT NULL AND digest IS NULL ORDER BY quarter LIMIT ?",
        (idempotency_keys.passed(unit) - idempotency_keys.KEPT_QUARTERS, BATCH),
    )
    if not rows:
        return False
    engine.overwrite_deleted(unit)
    unit.executemany(
        "UPDATE outbox SET text = '', error = '', more = NULL"
        " WHERE run_id = ? AND state IN ('sent', 'dropped')",
        [(row[1],) for row in rows],
    )
    _blank(unit, rows)
    unit.executemany("UPDATE run SET settled = TRUE WHERE serial = ?", [row[:1] for row in rows])
    return len(rows) == BATCH


def remove(unit: Unit) -> bool:
    """Deletes the rows of runs that ended a week ago; returns whether there may be more.

    Keeps the runs with parts that are not sent or dropped, and those that record the notices shown
    in an existing session.
    """
    before = idempotency_keys.passed(unit) - idempotency_keys.COUNTED_QUARTERS
    if before <= 0:
        return False
    engine.overwrite_deleted(unit)
    rows = unit.all(
        "SELECT run_id FROM run WHERE settled = TRUE"
        " AND quarter < ? AND result IS NOT NULL AND digest IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.run_id = run.run_id"
        " AND state NOT IN ('sent', 'dropped'))"
        " AND (NOT noticed OR session_id NOT IN (SELECT session_id FROM session))"
        " LIMIT ?",
        (before, BATCH),
    )
    if rows:
        unit.executemany("DELETE FROM outbox WHERE run_id = ?", rows)
        some = tuple(run_id for (run_id,) in rows)
        unit.execute(f"DELETE FROM inbound WHERE run_id IN ({marks(some)})", some)  # noqa: S608 - placeholders
        unit.executemany("DELETE FROM run WHERE run_id = ?", rows)
    return len(rows) == BATCH


def drop_without_run(unit: Unit, now: int) -> None:
    """Removes the texts of sent parts without a run after a day, and rows without one after a week.

    Such parts are notices, and messages that clients send with `send` and `poll`. Inbound messages
    without a run are group messages not addressed to an agent, and those of unpaired senders.
    """
    engine.overwrite_deleted(unit)
    none = "NOT EXISTS (SELECT 1 FROM run WHERE run.run_id ="
    over = f"state IN ('sent', 'dropped') AND updated_at < ? AND {none} outbox.run_id)"
    unit.execute(f"DELETE FROM outbox WHERE {over}", (now - 7 * DAY_MS,))  # noqa: S608 - constants
    unit.execute(
        f"UPDATE outbox SET text = '', error = '', more = NULL WHERE text <> '' AND {over}",  # noqa: S608 - constants
        (now - DAY_MS,),
    )
    unit.execute(
        f"DELETE FROM inbound WHERE received_at < ? AND {none} inbound.run_id)",  # noqa: S608 - constants
        (now - 7 * DAY_MS,),
    )


def forget_session(unit: Unit, session_id: str) -> None:
    """Removes the texts of a removed session from its runs and their parts.

    The runs keep their ids: a repeated key is recognised, and its answer is empty.
    """
    engine.overwrite_deleted(unit)
    rows = unit.all(
        "SELECT serial, run_id, request, result FROM run WHERE result IS NOT NULL"
        " AND (session_id = ? OR run_id IN (SELECT run_id FROM entry WHERE session_id = ?))",
        (session_id, session_id),
    )
    unit.executemany(
        "UPDATE outbox SET text = '', error = '', more = NULL,"
        " state = CASE WHEN state IN ('failed', 'unknown') THEN 'dropped' ELSE state END"
        " WHERE run_id = ? AND state NOT IN ('pending', 'sending')",
        [(row[1],) for row in rows],
    )
    _blank(unit, rows)


def _blank(unit: Unit, rows: Iterable[Row]) -> None:
    """Removes the texts of runs, given as rows of serial, run id, request and result."""
    unit.executemany(
        "UPDATE run SET partial = '', request = ?, result = ? WHERE serial = ?",
        [(_request(request), _result(result), serial) for serial, _, request, result in rows],
    )


def _request(stored: bytes) -> bytes:
    """Returns a request without texts; empty if it cannot be read."""
    request = _object(stored)
    if request is None:
        return b""
    fields = {name: value for name, value in request.items() if name not in _TEXTS}
    return msgspec.json.encode(fields | {"text": ""})


def _result(stored: bytes) -> bytes:
    """Returns a result without texts; unchanged if it cannot be read."""
    ended = _object(stored)
    if ended is None:
        return stored
    if isinstance(error := ended.get("error"), dict):
        ended["error"] = error | {"message": "", "attempts": []}
    return msgspec.json.encode(ended | {"payloads": []})


def _object(stored: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(stored)
    except (TypeError, *UNREADABLE):
        return None
    return value if isinstance(value, dict) else None
