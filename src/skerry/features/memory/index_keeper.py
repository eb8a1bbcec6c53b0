"""Updates one agent's index between searches: at the start, after changes, and periodically.

A search would do the same work itself; this module does it beforehand.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from msgspec import Struct, field

from skerry.infra.backoff import Backoff
from skerry.model.errors import SkerryError
from skerry.model.memory import MemorySource
from skerry.store.store import TouchedSessions

if TYPE_CHECKING:  # loaded when there is something to index
    from skerry.features.memory.builtin import BuiltinMemory
    from skerry.features.memory.index_settings import MemoryPaths

logger = logging.getLogger(__name__)

ORDER: Final = (MemorySource.MEMORY, MemorySource.SESSIONS)
"""Order in which passages get their vectors: notes first, since they are written to be found."""
SHARE: Final = 0.002
"""Share of one core for the vectors of conversations: three minutes a day."""
BOOT_SECONDS: Final = 3.0
"""Seconds after the start: clients that wait for the gateway are served first."""
LOOK_SECONDS: Final = 3.0
"""Seconds between two checks of the files."""
IDLE_SHARE: Final = 1000
"""The pause between two checks is this multiple of the CPU time of a check, up to
`LATE_SECONDS`."""
LATE_SECONDS: Final = 15.0
"""Limit on the pause between two checks: new notes must be found soon."""
QUIET_SECONDS: Final = 1.5
"""Seconds without a further change after which files are indexed (seed 003, watcher debounce)."""
COALESCE_SECONDS: Final = 15.0
"""Age of the first change, in seconds, that starts the indexing."""
MESSAGE_QUIET_SECONDS: Final = 5.0
"""Seconds without a new message after which a conversation is indexed."""
MESSAGE_LATE_SECONDS: Final = 60.0
"""Seconds since the first message after which an active conversation is indexed."""
IDLE_SECONDS: Final = 60.0
"""Seconds without a message, after which conversations may get vectors."""
MIN_SAVED_SECONDS: Final = 5.0
"""Saved seconds required to compute vectors: loading the model takes one of them."""
MAX_SAVED_SECONDS: Final = 10.0
"""Limit on the saved seconds, so that a long idle time causes no long load."""
CHECK_SECONDS: Final = 300.0
"""Seconds between two checks for passages of conversations without a vector."""
SYNC_SECONDS: Final = 300.0
EMBED_SECONDS: Final = 3600.0
"""Seconds between two rounds over everything, text and vectors (seed 003, update cycles)."""
EMBED_RETRIES: Final = Backoff(base=30.0, cap=EMBED_SECONDS)
"""Waits before vectors are tried again."""

Stamps = object
"""Result of a check; equal if nothing changed."""


class Rhythm(Struct, frozen=True):
    """Intervals of an index's updates, in seconds."""

    watch: bool = True
    """Enables the checks for changed files."""
    quiet: float = QUIET_SECONDS
    """Seconds without a further change after which changes are indexed."""
    sync: float | None = SYNC_SECONDS
    """Seconds between two rounds over everything; with None only changes start one."""
    embed: float = EMBED_SECONDS
    """Seconds between two rounds over passages without a vector."""
    share: float = SHARE
    """Share of one core, on average, that the vectors of conversations may use."""


