"""Ledger of model calls: one row per call, and the sums of each day.

A call only adds its row. Every quarter of an hour the rows are added to the sums of their days,
which are kept longer than the rows. A query over a year reads a few thousand rows, however many
calls there were.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from operator import add
from typing import Final, NamedTuple

from msgspec import Struct

from skerry.model.message import Usage
from skerry.store.unit import AT_ONCE, Reader, Unit, marks


class CallOutcome(StrEnum):
    """Result of a call."""

    OK = "ok"
    ERROR = "error"
    ABORTED = "aborted"
    LOST = "lost"
    """The gateway ended during the call; its usage is unknown."""


class UsageGroup(StrEnum):
    """Key by which sums are grouped."""

    DAY = "day"
    MODEL = "model"
    AGENT = "agent"
    CHANNEL = "channel"
    PURPOSE = "purpose"
    SESSION = "session"
    """Conversation; its sums are from the rows of calls, which are kept for a limited time."""


class BookedCall(Struct, frozen=True):
    """One row of the ledger."""

    at: int
    """Time at which the call ended, in milliseconds since 1970."""
    day: str
    """Day of `at` in the person's time zone, `YYYY-MM-DD`."""
    run_id: str
    """Empty for a call outside a run."""
    session_id: str
    agent: str
    channel: str
    purpose: str
    provider: str
    model: str
    profile: str
    usage: Usage
    priced: bool
    """True when its cost is known."""
    outcome: CallOutcome
    counted: bool
    """True when its number of tokens is known."""
    seconds: float
    call_id: str = ""
    """Id of the call, also in the call log; empty in rows from before the call log."""


class Sums(NamedTuple):
    """Summed usage of several calls; costs in US dollars."""

    calls: int = 0
    failed: int = 0
    """Calls that failed, were aborted or were lost."""
    uncounted: int = 0
    """Calls with an unknown number of tokens, which count as 0."""
    unpriced: int = 0
    """Calls with an unknown cost, which counts as 0."""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    input_cost: float = 0.0
    output_cost: float = 0.0
    cache_read_cost: float = 0.0
    cache_write_cost: float = 0.0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Returns the total number of tokens."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def cost(self) -> float:
        """Returns the known part of the cost."""
        return self.input_cost + self.output_cost + self.cache_read_cost + self.cache_write_cost

    def plus(self, other: "Sums") -> "Sums":
        """Returns the sum of both."""
        return Sums._make(map(add, self, other))


_SUMS: Final = ", ".join(f"sum({name})" for name in Sums._fields)
_FIRST_SUMS: Final = (
    "1",
    "CASE WHEN outcome <> 'ok' THEN 1 ELSE 0 END",
    "CASE WHEN counted THEN 0 ELSE 1 END",
    "CASE WHEN counted AND input_cost IS NULL THEN 1 ELSE 0 END",
    *Sums._fields[4:8],
    *(f"coalesce({name}, 0.0)" for name in Sums._fields[8:12]),
    "seconds",
)
"""SQL terms of one row of `model_call` for the sums."""
OF_CALLS: Final = ", ".join(f"sum({term})" for term in _FIRST_SUMS)
_KEY: Final = "day, agent, channel, purpose, provider, model"
_USED: Final = (
    f"(SELECT {_KEY}, {', '.join(Sums._fields)} FROM usage_day UNION ALL"  # noqa: S608 - constants
    f" SELECT {_KEY}, {', '.join(_FIRST_SUMS)} FROM model_call WHERE folded = FALSE) AS used"
)
"""Subquery: the sums of days, and the calls that are not added to them yet."""
_GROUP: Final = {UsageGroup.MODEL: "provider || '/' || model"}
_PRUNED_AT_ONCE: Final = 5_000
_ADDED: Final = ", ".join(
    f"{field} = usage_day.{field} + excluded.{field}" for field in Sums._fields
)
_CALL: Final = (
    "INSERT INTO model_call (at, day, run_id, session_id, agent, channel, purpose, provider, model,"
    " profile, input, output, cache_read, cache_write, input_cost, output_cost, cache_read_cost,"
    " cache_write_cost, outcome, counted, seconds, call_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_FOLD: Final = (
    f"INSERT INTO usage_day ({_KEY}, {', '.join(Sums._fields)})"  # noqa: S608 - constants
    f" SELECT {_KEY}, {OF_CALLS} FROM model_call WHERE serial IN ({marks(range(AT_ONCE))})"
    f" GROUP BY {_KEY} ON CONFLICT ({_KEY}) DO UPDATE SET {_ADDED}"
)
_FOLDED: Final = f"UPDATE model_call SET folded = TRUE WHERE serial IN ({marks(range(AT_ONCE))})"  # noqa: S608 - constants


