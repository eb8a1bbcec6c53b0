"""Reads who wrote the files of the workspaces at the start, and stores what changes."""

from skerry.app.upkeep import unless_damaged
from skerry.infra.clock import Clock
from skerry.policy.records import FileRecord, Records
from skerry.store import Store, files


async def stored_records(store: Store, clock: Clock) -> Records:
    """Return the records, as far as the database can be read."""

    def keep(record: FileRecord) -> None:
        store.post(lambda unit: files.keep(unit, record, clock.now_ms()))

    found = await unless_damaged(store, store.read(files.every))
    return Records(found or (), keep)
