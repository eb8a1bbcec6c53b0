"""Used signatures, and hashes of bodies: neither starts a second run under another key."""

from collections.abc import Collection
from typing import Final

from skerry.store.unit import Reader, Unit, marks

STEPS: Final = (
    """
    CREATE TABLE webhooks_signature (
        signature TEXT PRIMARY KEY,
        run_id TEXT NOT NULL,
        at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX webhooks_signature_at ON webhooks_signature (at)
    """,
)
KEPT: Final = ("webhooks_signature",)
"""Tables whose newer rows stay when a backup is restored: a used signature stays used."""
TEXTS: Final = ()
"""No column contains text of people; an erasure reads this."""
KEPT_DAYS: Final = 30
_DAY_MS: Final = 86_400_000


class ReplayedError(Exception):
    """A signature was used before, for another run."""


def note(unit: Unit, signature: str, run_id: str, now: int) -> None:
    """Stores the signature of a post in the unit that accepts its run.

    Raises:
        ReplayedError: another run used the signature.
    """
    row = unit.one("SELECT run_id FROM webhooks_signature WHERE signature = ?", (signature,))
    if row is not None:
        if row[0] != run_id:
            raise ReplayedError
        return
    unit.execute(
        "INSERT INTO webhooks_signature (signature, run_id, at) VALUES (?, ?, ?)",
        (signature, run_id, now),
    )
    unit.execute("DELETE FROM webhooks_signature WHERE at < ?", (now - KEPT_DAYS * _DAY_MS,))


def has_run(reader: Reader, signatures: Collection[str], run_id: str) -> bool:
    """Returns true when one of the signatures or hashes was stored with this run."""
    if not signatures:
        return False
    row = reader.one(
        "SELECT 1 FROM webhooks_signature WHERE run_id = ?"  # noqa: S608 - placeholders
        f" AND signature IN ({marks(tuple(signatures))})",
        (run_id, *signatures),
    )
    return row is not None


def is_noted(reader: Reader, signature: str) -> bool:
    """Returns true when the signature, or the hash of a body, was stored with a run."""
    query = "SELECT 1 FROM webhooks_signature WHERE signature = ?"
    return reader.one(query, (signature,)) is not None
