"""Counts of what was said: messages and calls of tools of each session, by quarters of an hour.

They are written with the messages, so that a question about a year parses no transcript.
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
"""Days of every time zone begin with one of these quarters of an hour."""
_QUARTERS: Final = 96
"""Quarters of a day on which no clock is changed."""
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
    """A stored message as far as it is counted; also one that cannot be shown."""

    role: str
    stop_reason: str = ""
    is_error: bool = False
    content: Any = ()


_lines: Final = msgspec.json.Decoder(_Line)


class MessageCounts(NamedTuple):
    """Messages of transcripts, counted."""

    user: int = 0
    assistant: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    errors: int = 0

    @property
    def total(self) -> int:
        """Returns how many a person, or the agent, said."""
        return self.user + self.assistant

    def plus(self, other: "MessageCounts") -> "MessageCounts":
        """Returns both together."""
        return MessageCounts._make(map(add, self, other))


def note(unit: Unit, session_id: str, at: int, messages: Iterable[Message]) -> None:
    """Counts messages that are written now, at the time that their rows have; a summary is none."""
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
    """Counts a session anew, after messages of it were changed."""
    remove(unit, session_id)
    counts: Counter[tuple[int, str, str]] = Counter()
    failed: Counter[tuple[int, str, str]] = Counter()
    for at, body in unit.all(
        "SELECT at, body FROM entry WHERE session_id = ? AND kind IS NULL", (session_id,)
    ):
        try:
            line = _lines.decode(body)
        except (TypeError, *UNREADABLE):
            continue  # whoever reads the transcript tells of it
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
    """Gives what was said in each session on these days, which follow one another.

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
            yield session_id, day, MessageCounts._make(map(int, counts))


def by_tool(
    reader: Reader, ids: Sequence[str], days: Sequence[str], begin: Callable[[str], int]
) -> Iterator[tuple[str, str, int]]:
    """Gives how often each session called each tool on these days together."""
    yield from reader.each(
        f"SELECT session_id, tool, sum(count) FROM tally WHERE {_among(ids)}"  # noqa: S608 - constants
        f" AND quarter >= ? AND quarter < ? AND role = '{_CALL}' GROUP BY 1, 2",
        (*ids, *_bounds(days, begin)),
    )


def _among(ids: Sequence[str]) -> str:
    return f"session_id IN ({marks(ids)})"


def _even(days: Sequence[str], begin: Callable[[str], int]) -> list[list[str]]:
    """Returns the days in parts in which all have 24 hours, but for the last of a part."""
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
