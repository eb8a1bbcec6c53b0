"""Idempotency keys of methods that are no runs, and when each key is free again.

A key is kept for the next 24 hours in which a gateway runs. They are counted in quarters by the
gateway itself, not read from the clock: one that is set forward must not free a key too early.
"""

from typing import Final

from msgspec import Struct

from skerry.store.unit import Reader, Unit

QUARTER_SECONDS: Final = 900.0
KEPT_QUARTERS: Final = 96
"""A day."""
COUNTED_QUARTERS: Final = 672
"""A week: as long as anything is kept that is counted in them."""
NOW: Final = "(SELECT coalesce(max(quarters), 0) FROM uptime)"
"""The present quarter, which a row that is written now belongs to."""


class UsedKey(Struct, frozen=True):
    """Use of a key."""

    digest: bytes
    answer: bytes | None
    """None when the process ended after the effect, before it was answered."""


def find(reader: Reader, method: str, key: str) -> UsedKey | None:
    """Returns the use of the key; None when it is free."""
    row = reader.one(
        "SELECT digest, answer FROM answered WHERE method = ? AND key = ?", (method, key)
    )
    return UsedKey(*row) if row else None


def use(unit: Unit, method: str, key: str, digest: bytes) -> None:
    """Uses the key, in the unit of the effect: both are there, or none."""
    unit.execute(
        f"INSERT INTO answered (method, key, digest, quarter) VALUES (?, ?, ?, {NOW})",  # noqa: S608 - a constant
        (method, key, digest),
    )


def free(unit: Unit, method: str, key: str) -> None:
    """Forgets that the key was used: nothing came of it."""
    unit.execute("DELETE FROM answered WHERE method = ? AND key = ?", (method, key))


def answer(unit: Unit, method: str, key: str, encoded: bytes) -> None:
    """Keeps what was answered."""
    unit.execute(
        "UPDATE answered SET answer = ? WHERE method = ? AND key = ?", (encoded, method, key)
    )


def pass_quarter(unit: Unit) -> None:
    """Notes that a quarter of an hour has passed; frees the keys that were used a day before."""
    unit.execute("UPDATE uptime SET quarters = quarters + 1")
    before = (passed(unit) - KEPT_QUARTERS,)
    unit.execute("DELETE FROM answered WHERE quarter < ?", before)
    # The row stays: it counts what was used. Only its name is free; no client's key has a `§`.
    unit.execute(
        "UPDATE run SET run_id = '§' || serial, digest = NULL WHERE settled = FALSE"
        " AND quarter < ? AND digest IS NOT NULL AND result IS NOT NULL",
        before,
    )


def passed(reader: Reader) -> int:
    """Returns in how many quarters of an hour a gateway ran."""
    row = reader.one(f"SELECT {NOW}")
    return int(row[0]) if row else 0
