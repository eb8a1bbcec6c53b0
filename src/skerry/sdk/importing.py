"""Part of a feature in `skerry import`: what it takes over from another installation."""

from collections.abc import Iterable
from typing import Protocol

from skerry.store.unit import Unit


class Importer(Protocol):
    """Reads the entries of another installation, then stores those that it takes."""

    changed: list[str]
    """Names of entries that are taken with another receiver than theirs."""
    refused: list[tuple[str, str]]
    """Name of each entry that is not taken, and why."""

    @property
    def names(self) -> list[str]:
        """Returns the names of the entries that are taken."""
        ...

    def read(self, listed: Iterable[object]) -> None:
        """Reads entries as the other program has them; one that cannot be used is refused."""
        ...

    def store(self, unit: Unit) -> None:
        """Stores the entries that are taken and not there yet."""
        ...
