"""Supervision of foreign work in tasks of its own, so that work that does not end blocks nobody.

A cancel scope waits until its task has ended, and one that swallows its cancellation would hold
its lane for ever. Here whoever waits stops waiting a while after the cancellation; what goes on all
the same is left behind, counted, and shown.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import anyio
from msgspec import Struct, field

from skerry.infra.clock import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")
GRACE_SECONDS: Final = 10.0
"""Seconds that cancelled work may take to clean up."""


class Stray(Struct, frozen=True):
    """Work that was cancelled and did not end."""

    what: str
    since: int
    """Time at which it was given up, in milliseconds since 1970."""


class Leash(Struct):
    """Supervises work that may hang, and lists the work that it abandoned."""

    clock: Clock
    grace: float = GRACE_SECONDS
    _left: dict[asyncio.Task[Any], Stray] = field(default_factory=dict)

    def left(self) -> list[Stray]:
        """Returns the work that was abandoned and has not ended since, oldest first."""
        return list(self._left.values())

    async def do(self, work: Callable[[], Coroutine[Any, Any, T]], what: str) -> T:
        """Runs `work` and returns its result; when cancelled, gives it `grace` seconds to end.

        `what` names it for people: `tool exec`.
        """
        # No task group: that would wait for what does not end. `_left` owns it from then on.
        task = asyncio.get_running_loop().create_task(work(), name=what)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()  # once: a scope would do it again in each round of the loop
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=self.grace)
            if task.done():
                _look_at(task)
            else:
                self._leave(task, what)
            raise

    def _leave(self, task: asyncio.Task[Any], what: str) -> None:
        logger.error("%s was cancelled and did not end in %g s; it is left", what, self.grace)
        self._left[task] = Stray(what, self.clock.now_ms())
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        stray = self._left.pop(task)
        _look_at(task)
        logger.warning("%s, which was left behind, has ended", stray.what)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Takes note of how it ended: else the event loop complains that nobody did."""
    if not task.cancelled():
        task.exception()
