"""`Importer`: the part of a feature in `skerry import`."""

from collections.abc import Iterable
from typing import Protocol

from skerry.store.unit import Unit


class Importer(Protocol):
    """Imports entries of another installation: call `read`, then `store`."""

    changed: list[str]
    """Names of entries that are imported with another receiver."""
    refused: list[tuple[str, str]]
    """Names of entries that are not imported, each with the reason."""

    @property
    def names(self) -> list[str]:
        """Returns the names of the entries that are imported."""
        ...

    def read(self, listed: Iterable[object]) -> None:
        """Reads entries in the format of the other program; adds unusable ones to `refused`."""
        ...

    def store(self, unit: Unit) -> None:
        """Stores the accepted entries that do not exist yet."""
        ...
