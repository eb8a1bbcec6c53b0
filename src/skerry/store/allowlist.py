"""Patterns of commands that an agent may always run, each with its last use."""

from collections.abc import Sequence

from msgspec import Struct

from skerry.model.message import storable
from skerry.store import audit
from skerry.store.unit import Reader, Row, Unit

MAX_PATTERNS = 1000
"""Limit on the patterns of one agent."""
MAX_NOTE = 1024
"""Limit on the characters of `last_command` and `last_path`."""
_COLUMNS = "agent, pattern, source, added_at, last_used_at, last_command, last_path"


class AllowedPattern(Struct, frozen=True):
    """One pattern. Times are milliseconds since 1970."""

    agent: str
    """Id of the agent; `*` is every agent."""
    pattern: str
    source: str = "person"
    """`allow-always`, `person` or `import`."""
    added_at: int = 0
    last_used_at: int | None = None
    last_command: str = ""
    last_path: str = ""


def patterns(reader: Reader, agent: str | None = None) -> list[AllowedPattern]:
    """Returns the patterns of an agent and of all agents, or every pattern."""
    if agent is None:
        rows = reader.all(f"SELECT {_COLUMNS} FROM allowlist ORDER BY agent, pattern")  # noqa: S608 - constant columns
    else:
        rows = reader.all(
            f"SELECT {_COLUMNS} FROM allowlist WHERE agent IN (?, '*')"  # noqa: S608 - constant columns
            " ORDER BY agent, pattern",
            (agent,),
        )
    return [_pattern(row) for row in rows]


def add(unit: Unit, agent: str, pattern: str, source: str, by: str, now: int) -> bool:
    """Adds a pattern; returns False if the agent already has it, or has `MAX_PATTERNS`."""
    count = unit.one("SELECT count(*) FROM allowlist WHERE agent = ?", (agent,))
    if count and int(count[0]) >= MAX_PATTERNS:
        return False
    added = unit.execute(
        "INSERT INTO allowlist (agent, pattern, source, added_at, last_command, last_path)"
        " VALUES (?, ?, ?, ?, '', '') ON CONFLICT (agent, pattern) DO NOTHING",
        (agent, storable(pattern), source, now),
    )
    if added:
        facts = {"agent": agent, "pattern": pattern, "source": source, "by": by}
        audit.append(unit, now, "allowlist.added", facts)
    return bool(added)


def remove(unit: Unit, agent: str, pattern: str, by: str, now: int) -> bool:
    """Removes a pattern; returns False if the agent does not have it."""
    removed = unit.execute(
        "DELETE FROM allowlist WHERE agent = ? AND pattern = ?", (agent, pattern)
    )
    if removed:
        facts = {"agent": agent, "pattern": pattern, "by": by}
        audit.append(unit, now, "allowlist.removed", facts)
    return bool(removed)


def used(
    unit: Unit, agent: str, used_patterns: Sequence[str], command: str, path: str, now: int
) -> None:
    """Notes the last use of patterns."""
    for pattern in used_patterns:
        unit.execute(
            "UPDATE allowlist SET last_used_at = ?, last_command = ?, last_path = ?"
            " WHERE agent IN (?, '*') AND pattern = ?",
            (now, storable(command[:MAX_NOTE]), storable(path[:MAX_NOTE]), agent, pattern),
        )


def _pattern(row: Row) -> AllowedPattern:
    return AllowedPattern(*row)
