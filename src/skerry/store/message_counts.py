"""Counts of the messages and tool calls of each session, by quarter of an hour.

They are written in the unit of the messages, so that a query over a year parses no transcript.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from operator import add
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.message import (
    AssistantMessage,
    CompactionMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from skerry.store.unit import Reader, Unit, marks

_QUARTER_MS: Final = 900_000
"""Length of a quarter of an hour; the days of every time zone begin with one."""
_QUARTERS: Final = 96
"""Quarters of an hour in a day without a clock change."""
_CALL: Final = "toolCall"
_COUNTS: Final = (
    "sum(CASE WHEN role = 'user' THEN count ELSE 0 END),"
    " sum(CASE WHEN role = 'assistant' THEN count ELSE 0 END),"
    " sum(CASE WHEN role = 'toolCall' THEN count ELSE 0 END),"
    " sum(CASE WHEN role = 'toolResult' THEN count ELSE 0 END), sum(failed)"
)
_ADD: Final = (
    "INSERT INTO tally (session_id, quarter, role, tool, count, failed) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (session_id, quarter, role, tool) DO UPDATE SET"
    " count = tally.count + excluded.count, failed = tally.failed + excluded.failed"
)


class _Line(Struct, rename="camel"):
    """The fields of a stored message that are counted; they may be readable in a broken one."""

    role: str
    stop_reason: str = ""
    is_error: bool = False
    content: Any = ()


_lines: Final = msgspec.json.Decoder(_Line)


class MessageCounts(NamedTuple):
    """Counts of transcript messages."""

    user: int = 0
    assistant: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    errors: int = 0

    @property
    def total(self) -> int:
        """Returns the number of messages of persons and the agent."""
        return self.user + self.assistant

    def plus(self, other: "MessageCounts") -> "MessageCounts":
        """Returns the sum of both."""
        return MessageCounts._make(map(add, self, other))


def note(unit: Unit, session_id: str, at: int, messages: Iterable[Message]) -> None:
    """Counts messages that the unit appends at time `at`; summaries do not count."""
    counts: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for message in messages:
        match message:
            case CompactionMessage():
                pass
            case UserMessage():
                counts["user", ""] += 1
            case AssistantMessage():
                counts["assistant", ""] += 1
                failed["assistant", ""] += message.stop_reason == "error"
                counts.update((_CALL, call.name) for call in message.tool_calls)
            case ToolResultMessage():
                counts["toolResult", ""] += 1
                failed["toolResult", ""] += message.is_error
    slot = at // _QUARTER_MS
    rows = [(session_id, slot, *group, count, failed[group]) for group, count in counts.items()]
    unit.executemany(_ADD, rows)


def recount(unit: Unit, session_id: str) -> None:
    """Counts a session again, after its messages were changed."""
    remove(unit, session_id)
    counts: Counter[tuple[int, str, str]] = Counter()
    failed: Counter[tuple[int, str, str]] = Counter()
    for at, body in unit.all(
        "SELECT at, body FROM entry WHERE session_id = ? AND kind IS NULL", (session_id,)
    ):
        try:
            line = _lines.decode(body)
        except (TypeError, *UNREADABLE):
            continue  # reading the transcript reports it
        slot = at // _QUARTER_MS, line.role, ""
        counts[slot] += 1
        failed[slot] += line.stop_reason == "error" or line.is_error
        for block in line.content if isinstance(line.content, list) else ():
            if isinstance(block, dict) and block.get("type") == _CALL:
                counts[slot[0], _CALL, block.get("name", "")] += 1
    rows = [(session_id, *slot, count, failed[slot]) for slot, count in counts.items()]
    unit.executemany(_ADD, rows)


def remove(unit: Unit, session_id: str) -> None:
    """Removes the counts of a session."""
    unit.execute("DELETE FROM tally WHERE session_id = ?", (session_id,))


def by_day(
    reader: Reader, ids: Sequence[str], days: Sequence[str], begin: Callable[[str], int]
) -> Iterator[tuple[str, str, MessageCounts]]:
    """Yields (session id, day, counts) for consecutive days.

    A day with a clock change may be yielded twice. `begin` returns the start of a day in ms.
    """
    for part in _even(days, begin):
        first, end = _bounds(part, begin)
        for session_id, number, *counts in reader.each(
            f"SELECT session_id, (quarter - ?) / {_QUARTERS}, {_COUNTS} FROM tally"  # noqa: S608 - constants
            f" WHERE {_among(ids)} AND quarter >= ? AND quarter < ? GROUP BY 1, 2",
            (first, *ids, first, end),
        ):
            day = part[min(number, len(part) - 1)]
            yield session_id, day, MessageCounts._make(map(int, counts))


def by_tool(
    reader: Reader, ids: Sequence[str], days: Sequence[str], begin: Callable[[str], int]
) -> Iterator[tuple[str, str, int]]:
    """Yields (session id, tool, number of calls) over all of these days."""
    yield from reader.each(
        f"SELECT session_id, tool, sum(count) FROM tally WHERE {_among(ids)}"  # noqa: S608 - constants
        f" AND quarter >= ? AND quarter < ? AND role = '{_CALL}' GROUP BY 1, 2",
        (*ids, *_bounds(days, begin)),
    )


def _among(ids: Sequence[str]) -> str:
    return f"session_id IN ({marks(ids)})"


def _even(days: Sequence[str], begin: Callable[[str], int]) -> list[list[str]]:
    """Splits the days into parts in which every day but the last has 24 hours."""
    parts: list[list[str]] = [[]]
    for day in days:
        part = parts[-1]
        if part and begin(day) - begin(part[-1]) != _QUARTERS * _QUARTER_MS:
            parts.append([])
        parts[-1].append(day)
    return parts


def _bounds(days: Sequence[str], begin: Callable[[str], int]) -> tuple[int, int]:
    """Returns the first quarter of these days, and the first after them."""
    following = str(date.fromisoformat(days[-1]) + timedelta(days=1))
    return begin(days[0]) // _QUARTER_MS, begin(following) // _QUARTER_MS
