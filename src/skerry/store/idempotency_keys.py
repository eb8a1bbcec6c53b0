"""Idempotency keys of methods that start no run, and the time after which a key is free again.

A key is kept for 24 hours of gateway uptime. The gateway counts them in quarters of an hour and
does not read the clock: a clock that is set forward must not free a key too early.
"""

from typing import Final

from msgspec import Struct

from skerry.store.unit import Reader, Unit

QUARTER_SECONDS: Final = 900.0
KEPT_QUARTERS: Final = 96
"""A day."""
COUNTED_QUARTERS: Final = 672
"""A week, the longest retention that is counted in quarters."""
NOW: Final = "(SELECT coalesce(max(quarters), 0) FROM uptime)"
"""SQL of the present quarter, which is stored in new rows."""


class UsedKey(Struct, frozen=True):
    """Use of a key."""

    digest: bytes
    answer: bytes | None
    """None when the process ended after the effect but before the answer."""


def find(reader: Reader, method: str, key: str) -> UsedKey | None:
    """Returns the use of the key; None when it is free."""
    row = reader.one(
        "SELECT digest, answer FROM answered WHERE method = ? AND key = ?", (method, key)
    )
    return UsedKey(*row) if row else None


def use(unit: Unit, method: str, key: str, digest: bytes) -> None:
    """Marks the key as used, in the unit of the effect: both are committed, or neither."""
    unit.execute(
        f"INSERT INTO answered (method, key, digest, quarter) VALUES (?, ?, ?, {NOW})",  # noqa: S608 - a constant
        (method, key, digest),
    )


def free(unit: Unit, method: str, key: str) -> None:
    """Frees the key of a request that had no effect."""
    unit.execute("DELETE FROM answered WHERE method = ? AND key = ?", (method, key))


def answer(unit: Unit, method: str, key: str, encoded: bytes) -> None:
    """Stores the answer to the request with the key."""
    unit.execute(
        "UPDATE answered SET answer = ? WHERE method = ? AND key = ?", (encoded, method, key)
    )


def pass_quarter(unit: Unit) -> None:
    """Counts a quarter of an hour, and frees the keys that were used a day before."""
    unit.execute("UPDATE uptime SET quarters = quarters + 1")
    before = (passed(unit) - KEPT_QUARTERS,)
    unit.execute("DELETE FROM answered WHERE quarter < ?", before)
    # The row is kept for its other columns. Only its id is free; no client's key has a `§`.
    unit.execute(
        "UPDATE run SET run_id = '§' || serial, digest = NULL WHERE settled = FALSE"
        " AND quarter < ? AND digest IS NOT NULL AND result IS NOT NULL",
        before,
    )


def passed(reader: Reader) -> int:
    """Returns the number of quarters of an hour in which a gateway ran."""
    row = reader.one(f"SELECT {NOW}")
    return int(row[0]) if row else 0
