"""What sessions used and what was said in them: the ledger beside the transcript."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skerry.store import sessions
from skerry.store.unit import Reader
from skerry.store.usage import OF_CALLS, Sums

_SLOT_MS: Final = 900_000
"""Days of every time zone begin with one of these quarters of an hour."""
_TEXT: Final = "CAST(body AS TEXT)"


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


@dataclass(slots=True)
class Used:
    """What one session, or several together, used and said in some days."""

    calls: dict[tuple[str, str, str], Sums] = field(default_factory=dict)
    """By day, provider and model."""
    said: dict[str, Said] = field(default_factory=dict)
    """By day."""
    tools: dict[str, int] = field(default_factory=dict)
    """How often each was called."""
    seconds: list[tuple[str, float]] = field(default_factory=list)
    """The day of each answer of a model, and how long it took."""
    first: int = 0
    last: int = 0
    """When the first of its calls ended, and the last; 0 when it made none."""

    def add(self, other: "Used") -> None:
        """Add what another session used."""
        for place, sums in other.calls.items():
            self.calls[place] = self.calls.get(place, Sums()).plus(sums)
        for day, said in other.said.items():
            self.said[day] = self.said.get(day, Said()).plus(said)
        for name, count in other.tools.items():
            self.tools[name] = self.tools.get(name, 0) + count
        self.seconds += other.seconds
        known = [at for at in (self.first, other.first) if at]
        self.first, self.last = min(known, default=0), max(self.last, other.last)


def of(
    reader: Reader, ids: Sequence[str], days: Sequence[str], day_of: Callable[[int], str]
) -> dict[str, Used]:
    """Return what these sessions used and said on these days.

    It reads every message of theirs: for a thread of its own. `day_of` tells the day of a time.
    """
    found: dict[str, Used] = {one: Used() for one in ids}
    if not days:
        return found
    within = f"session_id IN ({', '.join('?' * len(ids))})"
    _read_calls(reader, found, within, (*ids, days[0], days[-1]))
    wanted = frozenset(days)
    for session_id, day, said in _counted(reader, within, ids, day_of):
        if day in wanted:
            own = found[session_id].said
            own[day] = own.get(day, Said()).plus(said)
    for session_id, day, name, count in _tools(reader, within, ids, day_of):
        if day in wanted:
            one = found[session_id]
            one.tools[name] = one.tools.get(name, 0) + count
            one.said[day] = one.said.get(day, Said()).plus(Said(tool_calls=count))
    return found


def _read_calls(
    reader: Reader, found: Mapping[str, Used], within: str, values: tuple[object, ...]
) -> None:
    for session_id, day, provider, model, first, last, *sums in reader.each(
        f"SELECT session_id, day, provider, model, min(at), max(at), {OF_CALLS} FROM model_call"  # noqa: S608 - constants
        f" WHERE {within} AND day BETWEEN ? AND ? GROUP BY 1, 2, 3, 4",
        values,
    ):
        found[session_id].add(Used({(day, provider, model): Sums(*sums)}, first=first, last=last))
    for session_id, day, seconds in reader.each(
        f"SELECT session_id, day, seconds FROM model_call WHERE {within}"  # noqa: S608 - constants
        " AND day BETWEEN ? AND ? AND outcome = 'ok'",
        values,
    ):
        found[session_id].seconds.append((day, seconds))


def _counted(
    reader: Reader, within: str, ids: Sequence[str], day_of: Callable[[int], str]
) -> Iterator[tuple[str, str, Said]]:
    for session_id, slot, role, count, failed in reader.each(
        f"SELECT session_id, at / {_SLOT_MS}, json_extract({_TEXT}, '$.role'), count(*),"  # noqa: S608 - constants
        f" total(json_extract({_TEXT}, '$.stopReason') = 'error'"
        f" OR coalesce(json_extract({_TEXT}, '$.isError'), 0))"
        f" FROM entry WHERE {within} AND kind IS NULL GROUP BY 1, 2, 3",
        tuple(ids),
    ):
        said = Said(
            user=count if role == "user" else 0,
            assistant=count if role == "assistant" else 0,
            tool_results=count if role == "toolResult" else 0,
            errors=int(failed),
        )
        yield session_id, day_of(slot * _SLOT_MS), said


def _tools(
    reader: Reader, within: str, ids: Sequence[str], day_of: Callable[[int], str]
) -> Iterator[tuple[str, str, str, int]]:
    for session_id, slot, name, count in reader.each(
        f"SELECT session_id, at / {_SLOT_MS}, json_extract(block.value, '$.name'), count(*)"  # noqa: S608 - constants
        f" FROM entry, json_each({_TEXT}, '$.content') AS block WHERE {within} AND kind IS NULL"
        " AND block.type = 'object' AND CASE block.type WHEN 'object'"
        " THEN json_extract(block.value, '$.type') END = 'toolCall' GROUP BY 1, 2, 3",
        tuple(ids),
    ):
        yield session_id, day_of(slot * _SLOT_MS), name, count


class Point(NamedTuple):
    """What calls used that ended until a time."""

    at: int
    sums: Sums


def series(reader: Reader, session_id: str, most: int) -> list[Point]:
    """Return a session's calls in order of time, neighbours together where there are too many."""
    rows = reader.all(
        f"SELECT at, {OF_CALLS} FROM model_call WHERE session_id = ? GROUP BY serial ORDER BY at",  # noqa: S608 - constants
        (session_id,),
    )
    step = max(1, -(-len(rows) // most))
    points: list[Point] = []
    for place in range(0, len(rows), step):
        some = rows[place : place + step]
        sums = Sums()
        for row in some:
            sums = sums.plus(Sums(*row[1:]))
        points.append(Point(some[-1][0], sums))
    return points


def named(reader: Reader, key: str, agent: str) -> str | None:
    """Return the session that a key, or the id at its end, names."""
    found = sessions.find(reader, key)
    if found is None:
        found = sessions.get(reader, key.removeprefix(f"agent:{agent}:"))
    return found.session_id if found is not None else None
