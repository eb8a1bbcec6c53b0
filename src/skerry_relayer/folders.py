"""Folders of a relayer: the database, the blobs, and the keys of the key server alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

DATABASE: Final = "index.sqlite"
"""File of the index and the jobs."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders of a relayer."""

    root: Path

    @property
    def keys(self) -> Path:
        """Returns the folder of the key server alone."""
        return self.root / "keys"

    @property
    def database(self) -> Path:
        """Returns the folder of the index and the jobs."""
        return self.root / "db"

    @property
    def blobs(self) -> Path:
        """Returns the folder of the ciphertext."""
        return self.root / "blobs"
