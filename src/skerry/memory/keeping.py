"""Keeps one agent's index fresh while nobody asks: at the start, after changes, now and then.

Whatever it does a search would do itself; it makes the search find nothing left to do.
"""

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from msgspec import Struct

from skerry.model.errors import SkerryError

if TYPE_CHECKING:  # its modules come when there is something to index
    from skerry.memory.builtin import BuiltinMemory
    from skerry.memory.files import Places

logger = logging.getLogger(__name__)

BOOT_SECONDS: Final = 3.0
"""After the start: who waits for the gateway comes first."""
LOOK_SECONDS: Final = 3.0
"""Between two looks at the files."""
IDLE_SHARE: Final = 1000
"""A look may take a thousandth of the time between two."""
QUIET_SECONDS: Final = 1.5
"""Files are indexed when nothing more changed for so long (seed 003, watcher debounce)."""
COALESCE_SECONDS: Final = 15.0
"""Or when the first change is so old; vectors wait as long for others."""
SYNC_SECONDS: Final = 300.0
EMBED_SECONDS: Final = 3600.0
"""Between two rounds over everything, text and vectors (seed 003, update cycles)."""

Stamps = object
"""What a look found; equal where nothing changed."""


class Rhythm(Struct, frozen=True):
    """How often an index is looked after; in seconds."""

    watch: bool = True
    """Whether changes of the files are looked for."""
    quiet: float = QUIET_SECONDS
    """Without a further change, after which what changed is indexed."""
    sync: float | None = SYNC_SECONDS
    """Between two rounds over everything; None is only after changes."""
    embed: float = EMBED_SECONDS
    """Between two rounds over what has no vector."""


class Keeper(Struct):
    """Looks after one memory. `touch` it when something was said; keep `run` going.

    What was said waits for the next round: there is enough of it, or a pause, only now and then.

    `look` is blocking and gives the state of the files and settings; `empty` says that there are
    no files, without loading anything; `memory` gives the memory, which is made at the first call;
    `rhythm` is asked anew each time.
    """

    memory: "Callable[[], BuiltinMemory]"
    look: Callable[[], Stamps]
    empty: Callable[[], bool]
    rhythm: Callable[[], Rhythm] = Rhythm
    _said: bool = False
    """Whether something was said since the start."""
    _seen: Stamps = None
    _since: float | None = None
    """When the first change was seen that is not indexed."""
    _last: float = 0.0
    """When the last one was seen."""
    _synced: float = float("-inf")
    _embedded: float = float("-inf")
    _behind: float | None = None
    """When passages may first have lacked their vectors, or could not get them."""
    _failures: int = 0
    """To get them, in a row."""

    def touch(self) -> None:
        """Note that something was said."""
        self._said = True

    async def run(self) -> None:
        """Look, wait, index, until cancelled."""
        await anyio.sleep(BOOT_SECONDS)
        while self.empty() and not self._said:  # noqa: ASYNC110 - of the disk nobody is told
            await anyio.sleep(LOOK_SECONDS)  # a new installation: nothing is loaded for it
        while True:
            cost = await self._look() if self.rhythm().watch else 0.0
            await self._do_due(anyio.current_time())
            await anyio.sleep(max(LOOK_SECONDS, cost * IDLE_SHARE))

    async def _look(self) -> float:
        """Note whether files changed; return what the look took."""
        begin = anyio.current_time()
        found = await anyio.to_thread.run_sync(self.look, abandon_on_cancel=True)
        now = anyio.current_time()
        if found != self._seen:
            self._seen, self._last = found, now
            self._since = now if self._since is None else self._since
            self.memory().touch()
        return now - begin

    async def _do_due(self, now: float) -> None:
        if self.due(now):
            self._synced = now
            if await self._sync():
                self._behind = now if self._behind is None else self._behind
        # A provider that was away for a moment is asked again soon, one that stays away less often.
        patience = min(COALESCE_SECONDS * 2**self._failures, EMBED_SECONDS)
        if self._synced > float("-inf") and self.memory().resized and self._behind is None:
            self._behind = now
        behind = self._behind is not None and now - self._behind >= patience
        if behind or now - self._embedded >= self.rhythm().embed:
            self._embedded, self._behind = now, None
            if await self._embed():
                self._failures = 0
            else:
                self._behind, self._failures = now, min(self._failures + 1, 16)

    def due(self, now: float) -> bool:
        """Return whether the index is to be brought up to date now."""
        rhythm = self.rhythm()
        if now - self._synced >= (rhythm.sync or float("inf")):
            return True
        quiet = now - self._last >= rhythm.quiet
        late = self._since is not None and now - self._since >= COALESCE_SECONDS
        return self._since is not None and (quiet or late)

    async def _sync(self) -> bool:
        """Bring it up; return whether there may be passages without vectors."""
        self._since = None
        try:
            report = await self.memory().read()
        except (SkerryError, OSError) as error:  # of the files too: the gateway is to live
            logger.warning("the memory is not indexed; it is tried again: %s", error)
            return False
        for path, reason in report.failed:
            logger.debug("%s is not indexed: %s", path, reason)
        return bool(report.chunks)

    async def _embed(self) -> bool:
        """Let passages get their vectors; return whether the model gave them."""
        try:
            await self.memory().embed()
        except (SkerryError, OSError) as error:
            logger.warning("the memory's vectors wait; it is tried again: %s", error)
            return False
        return self.memory().fallback is None


def is_empty(places: "Places") -> bool:
    """Return whether there is nothing to index, by three looks at the disk."""
    roots = (places.workspace / "MEMORY.md", places.workspace / "memory.md")
    if any(one.exists() for one in roots) or places.extra:
        return False
    try:
        with os.scandir(places.workspace / "memory") as found:
            return next(found, None) is None
    except OSError:
        return True
