"""Loads, stores and deletes the records of the authors of workspace files."""

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
    """Returns the records in the database; none when it is damaged."""

    def keep(record: FileRecord) -> None:
        # A clean record of a loaded file can be made again, so it is written with the next unit
        # only. Such riders are written first, so that newer records override them.
        is_loaded = record.writer == HAND and not record.taint
        write, now = (store.ride if is_loaded else store.post), clock.now_ms()
        write(lambda unit: file_records.keep(unit, record, now))

    rows = await unless_damaged(store, store.read(file_records.every))
    return FileRecords(rows or (), keep)


async def forget_gone(store: Store, now: int) -> None:
    """Removes the records of deleted files after 30 days, tainted ones after a year.

    A record also identifies copies of its file. A file in a missing folder may be on a disk that is
    not mounted, so its record is kept. Removed records stay effective until the next start.
    """
    before, before_tainted = now - KEPT_MS, now - KEPT_TAINTED_MS
    rows = await store.read(lambda reader: file_records.old(reader, before, before_tainted))
    missing = await anyio.to_thread.run_sync(_missing, rows)
    if missing:
        await store.write(lambda unit: file_records.drop(unit, missing))


def _missing(paths: list[str]) -> list[str]:
    candidates = map(Path, paths)
    return [str(path) for path in candidates if path.parent.is_dir() and not path.exists()]
