"""Reads who wrote the files of the workspaces at the start, stores what changes, and forgets."""

from pathlib import Path
from typing import Final

import anyio.to_thread

from skerry.app.maintenance import unless_damaged
from skerry.infra.clock import Clock
from skerry.policy.file_records import HAND, FileRecord, FileRecords
from skerry.store import Store, file_records

_DAY_MS: Final = 86_400_000
KEPT_MS: Final = 30 * _DAY_MS
KEPT_TAINTED_MS: Final = 365 * _DAY_MS


async def stored_records(store: Store, clock: Clock) -> FileRecords:
    """Returns the records, as far as the database can be read."""

    def keep(record: FileRecord) -> None:
        # Which content was only seen, and is clean, the next look finds out again: it is worth no
        # unit of its own. Riders are written before the others, so that what is newer stays.
        is_loaded = record.writer == HAND and not record.taint
        write, now = (store.ride if is_loaded else store.post), clock.now_ms()
        write(lambda unit: file_records.keep(unit, record, now))

    rows = await unless_damaged(store, store.read(file_records.every))
    return FileRecords(rows or (), keep)


async def forget_gone(store: Store, now: int) -> None:
    """Removes the records of files that are gone, a tainted one after a year.

    A copy is told by its record. A file in a folder that is gone too may lie on a disk that is not
    there now. What is removed here counts until the next start all the same.
    """
    before, before_tainted = now - KEPT_MS, now - KEPT_TAINTED_MS
    rows = await store.read(lambda reader: file_records.old(reader, before, before_tainted))
    missing = await anyio.to_thread.run_sync(_missing, rows)
    if missing:
        await store.write(lambda unit: file_records.drop(unit, missing))


def _missing(paths: list[str]) -> list[str]:
    candidates = map(Path, paths)
    return [str(path) for path in candidates if path.parent.is_dir() and not path.exists()]
