"""Protocol of the secret state of an account, such as encryption keys.

An older state must never be used again, as after a restored backup: keys would be used twice.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class VaultEntry(Struct, frozen=True):
    """One value under its kind and name; an empty value deletes it."""

    kind: str
    name: str
    value: bytes


class VaultKey(Struct, frozen=True):
    """The key that encrypts the values, and its relation to the stored ones."""

    key: bytes
    """32 bytes, stored in a file of the state directory and in no backup of the database."""
    is_new: bool = False
    """True if the key was made now: no stored value was encrypted with it."""
    is_behind: bool = False
    """True if the database is older than the last change that the account used."""


class Vault(Protocol):
    """Secret state of one account, as values by kind and name."""

    async def open(self) -> VaultKey:
        """Returns the key; makes a new one if there is none."""
        ...

    async def renew(self) -> VaultKey:
        """Deletes all values and returns the key; makes a new one if there is none."""
        ...

    async def read(self, kind: str, name: str) -> bytes:
        """Returns a value; empty bytes if there is none."""
        ...

    async def every(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Returns the names and values of a kind, oldest first."""
        ...

    async def write(
        self, changes: Sequence[VaultEntry], limits: Mapping[str, int] | None = None
    ) -> None:
        """Writes values in one COMMIT; use them only after this has returned.

        `limits` has the number of values to keep by kind; older values are deleted.
        """
        ...
