"""Ends the process for good, when what others wrote keeps it from ending by itself."""

import logging
import os
import sys
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Leaving:
    """The end of one process. The last time that was named counts.

    An event loop waits at its end for every task, and the interpreter for every thread that is no
    daemon. A tool that swallows its cancellation, or a call that never returns, would keep both.
    """

    def __init__(self, leave: Callable[[int], object] = os._exit) -> None:
        self._leave = leave
        self._timer: threading.Timer | None = None

    def within(self, seconds: float, code: int) -> None:
        """Leaves hard with `code` when the process is still there after `seconds`."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self._go, (code,))
        self._timer.daemon = True
        self._timer.start()

    def _go(self, code: int) -> None:
        alive = [one.name for one in threading.enumerate() if not one.daemon]
        logger.error("something does not end (threads: %s); left", ", ".join(alive))
        sys.stdout.flush()
        self._leave(code)