class IndexKeeper(Struct):
    """Updates the index of one memory. `touched` follows the store; `run` must be running.

    Files and their vectors have priority. The text of conversations is indexed in the next pause;
    their vectors are computed in idle time, within a budget of CPU time that is saved up slowly.

    `look` blocks and returns the state of the files and settings; `empty` returns whether there are
    no files, without loading anything; `memory` returns the memory and creates it at the first
    call; `rhythm` is called each time.
    """

    memory: "Callable[[], BuiltinMemory]"
    look: Callable[[], Stamps]
    empty: Callable[[], bool]
    rhythm: Callable[[], Rhythm] = Rhythm
    touched: TouchedSessions = field(default_factory=partial(TouchedSessions, LOOK_SECONDS))
    """Sessions with new messages since the last check."""
    _stamps: Stamps = None
    _since: float | None = None
    """Time at which the first change that is not indexed was detected."""
    _last: float = 0.0
    """Time at which the last change was detected."""
    _synced: float = float("-inf")
    _embedded: float = float("-inf")
    _behind: float | None = None
    """Time since which passages may lack vectors; None if none do."""
    _failures: int = 0
    """Number of consecutive failed attempts to get vectors."""
    _message_since: float | None = None
    """Time of the first message that is not indexed."""
    _message_last: float = float("-inf")
    """Time of the last message, as of the last check."""
    _saved: float = 0.0
    """Saved seconds for the vectors of conversations."""
    _counted: float | None = None
    """Time up to which seconds were saved."""
    _checked: float = float("-inf")
    """Time of the last check whether conversations lack vectors."""

    async def run(self) -> None:
        """Checks the files and indexes changes, until cancelled."""
        await anyio.sleep(BOOT_SECONDS)
        while self.empty() and not self.touched.waiting:  # noqa: ASYNC110 - the disk sends no event
            await anyio.sleep(LOOK_SECONDS)  # a new installation: nothing is loaded for it
        while True:
            cost = await self._look() if self.rhythm().watch else 0.0
            await self._do_due(anyio.current_time())
            await anyio.sleep(min(max(LOOK_SECONDS, cost * IDLE_SHARE), LATE_SECONDS))

    async def _look(self) -> float:
        """Checks whether files changed; returns the CPU time of the check, in seconds."""

        def look() -> tuple[Stamps, float]:
            begin = time.thread_time()
            return self.look(), time.thread_time() - begin

        stamps, cost = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        now = anyio.current_time()
        if stamps != self._stamps:
            self._stamps, self._last = stamps, now
            self._since = now if self._since is None else self._since
            self.memory().touch()
        return cost

    async def _do_due(self, now: float) -> None:
        self._take_touched(now)
        if self.due(now):
            self._synced = now
            if await self._sync():
                self._behind = now if self._behind is None else self._behind
        if self._behind is None and self._synced > float("-inf") and self.memory().resized:
            self._behind = now
        # A failed provider is retried soon, and less often after each further failure.
        patience = EMBED_RETRIES.delay(self._failures) if self._failures else 0.0
        behind = self._behind is not None and now - self._behind >= patience
        if behind or now - self._embedded >= self.rhythm().embed:
            self._embedded, self._behind = now, None
            at_once = ORDER if self.rhythm().share >= 1 else ORDER[:1]
            if await self._embed(at_once, None):
                self._failures = 0
            else:
                self._behind, self._failures = now, self._failures + 1
        await self._embed_conversations(now)

    def _take_touched(self, now: float) -> None:
        if self.touched.waiting:
            self.touched.take()
            self._message_last = now
            self._message_since = now if self._message_since is None else self._message_since

    async def _embed_conversations(self, now: float) -> None:
        """Computes vectors of conversations within the saved seconds."""
        share, since = self.rhythm().share, now if self._counted is None else self._counted
        self._counted, self._saved = (
            now,
            min(MAX_SAVED_SECONDS, self._saved + share * (now - since)),
        )
        idle = now - self._message_last >= IDLE_SECONDS and now - self._checked >= CHECK_SECONDS
        if self._saved < MIN_SAVED_SECONDS or self._failures or not idle or share >= 1:
            return
        self._checked = now
        begin = anyio.current_time()
        if await self._waits():
            await self._embed(ORDER[1:], self._saved)
            self._saved -= anyio.current_time() - begin

    def due(self, now: float) -> bool:
        """Returns whether the index must be updated now."""
        rhythm = self.rhythm()
        if now - self._synced >= (rhythm.sync or float("inf")):
            return True
        quiet = now - self._last >= rhythm.quiet
        late = self._since is not None and now - self._since >= COALESCE_SECONDS
        pause = now - self._message_last >= MESSAGE_QUIET_SECONDS
        long = self._message_since is not None and now - self._message_since >= MESSAGE_LATE_SECONDS
        is_message_due = self._message_since is not None and (pause or long)
        return is_message_due or (self._since is not None and (quiet or late))

    async def _sync(self) -> bool:
        """Updates the index; returns whether passages may lack vectors."""
        self._since = self._message_since = None
        try:
            report = await self.memory().read()
        except (SkerryError, OSError) as error:  # errors of files must not stop the gateway
            logger.warning("the memory is not indexed; retrying later: %s", error)
            return False
        for path, reason in report.failed:
            logger.debug("%s is not indexed: %s", path, reason)
        return bool(report.chunks)

    async def _embed(self, sources: Sequence[MemorySource], seconds: float | None) -> bool:
        """Computes missing vectors; returns whether the model succeeded."""
        try:
            await self.memory().embed(sources=sources, seconds=seconds)
        except (SkerryError, OSError) as error:
            logger.warning("the memory's vectors are not computed; retrying later: %s", error)
            return False
        return self.memory().fallback is None

    async def _waits(self) -> bool:
        try:
            return await self.memory().waits()
        except (SkerryError, OSError) as error:
            logger.warning("the memory's index cannot be read: %s", error)
            return False


def is_empty(paths: "MemoryPaths") -> bool:
    """Returns whether there is nothing to index, with at most three checks of the disk."""
    roots = (paths.workspace / "MEMORY.md", paths.workspace / "memory.md")
    if any(root.exists() for root in roots) or paths.extra:
        return False
    try:
        with os.scandir(paths.workspace / "memory") as entries:
            return next(entries, None) is None
    except OSError:
        return True
