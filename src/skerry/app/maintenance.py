"""Regular maintenance of a gateway's state: keys, backups, checks for damage."""

import logging
import sqlite3
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

import anyio
from msgspec import Struct

from skerry.app.late import backups
from skerry.infra import heap
from skerry.infra.clock import DAY_MS, Clock
from skerry.infra.supervise import in_background, in_daemon_thread
from skerry.model.errors import StateError
from skerry.store import Store, idempotency_keys, settled_runs, tasks, usage
from skerry.store.forgetting import incomplete_since, is_forgetting

logger = logging.getLogger(__name__)

T = TypeVar("T")
LOOK_SECONDS: Final = 2.0
"""Limit of the wait for a check of the database at a start."""
FIRST_SECONDS: Final = 60.0
"""Wait before the first maintenance, so that it does not delay the first requests."""
GIVE_SECONDS: Final = 150.0
"""Time between two returns of free memory: glibc keeps over half a MB for a minute of use."""
BACKUP: Final = "backup"
CHECK: Final = "integrity check"


class Upkeep(Struct, frozen=True):
    """Maintains one state directory."""

    store: Store
    state_dir: Path
    clock: Clock

    async def run(self) -> None:
        """Checks for damage, then runs due tasks every quarter of an hour, until cancelled.

        Free memory is returned to the system more often, which takes some milliseconds.
        """
        await anyio.sleep(FIRST_SECONDS)
        await self._quietly(_look(self.store))
        while True:
            await self.do_due()
            for _ in range(round(idempotency_keys.QUARTER_SECONDS / GIVE_SECONDS)):
                await anyio.sleep(GIVE_SECONDS)
                await in_daemon_thread(heap.give_back, "heap")
            await self._quietly(self._pass_quarter())

    async def _pass_quarter(self) -> None:
        """Sums up model calls; deletes old keys, and the texts, then the rows, of settled runs."""
        while await self.store.write(usage.fold):
            pass  # a few rows in each unit, so that other units are not delayed
        await self.store.write(idempotency_keys.pass_quarter)
        while await self.store.write(settled_runs.blank):
            pass
        while await self.store.write(settled_runs.remove):
            pass

    async def do_due(self) -> None:
        """Makes the daily backup, and checks for damage once a week."""
        if await self._is_due(CHECK, 7 * DAY_MS):
            await self._quietly(self._check())
        if await self._is_due(BACKUP, DAY_MS):
            await self._quietly(self._back_up())

    async def _is_due(self, name: str, every: int) -> bool:
        try:
            last = await self.store.read(lambda reader: tasks.done_at(reader, name))
        except StateError:
            return False
        return tasks.is_due(last, self.clock.now_ms(), every)

    async def _check(self) -> None:
        damage = await _look(self.store, is_full=True)
        await self._note(CHECK, damage[0] if damage else "ok")

    async def _back_up(self) -> None:
        """Copies the database and deletes old copies; a damaged one must not replace them."""
        self.store.refuse_damaged()
        # An erasure that does not end must not prevent backups for ever.
        since = await self.store.read(incomplete_since)
        waits = since is None or abs(self.clock.now_ms() - since) < DAY_MS

        def copy() -> str | None:
            backup = backups.create(self.state_dir, backups.BackupKind.DAILY, self.clock.now_ms())
            if waits and is_forgetting(backup.path):
                backup.path.unlink()  # it contains text that is to be erased
                return None
            backups.rotate(self.state_dir)
            return backup.name

        busy = since is not None and waits
        name = None if busy else await in_daemon_thread(copy, "store-backup")
        if name is None:
            logger.info("the daily backup waits for the end of an erasure")
            return
        logger.info("the database is copied: %s", name)
        await self._note(BACKUP, name)

    async def _note(self, name: str, outcome: str) -> None:
        now = self.clock.now_ms()
        await self.store.write(lambda unit: tasks.note(unit, name, now, outcome))

    async def _quietly(self, work: Awaitable[object]) -> None:
        """Awaits `work`; logs a failure. It is tried again in a quarter of an hour."""
        try:
            await work
        except (StateError, OSError, sqlite3.Error):  # a disk for copies that fails ends no gateway
            logger.exception("maintenance of the state failed; it is tried again")


@asynccontextmanager
async def looked_after(store: Store, *, orderly: bool) -> AsyncGenerator[None]:
    """Checks for damage before the block, unless the last process ended in order.

    After an orderly end SQLite has closed the file; a check soon after the start finds damage of
    the disk. The check of a large file goes on during the block, and the gateway is not ready
    until its end.
    """
    if orderly:
        yield
        return
    done = anyio.Event()

    async def look() -> None:
        try:
            await _look(store)
        except StateError:
            logger.exception("the database could not be checked for damage")
        done.set()

    async with in_background(look):
        with anyio.move_on_after(LOOK_SECONDS):
            await done.wait()
        yield


async def _look(store: Store, *, is_full: bool = False) -> list[str]:
    """Checks the file and logs its damage; a full check also compares the indexes."""
    damage = await store.check(whole=is_full)
    if damage:
        logger.error("the database is damaged: %s", "; ".join(damage[:3]))
    return damage


async def unless_damaged(store: Store, work: Awaitable[T]) -> T | None:
    """Returns the result of `work` at the start; None when the damaged database prevents it.

    So the gateway starts and can report the damage. Open runs wait for a later start.
    """
    try:
        return await work
    except StateError:
        if not store.condition.damage:
            raise
        logger.exception("the database is damaged; open runs wait until it is restored")
        return None
