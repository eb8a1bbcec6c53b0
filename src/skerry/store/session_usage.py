"""Usage and message counts of sessions, from the ledger of calls and the message counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skerry.store import message_counts, sessions
from skerry.store.message_counts import MessageCounts
from skerry.store.unit import Reader, marks
from skerry.store.usage import OF_CALLS, Sums


@dataclass(slots=True)
class SessionUsage:
    """Usage and message counts of one or several sessions over some days."""

    calls: dict[tuple[str, str, str], Sums] = field(default_factory=dict)
    """Sums by day, provider and model."""
    messages: dict[str, MessageCounts] = field(default_factory=dict)
    """Counts by day."""
    tools: dict[str, int] = field(default_factory=dict)
    """Number of calls of each tool."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each model response, by day."""
    first: int = 0
    last: int = 0
    """`first` and `last`: times at which the first and the last call ended; 0 without calls."""

    def add(self, added: "SessionUsage") -> None:
        """Adds the usage of another session."""
        for group, sums in added.calls.items():
            self.calls[group] = self.calls.get(group, Sums()).plus(sums)
        for day, counts in added.messages.items():
            self.messages[day] = self.messages.get(day, MessageCounts()).plus(counts)
        for name, count in added.tools.items():
            self.tools[name] = self.tools.get(name, 0) + count
        for day, seconds in added.seconds.items():
            self.seconds[day] = [*self.seconds.get(day, ()), *seconds]
        times = [at for at in (self.first, added.first) if at]
        self.first, self.last = min(times, default=0), max(self.last, added.last)


def of(
    reader: Reader,
    ids: Sequence[str],
    days: Sequence[str],
    begin: Callable[[str], int],
    max_rows: int = 1 << 62,
) -> dict[str, SessionUsage]:
    """Returns the usage of sessions over consecutive days, by session id.

    Stops after about `max_rows` rows; the sessions after them are missing. `begin` returns the
    start of a day in ms. Run it in a separate thread: there may be many calls.
    """
    usage: dict[str, SessionUsage] = {}
    for start in range(0, len(ids) if days else 0, _AT_ONCE):
        if max_rows <= 0:
            break
        some = _of(reader, ids[start : start + _AT_ONCE], days, begin)
        max_rows -= sum(len(used.calls) + len(used.messages) for used in some.values())
        usage |= some
    return usage


def _of(
    reader: Reader, ids: Sequence[str], days: Sequence[str], begin: Callable[[str], int]
) -> dict[str, SessionUsage]:
    usage: dict[str, SessionUsage] = {id_: SessionUsage() for id_ in ids}
    within = f"session_id IN ({marks(ids)})"
    _read_calls(reader, usage, within, (*ids, days[0], days[-1]))
    for session_id, day, counts in message_counts.by_day(reader, ids, days, begin):
        counts_by_day = usage[session_id].messages
        counts_by_day[day] = counts_by_day.get(day, MessageCounts()).plus(counts)
    for session_id, tool, count in message_counts.by_tool(reader, ids, days, begin):
        usage[session_id].tools[tool] = count
    return usage


def _read_calls(
    reader: Reader, usage: Mapping[str, SessionUsage], within: str, values: tuple[object, ...]
) -> None:
    for session_id, day, provider, model, first, last, *sums in reader.each(
        f"SELECT session_id, day, provider, model, min(at), max(at), {OF_CALLS} FROM model_call"  # noqa: S608 - constants
        f" WHERE {within} AND day BETWEEN ? AND ? GROUP BY 1, 2, 3, 4",
        values,
    ):
        used = usage[session_id]
        used.calls[day, provider, model] = Sums(*sums)
        used.first, used.last = min(used.first or first, first), max(used.last, last)
    for session_id, day, seconds in reader.each(
        f"SELECT session_id, day, seconds FROM model_call WHERE {within}"  # noqa: S608 - constants
        " AND day BETWEEN ? AND ? AND outcome = 'ok'",
        values,
    ):
        usage[session_id].seconds.setdefault(day, []).append(seconds)


_AT_ONCE: Final = 50


class UsagePoint(NamedTuple):
    """Usage of neighbouring calls, with the time at which the last of them ended."""

    at: int
    sums: Sums


def series(reader: Reader, session_id: str, max_points: int) -> list[UsagePoint]:
    """Returns a session's calls by time, combined into at most `max_points` points."""
    rows = reader.all(
        f"SELECT at, {OF_CALLS} FROM model_call WHERE session_id = ? GROUP BY serial ORDER BY at",  # noqa: S608 - constants
        (session_id,),
    )
    step = max(1, -(-len(rows) // max_points))
    points: list[UsagePoint] = []
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        sums = Sums()
        for row in some:
            sums = sums.plus(Sums(*row[1:]))
        points.append(UsagePoint(some[-1][0], sums))
    return points


def named(reader: Reader, key: str, agent: str) -> str | None:
    """Returns the id of the session with the key, or with the id at the end of the key."""
    session = sessions.find(reader, key)
    if session is None:
        session = sessions.get(reader, key.removeprefix(f"agent:{agent}:"))
    return session.session_id if session is not None else None