def sums_of(call: BookedCall) -> Sums:
    """Returns the usage that one call adds to its day."""
    usage, cost = call.usage, call.usage.cost
    return Sums(
        1,
        int(call.outcome is not CallOutcome.OK),
        int(not call.counted),
        int(call.counted and not call.priced),
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        cost.input,
        cost.output,
        cost.cache_read,
        cost.cache_write,
        call.seconds,
    )


def book(unit: Unit, call: BookedCall) -> None:
    """Adds a call to the ledger."""
    usage, cost = call.usage, call.usage.cost
    costs = cost.input, cost.output, cost.cache_read, cost.cache_write
    about = (call.agent, call.channel, call.purpose, call.provider, call.model)
    unit.execute(
        _CALL,
        (
            call.at,
            call.day,
            call.run_id,
            call.session_id,
            *about,
            call.profile,
            *(usage.input, usage.output, usage.cache_read, usage.cache_write),
            *(costs if call.priced else (None,) * 4),
            call.outcome,
            call.counted,
            call.seconds,
            call.call_id,
        ),
    )


def fold(unit: Unit) -> bool:
    """Adds a batch of calls to the sums of their days; returns whether there may be more."""
    rows = unit.all(
        "SELECT serial FROM model_call WHERE folded = FALSE ORDER BY day LIMIT ?", (AT_ONCE,)
    )
    serials = [serial for (serial,) in rows]
    some = (*serials, *(None,) * (AT_ONCE - len(serials)))
    if serials:
        unit.execute(_FOLD, some)
        unit.execute(_FOLDED, some)
    return len(serials) == AT_ONCE


def unbooked(reader: Reader, calls: Mapping[str, BookedCall]) -> list[BookedCall]:
    """Returns the calls, given by id, that are missing in the ledger.

    Searches only the rows of their sessions.
    """
    ids, booked = list({call.session_id for call in calls.values()}), set[str]()
    for at in range(0, len(ids), AT_ONCE):
        some = tuple(ids[at : at + AT_ONCE])
        rows = reader.all(
            "SELECT call_id FROM model_call"  # noqa: S608 - placeholders
            f" WHERE session_id IN ({marks(some)}) AND call_id <> ''",
            some,
        )
        booked.update(call_id for (call_id,) in rows)
    return [call for key, call in calls.items() if key not in booked]


def daily(reader: Reader, first: str, last: str, agent: str | None = None) -> dict[str, Sums]:
    """Returns the sums of each day with calls from `first` to `last`, in order."""
    return grouped(reader, UsageGroup.DAY, first, last, agent)


def grouped(
    reader: Reader, by: UsageGroup, first: str, last: str, agent: str | None = None
) -> dict[str, Sums]:
    """Returns the sums by group; days in order, other groups by cost, the highest first."""
    if by is UsageGroup.SESSION:
        return _by_session(reader, first, last, agent)
    name = _GROUP.get(by, by.value)
    order = "1" if by is UsageGroup.DAY else _DEAREST
    rows = reader.all(
        f"SELECT {name}, {_SUMS} FROM {_USED} WHERE day BETWEEN ? AND ?"  # noqa: S608 - constants
        f"{_of_agent(agent)} GROUP BY 1 ORDER BY {order}",
        (first, last, *_bound(agent)),
    )
    return {row[0]: Sums(*row[1:]) for row in rows}


_DEAREST: Final = (
    "coalesce(sum(input_cost + output_cost + cache_read_cost + cache_write_cost), 0.0) DESC,"
    " sum(input + output + cache_read + cache_write) DESC, 1"
)


_OF_KEY: Final = " AND session_id IN (SELECT session_id FROM session WHERE key = ?)"


def _of_agent(agent: str | None) -> str:
    return "" if agent is None else " AND agent = ?"


