"""Stores the nonces of requests in a database that several relayers share."""

from typing import Final
from uuid import UUID

from .database import Database, Unit
from .nonces import NONCE_SECONDS

_SWEEP: Final = 256
"""Requests between two deletions of old nonces."""


class SharedNonces:
    """The nonces of the last eleven minutes, each of which only one relayer accepts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._count = 0

    async def take(self, nonce: str, signed_at: float, now: float) -> bool:  # noqa: ARG002 - the database is durable, so the time does not matter
        """Returns True for the first request with this nonce. Raises `DownError` if unknown."""
        self._count += 1
        sweeps = self._count % _SWEEP == 0

        def insert(unit: Unit) -> int:
            if sweeps:
                unit.execute("DELETE FROM nonce WHERE kept_until < ?", (int(now),))
            return unit.execute(
                "INSERT INTO nonce (nonce_id, kept_until) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (str(UUID(nonce)), int(now) + NONCE_SECONDS),
            )

        return await self._database.write(insert) == 1

    def close(self) -> None:
        """Does nothing: the owner of the database closes it."""
