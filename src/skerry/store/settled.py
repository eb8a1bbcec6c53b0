"""What settled runs leave behind: their texts go after a day, their rows after a week.

What was said stands in the transcript. A run repeats it in its request, its result and its parts in
the outbox, so that a repeated key is answered as before and a part can be sent again. Once the key
is free these copies have no use. Days are counted in quarters in which a gateway runs (see `keys`),
so that a clock that is set frees nothing too early.
"""

from typing import Final

from skerry.store import keys
from skerry.store.unit import Unit

BATCH: Final = 500
"""Runs in one unit: other units wait behind it."""

_REQUEST: Final = (
    "CASE WHEN json_valid(CAST(request AS TEXT)) THEN CAST(json_remove("
    "json_set(CAST(request AS TEXT), '$.text', '', '$.extra_system_prompt', ''),"
    " '$.images', '$.inline', '$.opening') AS BLOB) ELSE x'' END"
)
_RESULT: Final = (
    "CASE WHEN json_valid(CAST(result AS TEXT)) THEN CAST(iif("
    "json_type(CAST(result AS TEXT), '$.error') = 'object',"
    " json_set(CAST(result AS TEXT), '$.payloads', json('[]'), '$.error.message', '',"
    " '$.error.attempts', json('[]')),"
    " json_set(CAST(result AS TEXT), '$.payloads', json('[]'))) AS BLOB) ELSE result END"
)
_BLANK: Final = f"UPDATE run SET partial = '', request = {_REQUEST}, result = {_RESULT}"  # noqa: S608 - constants


def blank(unit: Unit) -> bool:
    """Take the texts out of runs whose keys are free again; return whether there may be more."""
    bound = _bound(unit, keys.KEPT_QUARTERS)
    row = unit.one(
        "SELECT blanked, coalesce((SELECT min(serial) - 1 FROM run WHERE result IS NULL), ?)"
        " FROM settled",
        (bound,),
    )
    after, closed = row or (0, 0)
    last = min(bound, closed, after + BATCH)
    if last <= after:
        return False
    _safely(unit)
    there = "SELECT run_id FROM run WHERE serial > ? AND serial <= ?"
    unit.execute(
        "UPDATE outbox SET text = '', error = '' WHERE state IN ('sent', 'dropped')"  # noqa: S608 - a constant
        f" AND run_id IN ({there})",
        (after, last),
    )
    unit.execute(f"{_BLANK} WHERE digest IS NULL AND serial > ? AND serial <= ?", (after, last))
    unit.execute("UPDATE settled SET blanked = ?", (last,))
    return bool(last == after + BATCH)


def remove(unit: Unit) -> bool:
    """Delete the rows of runs that ended a week ago; return whether there may be more.

    Those stay whose parts wait for a person, and those that tell which notices a session's people
    have had.
    """
    bound = _bound(unit, keys.COUNTED_QUARTERS)
    if not bound:
        return False
    _safely(unit)
    gone = unit.execute(
        "DELETE FROM run WHERE serial IN (SELECT serial FROM run WHERE serial <= ?"
        " AND result IS NOT NULL AND digest IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.run_id = run.run_id"
        " AND state NOT IN ('sent', 'dropped'))"
        " AND (NOT json_valid(CAST(result AS TEXT))"
        " OR coalesce(json_array_length(CAST(result AS TEXT), '$.notices'), 0) = 0"
        " OR session_id NOT IN (SELECT session_id FROM session))"
        " LIMIT ?)",
        (bound, BATCH),
    )
    if gone == BATCH:
        return True
    if gone:
        no_run = "NOT EXISTS (SELECT 1 FROM run WHERE run.run_id ="
        unit.execute(
            f"DELETE FROM outbox WHERE state IN ('sent', 'dropped') AND {no_run} outbox.run_id)"  # noqa: S608 - a constant
        )
        unit.execute(f"DELETE FROM inbound WHERE {no_run} inbound.run_id)")  # noqa: S608 - as above
    return False


def forget_session(unit: Unit, session_id: str) -> None:
    """Take the texts of a session that is removed out of its runs and their parts.

    The runs keep their ids: a key that is repeated is known. Its answer is empty then.
    """
    _safely(unit)
    runs = (
        "SELECT run_id FROM run WHERE result IS NOT NULL AND (session_id = ? OR run_id IN"
        " (SELECT run_id FROM entry WHERE session_id = ?))"
    )
    unit.execute(
        "UPDATE outbox SET text = '', error = '',"  # noqa: S608 - a constant
        " state = iif(state IN ('failed', 'unknown'), 'dropped', state)"
        f" WHERE state NOT IN ('pending', 'sending') AND run_id IN ({runs})",
        (session_id, session_id),
    )
    unit.execute(
        f"{_BLANK} WHERE run_id IN ({runs})",
        (session_id, session_id),
    )


def _bound(unit: Unit, quarters: int) -> int:
    """Return the last run that was accepted so many quarters ago; 0 where nobody counted so far."""
    row = unit.one("SELECT run FROM quarter ORDER BY serial DESC LIMIT 1 OFFSET ?", (quarters,))
    return int(row[0]) if row else 0


def _safely(unit: Unit) -> None:
    """Have what is deleted overwritten in the file."""
    unit.execute("PRAGMA secure_delete = ON")
