"""Counts of what was said: messages and calls of tools of each session, by quarters of an hour.

They are written with the messages, so that a question about a year parses no transcript.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from skerry.model.message import (
    AssistantMessage,
    CompactionMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from skerry.store.unit import Reader, Unit

_QUARTER_MS: Final = 900_000
"""Days of every time zone begin with one of these quarters of an hour."""
_QUARTERS: Final = 96
"""Those of a day on which no clock is changed."""
_CALL: Final = "toolCall"
_COUNTS: Final = (
    "total(count) FILTER (WHERE role = 'user'), total(count) FILTER (WHERE role = 'assistant'),"
    " total(count) FILTER (WHERE role = 'toolCall'),"
    " total(count) FILTER (WHERE role = 'toolResult'), total(failed)"
)
_ADD: Final = (
    "INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET count = count + excluded.count, failed = failed + excluded.failed"
)
_BODIES: Final = (
    "SELECT session_id, at, CAST(body AS TEXT) AS body FROM entry"
    " WHERE session_id = ? AND kind IS NULL"
)
_MESSAGES: Final = (
    "INSERT INTO tally SELECT session_id, at / 900000, json_extract(body, '$.role'), '', count(*),"  # noqa: S608 - constants
    " total(coalesce(json_extract(body, '$.stopReason') = 'error', 0)"
    " OR coalesce(json_extract(body, '$.isError'), 0))"
    f" FROM ({_BODIES}) WHERE json_valid(body) AND json_extract(body, '$.role') IS NOT NULL"
    " GROUP BY 1, 2, 3"
)
_CALLS: Final = (
    "INSERT INTO tally SELECT session_id, at / 900000, 'toolCall',"  # noqa: S608 - constants
    " coalesce(json_extract(call.value, '$.name'), ''), count(*), 0"
    f" FROM ({_BODIES}), json_each(iif(json_valid(body), body, '{{}}'), '$.content') AS call"
    " WHERE iif(call.type = 'object', json_extract(call.value, '$.type'), '') = 'toolCall'"
    " GROUP BY 1, 2, 4"
)


class Said(NamedTuple):
    """Messages of transcripts, counted."""

    user: int = 0
    assistant: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    errors: int = 0

    @property
    def total(self) -> int:
        """Return how many a person, or the agent, said."""
        return self.user + self.assistant

    def plus(self, other: "Said") -> "Said":
        """Return both together."""
        return Said._make(mine + its for mine, its in zip(self, other, strict=True))


def note(unit: Unit, session_id: str, at: int, messages: Iterable[Message]) -> None:
    """Count messages that are written now, at the time that their rows have; a summary is none."""
    found: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for one in messages:
        match one:
            case CompactionMessage():
                pass
            case UserMessage():
                found["user", ""] += 1
            case AssistantMessage():
                found["assistant", ""] += 1
                failed["assistant", ""] += one.stop_reason == "error"
                found.update((_CALL, call.name) for call in one.tool_calls)
            case ToolResultMessage():
                found["toolResult", ""] += 1
                failed["toolResult", ""] += one.is_error
    slot = at // _QUARTER_MS
    rows = [(session_id, slot, *what, count, failed[what]) for what, count in found.items()]
    unit.executemany(_ADD, rows)


def recount(unit: Unit, session_id: str) -> None:
    """Count a session anew, after messages of it were changed."""
    remove(unit, session_id)
    unit.execute(_MESSAGES, (session_id,))
    unit.execute(_CALLS, (session_id,))


def remove(unit: Unit, session_id: str) -> None:
    """Remove the counts of a session."""
    unit.execute("DELETE FROM tally WHERE session_id = ?", (session_id,))


def by_day(
    reader: Reader, ids: Sequence[str], days: Sequence[str], begin: Callable[[str], int]
) -> Iterator[tuple[str, str, Said]]:
    """Give what was said in each session on these days, which follow one another.

    A day on which clocks change may come twice. `begin` tells when a day begins.
    """
    for part in _even(days, begin):
        first, end = _bounds(part, begin)
        for session_id, number, *counts in reader.each(
            f"SELECT session_id, (quarter - ?) / {_QUARTERS}, {_COUNTS} FROM tally"  # noqa: S608 - constants
            f" WHERE {_among(ids)} AND quarter >= ? AND quarter < ? GROUP BY 1, 2",
            (first, *ids, first, end),
        ):
            day = part[min(number, len(part) - 1)]
            yield session_id, day, Said._make(map(int, counts))


def by_tool(
    reader: Reader, ids: Sequence[str], days: Sequence[str], begin: Callable[[str], int]
) -> Iterator[tuple[str, str, int]]:
    """Give how often each session called each tool on these days together."""
    yield from reader.each(
        f"SELECT session_id, tool, sum(count) FROM tally WHERE {_among(ids)}"  # noqa: S608 - constants
        f" AND quarter >= ? AND quarter < ? AND role = '{_CALL}' GROUP BY 1, 2",
        (*ids, *_bounds(days, begin)),
    )


def _among(ids: Sequence[str]) -> str:
    return f"session_id IN ({', '.join('?' * len(ids))})"


def _even(days: Sequence[str], begin: Callable[[str], int]) -> list[list[str]]:
    """Return the days in parts in which all have 24 hours, but for the last of a part."""
    parts: list[list[str]] = [[]]
    for day in days:
        part = parts[-1]
        if part and begin(day) - begin(part[-1]) != _QUARTERS * _QUARTER_MS:
            parts.append([])
        parts[-1].append(day)
    return parts


def _bounds(days: Sequence[str], begin: Callable[[str], int]) -> tuple[int, int]:
    """Return the first quarter of these days, and the first after them."""
    following = str(date.fromisoformat(days[-1]) + timedelta(days=1))
    return begin(days[0]) // _QUARTER_MS, begin(following) // _QUARTER_MS
