"""Stores the nonces of requests in SQLite, so that no request is accepted twice."""

import sqlite3
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

from .errors import DownError
from .signatures import DRIFT

NONCE_SECONDS: Final = 2 * DRIFT + 60
"""Seconds for which a nonce is stored: a request from the future is valid for twice the drift."""

_SWEEP: Final = 256
"""Requests between two deletions of old nonces."""


class NonceStore(Protocol):
    """Accepts each nonce only once."""

    async def take(self, nonce: str, signed_at: float, now: float) -> bool:
        """Returns True for the first request with this nonce. Raises `DownError` if unknown."""
        ...

    def close(self) -> None:
        """Closes the store."""
        ...


class Nonces:
    """The nonces of the last eleven minutes, in a file that survives a kill of the process.

    A crash of the machine may lose the last writes; therefore requests that were signed before the
    first use of the file since the boot are refused.
    """

    def __init__(self, file: Path, boot_id: str, now: float) -> None:
        self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS nonce (id BLOB PRIMARY KEY, until REAL NOT NULL)"
            " WITHOUT ROWID"
        )
        self._db.execute("CREATE INDEX IF NOT EXISTS nonce_until ON nonce (until)")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS boot (id TEXT PRIMARY KEY, since REAL NOT NULL)"
            " WITHOUT ROWID"
        )
        row = self._db.execute("SELECT since FROM boot WHERE id = ?", (boot_id,)).fetchone()
        fresh = self._db.execute("SELECT 1 FROM boot LIMIT 1").fetchone() is None
        self._since: float = row[0] if row else 0.0 if fresh else now
        if not row:
            self._db.execute("DELETE FROM boot")
            self._db.execute("INSERT INTO boot VALUES (?, ?)", (boot_id, self._since))
        self._count = 0

    async def take(self, nonce: str, signed_at: float, now: float) -> bool:
        """Returns True for the first request with this nonce. Raises `DownError` if unknown."""
        if signed_at < self._since - 1:
            return False
        try:
            self._count += 1
            if self._count % _SWEEP == 0:
                self._db.execute("DELETE FROM nonce WHERE until < ?", (now,))
            row = (UUID(nonce).bytes, now + NONCE_SECONDS)
            return self._db.execute("INSERT OR IGNORE INTO nonce VALUES (?, ?)", row).rowcount == 1
        except sqlite3.Error as error:
            raise DownError("The store of nonces does not answer.") from error

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
