"""Secret state of channel accounts: rows of the state database, and a key file.

The file has the key with which an account encrypts the rows, and the number of changes of the rows
before the last use. It is written after the COMMIT and before anything is sent, so a database with
a smaller number was restored from an older state. After a loss of power the file may have the
smaller number, which does no harm.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct

from skerry.infra.atomic import write_atomic
from skerry.ports.vault import VaultEntry, VaultKey
from skerry.store import Store, Unit, channel_secrets

KEY_BYTES: Final = 32
MAX_BYTES: Final = 4_000_000
"""Limit of one value, in bytes; an account of Olm with the maximum of keys has 1.6 MB."""
_DIGITS: Final = 20
_MARK_AT: Final = 2 * KEY_BYTES + 1


class StoreVault(Struct):
    """Implements `ports.vault.Vault` in the state database and a file of mode 0600."""

    store: Store
    channel: str
    account: str
    file: Path

    async def open(self) -> VaultKey:
        """Returns the key; creates it at the first call."""
        number = await self._number()
        stored = await anyio.to_thread.run_sync(self._read_file)
        if stored is None:
            key = secrets.token_bytes(KEY_BYTES)
            await self._make_file(key, number)
            return VaultKey(key, is_new=True)
        key, mark = stored
        return VaultKey(key, is_behind=number < mark)

    async def renew(self) -> VaultKey:
        """Deletes all values and returns the key, which is kept or created."""
        stored = await anyio.to_thread.run_sync(self._read_file)

        def clear(unit: Unit) -> int:
            number = channel_secrets.number(unit, self.channel, self.account)
            channel_secrets.clear(unit, self.channel, self.account)
            reached = max(number, stored[1] if stored else 0)
            return channel_secrets.advance(unit, self.channel, self.account, reached)

        number = await self.store.write(clear)
        key = stored[0] if stored else secrets.token_bytes(KEY_BYTES)
        await self._make_file(key, number)
        return VaultKey(key, is_new=stored is None)

    async def read(self, kind: str, name: str) -> bytes:
        """Returns a value; empty for a missing one."""
        return await self.store.read(
            lambda reader: channel_secrets.read(reader, self.channel, self.account, kind, name)
        )

    async def every(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Returns names and values of a kind, oldest first."""
        return await self.store.read(
            lambda reader: channel_secrets.every(reader, self.channel, self.account, kind)
        )

    async def write(
        self, changes: Sequence[VaultEntry], limits: Mapping[str, int] | None = None
    ) -> None:
        """Writes values in one COMMIT, then the number of changes into the file.

        Raises:
            ValueError: a value is too large; nothing is written.
        """
        for change in changes:
            if len(change.value) > MAX_BYTES:
                size = len(change.value)
                label = f"{self.channel}/{self.account}: {change.kind} {change.name}"
                raise ValueError(f"{label} has {size} bytes; {MAX_BYTES} are kept.")
        number = await self.store.write(
            lambda unit: channel_secrets.write(
                unit, self.channel, self.account, changes, limits or {}
            )
        )
        await anyio.to_thread.run_sync(self._mark, number)

    async def _number(self) -> int:
        return await self.store.read(
            lambda reader: channel_secrets.number(reader, self.channel, self.account)
        )

    async def _make_file(self, key: bytes, number: int) -> None:
        line = f"{key.hex()}\n{number:0{_DIGITS}}\n".encode()
        await anyio.to_thread.run_sync(partial(write_atomic, self.file, line))

    def _read_file(self) -> tuple[bytes, int] | None:
        """Returns key and number; None for a missing or invalid file."""
        try:
            key, mark = self.file.read_bytes().split()
            raw = bytes.fromhex(key.decode())
            return (raw, int(mark)) if len(raw) == KEY_BYTES else None
        except (FileNotFoundError, ValueError):
            return None

    def _mark(self, number: int) -> None:
        """Overwrites the number in an existing file, without syncing it."""
        try:
            descriptor = os.open(self.file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # nothing is encrypted yet
        try:
            os.pwrite(descriptor, f"{number:0{_DIGITS}}".encode(), _MARK_AT)
        finally:
            os.close(descriptor)
