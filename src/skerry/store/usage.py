"""The tokens that runs used, added up from their stored results."""

from dataclasses import dataclass

from skerry.store.unit import Reader


@dataclass(frozen=True, slots=True)
class DayUsage:
    """What the runs of one day (UTC, `YYYY-MM-DD`) with one model used."""

    day: str
    provider: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int


def daily(reader: Reader, since_ms: int, until_ms: int) -> list[DayUsage]:
    """Return the usage of runs that ended in this time, by day and model, the first day first."""
    rows = reader.all(
        "SELECT date(json_extract(told, '$.endedAt') / 1000, 'unixepoch') AS day,"
        " json_extract(told, '$.provider') AS provider, json_extract(told, '$.model') AS model,"
        " sum(json_extract(told, '$.usage.input')), sum(json_extract(told, '$.usage.output')),"
        " sum(json_extract(told, '$.usage.cacheRead')),"
        " sum(json_extract(told, '$.usage.cacheWrite'))"
        " FROM (SELECT CAST(result AS TEXT) AS told FROM run WHERE result IS NOT NULL)"
        " WHERE json_extract(told, '$.endedAt') BETWEEN ? AND ?"
        " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        (since_ms, until_ms),
    )
    return [DayUsage(*row) for row in rows]