def _bound(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _by_session(reader: Reader, first: str, last: str, agent: str | None) -> dict[str, Sums]:
    """Returns the sums of each conversation by key, over all its sessions."""
    rows = reader.all(
        f"SELECT coalesce(key, session_id), {OF_CALLS} FROM model_call"  # noqa: S608 - constants
        " LEFT JOIN session USING (session_id) WHERE day BETWEEN ? AND ?"
        f"{_of_agent(agent)} GROUP BY 1 ORDER BY {_DEAREST}",
        (first, last, *_bound(agent)),
    )
    return {row[0]: Sums(*row[1:]) for row in rows}


def of_sessions(
    reader: Reader,
    first: str,
    last: str,
    limit: int,
    key: str | None = None,
    agent: str | None = None,
) -> dict[str, Sums]:
    """Returns the sums of up to `limit` sessions by id, those with the highest cost first."""
    of_key = "" if key is None else _OF_KEY
    rows = reader.all(
        f"SELECT session_id, {OF_CALLS} FROM model_call WHERE day BETWEEN ? AND ?"  # noqa: S608 - constants
        f"{of_key}{_of_agent(agent)} GROUP BY 1 ORDER BY {_DEAREST} LIMIT ?",
        (first, last, *_bound(key), *_bound(agent), limit),
    )
    return {row[0]: Sums(*row[1:]) for row in rows}


def by_day_and_model(
    reader: Reader, first: str, last: str, agent: str | None = None
) -> dict[tuple[str, str, str], Sums]:
    """Returns the sums by day, provider and model."""
    rows = reader.all(
        f"SELECT day, provider, model, {_SUMS} FROM {_USED} WHERE day BETWEEN ? AND ?"  # noqa: S608 - constants
        f"{_of_agent(agent)} GROUP BY 1, 2, 3 ORDER BY 1",
        (first, last, *_bound(agent)),
    )
    return {(row[0], row[1], row[2]): Sums(*row[3:]) for row in rows}


def by_day_and_agent(reader: Reader, first: str) -> dict[tuple[str, str], Sums]:
    """Returns the sums by day and agent, from `first` on."""
    rows = reader.all(
        f"SELECT day, agent, {_SUMS} FROM {_USED} WHERE day >= ? GROUP BY 1, 2",  # noqa: S608 - constants
        (first,),
    )
    return {(row[0], row[1]): Sums(*row[2:]) for row in rows}


def total(sums: Iterable[Sums]) -> Sums:
    """Returns the total of several sums."""
    sum_ = Sums()
    for part in sums:
        sum_ = sum_.plus(part)
    return sum_


def prune(unit: Unit, before: int) -> int:
    """Deletes a batch of rows of calls that ended before a time; returns the number of rows.

    The sums of their days are kept, and so are rows that are not added to them yet.
    """
    return unit.execute(
        "DELETE FROM model_call WHERE serial IN"
        " (SELECT serial FROM model_call WHERE at < ? AND folded = TRUE LIMIT ?)",
        (before, _PRUNED_AT_ONCE),
    )


def count_tool(unit: Unit, day: str, agent: str, key: str) -> None:
    """Counts a call of a tool in a conversation."""
    unit.execute(
        "INSERT INTO tool_day (day, agent, key, calls) VALUES (?, ?, ?, 1)"
        " ON CONFLICT (day, agent, key) DO UPDATE SET calls = tool_day.calls + 1",
        (day, agent, key),
    )


def tools_of_day(reader: Reader, day: str) -> dict[str, int]:
    """Returns the number of tool calls on a day, by agent."""
    rows = reader.all("SELECT agent, sum(calls) FROM tool_day WHERE day = ? GROUP BY 1", (day,))
    return dict(rows)


def drop_tools(unit: Unit, before: str) -> None:
    """Deletes the counts of tool calls of the days before `before`."""
    unit.execute("DELETE FROM tool_day WHERE day < ?", (before,))


def warned(reader: Reader) -> dict[str, str]:
    """Returns the day of the last warning for each budget."""
    return dict(reader.all("SELECT budget, day FROM usage_warned"))


def note_warned(unit: Unit, budget: str, day: str) -> None:
    """Stores the day of a warning."""
    unit.execute(
        "INSERT INTO usage_warned (budget, day) VALUES (?, ?)"
        " ON CONFLICT (budget) DO UPDATE SET day = excluded.day",
        (budget, day),
    )
