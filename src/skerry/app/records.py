"""Reads who wrote the files of the workspaces at the start, and stores what changes."""

from skerry.app.upkeep import unless_damaged
from skerry.infra.clock import Clock
from skerry.policy.records import HAND, FileRecord, Records
from skerry.store import Store, files


async def stored_records(store: Store, clock: Clock) -> Records:
    """Return the records, as far as the database can be read."""

    def keep(record: FileRecord) -> None:
        # Which content was only seen, and is clean, the next look finds out again: it is worth no
        # unit of its own. Riders are written before the others, so that what is newer stays.
        seen = record.who == HAND and not record.taint
        write = store.ride if seen else store.post
        write(lambda unit: files.keep(unit, record, clock.now_ms()))

    found = await unless_damaged(store, store.read(files.every))
    return Records(found or (), keep)
