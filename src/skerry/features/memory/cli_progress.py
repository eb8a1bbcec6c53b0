"""Shows on a terminal how far the index of the memory is."""

import sys
from collections.abc import Callable
from time import monotonic
from typing import Final

from skerry.model.memory import MemoryProgress

BAR: Final = 24


class Bar:
    """Shows how far a job is, how fast, and how long it may take, on a terminal; else nothing."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._begin = 0.0
        self._from = 0
        self._shown = False

    def __call__(self, now: MemoryProgress) -> None:
        """Shows it."""
        if not sys.stderr.isatty():
            return
        if now.stage != self._stage:
            self._stage, self._begin, self._from = now.stage, self._clock(), now.done
        line = bar(now, now.done - self._from, self._clock() - self._begin)
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        self._shown = True

    def end(self) -> None:
        """Leaves the line."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._shown = False


def bar(now: MemoryProgress, done: int, seconds: float) -> str:
    """Returns the line: `done` were done in so many seconds (pure)."""
    share = now.done / now.total if now.total else 1.0
    full = round(share * BAR)
    line = f"{now.stage} [{'#' * full}{'.' * (BAR - full)}] {now.done}/{now.total}"
    if done <= 0 or seconds <= 0:
        return line
    rate = done / seconds
    remaining = round((now.total - now.done) / rate)
    time_left = f"{remaining // 3600}:{remaining // 60 % 60:02}:{remaining % 60:02}"
    return f"{line}  {rate:.1f}/s  {time_left} left"
