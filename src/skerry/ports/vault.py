"""Protocol of the secret state of an account, such as keys of encryption: it must not go back."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class VaultEntry(Struct, frozen=True):
    """One value; an empty one deletes it."""

    kind: str
    name: str
    value: bytes


class VaultKey(Struct, frozen=True):
    """The key under which the values are to be encrypted, and its relation to them."""

    key: bytes
    """32 bytes, in a file of the state directory and in no backup of the database."""
    is_new: bool = False
    """True when it was made now: nothing that is stored was encrypted with it."""
    is_behind: bool = False
    """True when the database is older than the last change that was acted upon."""


class Vault(Protocol):
    """Secret state of one account, as rows of a kind and a name."""

    async def open(self) -> VaultKey:
        """Returns the key; makes one where there is none."""
        ...

    async def renew(self) -> VaultKey:
        """Deletes the whole state; the key stays, or is made where there is none."""
        ...

    async def read(self, kind: str, name: str) -> bytes:
        """Returns a value; empty where there is none."""
        ...

    async def every(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Returns names and values of a kind, oldest first."""
        ...

    async def write(
        self, changes: Sequence[VaultEntry], limits: Mapping[str, int] | None = None
    ) -> None:
        """Writes values in one COMMIT; act upon them only after that.

        Of a kind in `limits` only so many are kept, the newest.
        """
        ...
