"""Folders of a relayer: the database, the blobs, and the keys, which only the key server reads."""

import json
import os
import secrets
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
        """Returns the folder of the keys, which only the key server reads."""
        return self.root / "keys"

    @property
    def database(self) -> Path:
        """Returns the folder of the index and the jobs."""
        return self.root / "db"

    @property
    def blobs(self) -> Path:
        """Returns the folder of the ciphertext."""
        return self.root / "blobs"

    @property
    def locations(self) -> Path:
        """Returns the file with the locations of this relayer's blobs."""
        return self.root / "places.json"


def locations_of(root: Path) -> list[str]:
    """Returns all locations where blobs may be: `""` is the folder, others are buckets."""
    try:
        listed = json.loads(Folders(root).locations.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [""]
    return [str(location) for location in listed]


def note_location(root: Path, location: str) -> None:
    """Records the current location of blobs, so that `rewrap` processes all locations."""
    locations = locations_of(root)
    if location in locations:
        return
    path = Folders(root).locations
    part = path.with_suffix(
        f".{secrets.token_hex(4)}.part"
    )  # another node may record its location at the same time
    with open(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:  # noqa: PTH123 - with its mode
        file.write(json.dumps([*locations, location]))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
