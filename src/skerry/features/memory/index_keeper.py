"""Keeps one agent's index fresh while nobody asks: at the start, after changes, now and then.

Whatever it does a search would do itself; it makes the search find nothing left to do.
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

if TYPE_CHECKING:  # its modules come when there is something to index
    from skerry.features.memory.builtin import BuiltinMemory
    from skerry.features.memory.index_settings import MemoryPaths

logger = logging.getLogger(__name__)

ORDER: Final = (MemorySource.MEMORY, MemorySource.SESSIONS)
"""Order in which passages get their vectors: notes are written to be found."""
SHARE: Final = 0.002
"""Share of one core for the vectors of conversations: three minutes a day."""
BOOT_SECONDS: Final = 3.0
"""Seconds after the start: clients that wait for the gateway come first."""
LOOK_SECONDS: Final = 3.0
"""Seconds between two checks of the files."""
IDLE_SHARE: Final = 1000
"""A look may take a thousandth of the time between two, in CPU time,"""
LATE_SECONDS: Final = 15.0
"""unless it would be put off for longer than this: a note is to be found soon."""
QUIET_SECONDS: Final = 1.5
"""Files are indexed when nothing more changed for so long (seed 003, watcher debounce)."""
COALESCE_SECONDS: Final = 15.0
"""Age of the first change, in seconds, that starts the indexing."""
SAID_SECONDS: Final = 5.0
"""Seconds without a new message after which a conversation is indexed."""
TALK_SECONDS: Final = 60.0
"""Seconds since the first message after which a conversation that goes on is indexed."""
IDLE_SECONDS: Final = 60.0
"""Seconds without a message, after which conversations may get vectors."""
LEAST_SECONDS: Final = 5.0
"""Seconds of saved time from which on vectors are made: to load the model takes one of them."""
MOST_SECONDS: Final = 10.0
"""Limit on the saved seconds: a long night does not make a busy morning."""
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
    """Looks after one memory. `touched` follows the store; keep `run` going.

    Files come first, their vectors too. Of what was said the words are indexed in the next pause;
    its vectors are made in idle time, of time that is saved up for them little by little.

    `look` is blocking and gives the state of the files and settings; `empty` says that there are
    no files, without loading anything; `memory` gives the memory, which is made at the first call;
    `rhythm` is asked anew each time.
    """

    memory: "Callable[[], BuiltinMemory]"
    look: Callable[[], Stamps]
    empty: Callable[[], bool]
    rhythm: Callable[[], Rhythm] = Rhythm
    touched: TouchedSessions = field(default_factory=partial(TouchedSessions, LOOK_SECONDS))
    """Sessions with new messages since the last check."""
    _seen: Stamps = None
    _since: float | None = None
    """Time at which the first change was seen that is not indexed."""
    _last: float = 0.0
    """Time at which the last one was seen."""
    _synced: float = float("-inf")
    _embedded: float = float("-inf")
    _behind: float | None = None
    """Time from which passages may have lacked their vectors, or could not get them."""
    _failures: int = 0
    """Number of failed attempts to get them, in a row."""
    _said_since: float | None = None
    """Time of the first message that is not indexed."""
    _said_last: float = float("-inf")
    """Time of the last message, as of the last check."""
    _saved: float = 0.0
    """Seconds that the vectors of conversations may take now."""
    _counted: float | None = None
    """Time until which they are saved up."""
    _checked: float = float("-inf")
    """Time of the last check whether conversations lack vectors."""

    async def run(self) -> None:
        """Looks, wait, index, until cancelled."""
        await anyio.sleep(BOOT_SECONDS)
        while self.empty() and not self.touched.waiting:  # noqa: ASYNC110 - of the disk nobody is told
            await anyio.sleep(LOOK_SECONDS)  # a new installation: nothing is loaded for it
        while True:
            cost = await self._look() if self.rhythm().watch else 0.0
            await self._do_due(anyio.current_time())
            await anyio.sleep(min(max(LOOK_SECONDS, cost * IDLE_SHARE), LATE_SECONDS))

    async def _look(self) -> float:
        """Notes whether files changed; returns the CPU time that the look took."""

        def look() -> tuple[Stamps, float]:
            begin = time.thread_time()
            return self.look(), time.thread_time() - begin

        stamps, cost = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        now = anyio.current_time()
        if stamps != self._seen:
            self._seen, self._last = stamps, now
            self._since = now if self._since is None else self._since
            self.memory().touch()
        return cost

    async def _do_due(self, now: float) -> None:
        self._hear(now)
        if self.due(now):
            self._synced = now
            if await self._sync():
                self._behind = now if self._behind is None else self._behind
        if self._behind is None and self._synced > float("-inf") and self.memory().resized:
            self._behind = now
        # A provider that was away for a moment is asked again soon, one that stays away less often.
        patience = EMBED_RETRIES.delay(self._failures) if self._failures else 0.0
        behind = self._behind is not None and now - self._behind >= patience
        if behind or now - self._embedded >= self.rhythm().embed:
            self._embedded, self._behind = now, None
            at_once = ORDER if self.rhythm().share >= 1 else ORDER[:1]
            if await self._embed(at_once, None):
                self._failures = 0
            else:
                self._behind, self._failures = now, self._failures + 1
        await self._converse(now)

    def _hear(self, now: float) -> None:
        if self.touched.waiting:
            self.touched.take()
            self._said_last = now
            self._said_since = now if self._said_since is None else self._said_since

    async def _converse(self, now: float) -> None:
        """Lets passages of conversations get vectors, for as long as time is saved up for them."""
        share, since = self.rhythm().share, now if self._counted is None else self._counted
        self._counted, self._saved = now, min(MOST_SECONDS, self._saved + share * (now - since))
        idle = now - self._said_last >= IDLE_SECONDS and now - self._checked >= CHECK_SECONDS
        if self._saved < LEAST_SECONDS or self._failures or not idle or share >= 1:
            return
        self._checked = now
        begin = anyio.current_time()
        if await self._waits():
            await self._embed(ORDER[1:], self._saved)
            self._saved -= anyio.current_time() - begin

    def due(self, now: float) -> bool:
        """Returns whether the index is to be brought up to date now."""
        rhythm = self.rhythm()
        if now - self._synced >= (rhythm.sync or float("inf")):
            return True
        quiet = now - self._last >= rhythm.quiet
        late = self._since is not None and now - self._since >= COALESCE_SECONDS
        pause = now - self._said_last >= SAID_SECONDS
        long = self._said_since is not None and now - self._said_since >= TALK_SECONDS
        is_talk_due = self._said_since is not None and (pause or long)
        return is_talk_due or (self._since is not None and (quiet or late))

    async def _sync(self) -> bool:
        """Brings it up; returns whether there may be passages without vectors."""
        self._since = self._said_since = None
        try:
            report = await self.memory().read()
        except (SkerryError, OSError) as error:  # of the files too: the gateway is to live
            logger.warning("the memory is not indexed; it is tried again: %s", error)
            return False
        for path, reason in report.failed:
            logger.debug("%s is not indexed: %s", path, reason)
        return bool(report.chunks)

    async def _embed(self, sources: Sequence[MemorySource], seconds: float | None) -> bool:
        """Lets passages get their vectors; returns whether the model gave them."""
        try:
            await self.memory().embed(sources=sources, seconds=seconds)
        except (SkerryError, OSError) as error:
            logger.warning("the memory's vectors wait; it is tried again: %s", error)
            return False
        return self.memory().fallback is None

    async def _waits(self) -> bool:
        try:
            return await self.memory().waits()
        except (SkerryError, OSError) as error:
            logger.warning("the memory cannot be looked at: %s", error)
            return False


def is_empty(paths: "MemoryPaths") -> bool:
    """Returns whether there is nothing to index, by three looks at the disk."""
    roots = (paths.workspace / "MEMORY.md", paths.workspace / "memory.md")
    if any(root.exists() for root in roots) or paths.extra:
        return False
    try:
        with os.scandir(paths.workspace / "memory") as entries:
            return next(entries, None) is None
    except OSError:
        return True
