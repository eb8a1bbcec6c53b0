"""Shows the progress of an index job on a terminal."""

import sys
from collections.abc import Callable
from time import monotonic
from typing import Final

from skerry.model.memory import MemoryProgress

BAR: Final = 24


class Bar:
    """Shows progress, rate and remaining time of a job; nothing if stderr is not a terminal."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._begin = 0.0
        self._from = 0
        self._visible = False

    def __call__(self, now: MemoryProgress) -> None:
        """Shows the progress."""
        if not sys.stderr.isatty():
            return
        if now.stage != self._stage:
            self._stage, self._begin, self._from = now.stage, self._clock(), now.done
        line = bar(now, now.done - self._from, self._clock() - self._begin)
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        self._visible = True

    def end(self) -> None:
        """Clears the line."""
        if self._visible:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._visible = False


def bar(now: MemoryProgress, completed: int, seconds: float) -> str:
    """Returns the line; `completed` items took `seconds` (pure)."""
    share = now.done / now.total if now.total else 1.0
    full = round(share * BAR)
    line = f"{now.stage} [{'#' * full}{'.' * (BAR - full)}] {now.done}/{now.total}"
    if completed <= 0 or seconds <= 0:
        return line
    rate = completed / seconds
    remaining = round((now.total - now.done) / rate)
    time_left = f"{remaining // 3600}:{remaining // 60 % 60:02}:{remaining % 60:02}"
    return f"{line}  {rate:.1f}/s  {time_left} left"
