"""Maintenance of a relayer's folder: new keys of owners, and copies of the folder."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from skerry_relayer import index
from skerry_relayer.blobs import (
    Blob,
    BlobError,
    BlobStore,
    Wrap,
    header_of,
    packed,
    unpacked,
)
from skerry_relayer.database import Database
from skerry_relayer.envelope import EnvelopeError, unwrap, wrap
from skerry_relayer.errors import MissingError, RefusedError
from skerry_relayer.folders import DATABASE, Folders, locations_of
from skerry_relayer.keys.registry import FILE, Registry, is_registry
from skerry_relayer.sqlite_files import connect, private_folder
from skerry_relayer.vault import binding_of

GRACE_SECONDS: Final = 30.0
"""Seconds for which an old key is kept: a text that is being stored may still use it."""
_LOCK: Final = "upkeep.lock"
_BATCH: Final = 50


@dataclass(frozen=True, slots=True)
class RewrapReport:
    """Result of replacing the keys of owners."""

    owners: int
    blobs: int
    """Blobs whose keys were wrapped to the new keys."""
    failed: int
    """Blobs that no key decrypts; the old keys of their owners are kept."""
    dropped: int
    """Old keys that were destroyed."""


@contextmanager
def upkeep(root: Path) -> Iterator[None]:
    """Holds the lock of the folder: a copy made while keys change could not be decrypted.

    Raises:
        RefusedError: another command holds it.
    """
    private_folder(root)
    descriptor = os.open(root / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                f"Another rewrap or backup works on {root}. Wait until it has ended."
            ) from error
        yield
    finally:
        os.close(descriptor)


class OwnerRewrap:
    """Wraps the keys of all blobs to new keys of their owners, then destroys the old keys.

    The relayer may run meanwhile. After a kill, the next run completes the work.
    """

    def __init__(
        self,
        registry: Registry,
        database: Database,
        stores: Sequence[BlobStore],
        *,
        grace_seconds: float = GRACE_SECONDS,
        reach: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self._database = database
        self._stores = stores
        self._grace_ms = round(grace_seconds * 1000)
        self._reach = reach

    async def run(self) -> RewrapReport:
        """Replaces the keys of every owner of the registry."""
        owners = [account.owner for account in self._registry.accounts()]
        counts = [0, 0, 0]
        for owner in owners:
            generations = self._registry.generations(owner)
            if len(generations) < 2:  # noqa: PLR2004 - one: no earlier run was interrupted
                self._registry.rotate(owner)
            self._reach("rewrap.drawn")
        for owner in owners:
            done, failed = await self._all_blobs(owner)
            counts[0] += done
            counts[1] += failed
        await self._wait(owners)
        for owner in owners:
            done, failed = await self._all_blobs(owner)  # blobs that were encrypted meanwhile
            counts[0] += done
            self._reach("rewrap.wrapped")
            if not failed:
                newest = self._registry.generations(owner)[-1][0]
                counts[2] += self._registry.drop_before(owner, newest)
        return RewrapReport(len(owners), *counts)

    async def _wait(self, owners: Sequence[str]) -> None:
        """Waits until no relayer can still encrypt with an old key."""
        drawn = [self._registry.generations(owner)[-1][1] for owner in owners]
        if drawn:
            remaining_ms = max(drawn) + self._grace_ms - self._registry.now()
            await anyio.sleep(max(0, remaining_ms) / 1000)

    async def _all_blobs(self, owner: str) -> tuple[int, int]:
        """Rewraps the blobs of an owner; returns the numbers of rewrapped and of failed blobs."""
        done = failed = 0
        for store in self._stores:
            store_done, store_failed = await self._of_store(store, owner)
            done, failed = done + store_done, failed + store_failed
        return done, failed

    async def _of_store(self, store: BlobStore, owner: str) -> tuple[int, int]:
        ids = [blob_id for blob_id, head in await store.heads(owner) if _is_blob(head)]
        done = failed = 0
        for begin in range(0, len(ids), _BATCH):
            some = ids[begin : begin + _BATCH]
            for blob_id, file in zip(some, await store.get(owner, some), strict=True):
                if file is None:  # forgotten meanwhile
                    continue
                outcome = await self._rewrap(store, owner, blob_id, file)
                done += outcome is True
                failed += outcome is None
        return done, failed

    async def _rewrap(self, store: BlobStore, owner: str, blob_id: str, file: bytes) -> bool | None:
        """Rewraps a blob; returns False if it has the new key, None if no key decrypts it."""
        newest = self._registry.seal_key(owner)
        try:
            blob = unpacked(file, blob_id)
            if newest is None or blob.wrap.generation == newest.generation:
                return False
            private = self._registry.private_key(owner, blob.wrap.generation)
            if private is None or blob.header.owner != owner:
                return None
            binding = binding_of(blob.header)
            key = unwrap(blob.wrap.wrapped, private, binding)
        except (BlobError, EnvelopeError):
            return None
        wrapped = Wrap(newest.generation, wrap(key, newest.public, binding))
        had_row = await self._has_row(owner, blob_id)
        changed = Blob(blob.id, wrapped, blob.header, blob.head, blob.body)
        await store.put(owner, blob_id, packed(changed))
        self._reach("rewrap.blob")
        if had_row and not await self._has_row(owner, blob_id):  # forgotten while it was written
            await store.delete(owner, [blob_id])
        return True

    async def _has_row(self, owner: str, blob_id: str) -> bool:
        return bool(await self._database.read(lambda unit: index.by_blobs(unit, owner, [blob_id])))


def _is_blob(head: bytes) -> bool:
    try:
        header_of(head)
    except BlobError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Copied:
    """Result of a backup."""

    folder: Path
    memories: int
    blobs: int
    with_keys: bool


def backup(root: Path, target: Path, *, with_keys: bool = True) -> Copied:
    """Copies a relayer's folder, also while it serves, to a new folder.

    The copy is a folder for `--dir`. Without the keys it cannot be decrypted; store them elsewhere.

    Raises:
        RefusedError: the target exists, or another command works on the folder.
        MissingError: there is no relayer in the folder.
    """
    folders = Folders(root)
    if not is_registry(folders.keys):
        raise MissingError(f"There is no relayer in {root}. Run `init`, or give --dir.")
    away = [location for location in locations_of(root) if location]
    if away:
        raise RefusedError(
            f"Blobs of this relayer are in {', '.join(away)}. Copy those and the database with the "
            f"tools of their stores, and {folders.keys} beside them."
        )
    if target.exists():
        raise RefusedError(f"{target} exists already. Name a folder that does not exist.")
    part = target.with_name(f"{target.name}.part")
    if part.exists():
        shutil.rmtree(part)
    with upkeep(root):
        private_folder(part)
        copy = Folders(part)
        private_folder(copy.blobs)
        if with_keys:
            private_folder(copy.keys)
            with Registry(folders.keys) as registry:
                registry.backup(copy.keys / FILE)
        memories = _copy_database(folders, copy)
        blobs = _copy_blobs(folders.blobs, copy.blobs)
    part.replace(target)
    _sync(target.parent)
    return Copied(target, memories, blobs, with_keys)


def _copy_database(source: Folders, target: Folders) -> int:
    """Copies the database; the blobs follow, so that each row of the copy has its blob."""
    path = source.database / DATABASE
    if not path.exists():
        return 0
    private_folder(target.database)
    with closing(connect(path)) as database, closing(connect(target.database / DATABASE)) as copy:
        database.backup(copy)
        (count,) = copy.execute("SELECT count(*) FROM memory").fetchone()
    return int(count)


def _copy_blobs(source: Path, target: Path) -> int:
    count = 0
    for owner in sorted(source.iterdir()) if source.is_dir() else ():
        folder = private_folder(target / owner.name)
        for path in sorted(owner.iterdir()):
            try:
                data = path.read_bytes()
            except FileNotFoundError:  # forgotten meanwhile
                continue
            copy = folder / path.name
            with open(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:  # noqa: PTH123 - with its mode
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            count += 1
        _sync(folder)
    return count


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
