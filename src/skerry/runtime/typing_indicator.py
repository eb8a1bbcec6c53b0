"""Shows on a chat platform that an answer is being written, as long as it is."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from skerry.model.inbound import ReplyTo
from skerry.replies.style import TypingMode

logger = logging.getLogger(__name__)

LONGEST: Final = 120.0
"""Seconds after which nothing is shown any more: openclaw-behaviour 6.8."""


class TypingIndicator:
    """Typing indicator of one run. Start `run()` beside it, then report what the model does."""

    def __init__(
        self,
        show: Callable[[ReplyTo], Awaitable[None]],
        to: ReplyTo,
        mode: TypingMode,
        interval: float,
    ) -> None:
        self._show = show
        self._to = to
        self._mode = mode
        self._interval = interval
        self._begun = anyio.Event()
        if mode is TypingMode.INSTANT:
            self._begun.set()

    def thinks(self) -> None:
        """Notes that the model thinks."""
        if self._mode is TypingMode.THINKING:
            self._begun.set()

    def speaks(self) -> None:
        """Notes that there are words for the person; those of a silent reply are none."""
        if self._mode is not TypingMode.NEVER:
            self._begun.set()

    async def run(self) -> None:
        """Shows it, again and again, until cancelled or for `LONGEST` seconds."""
        await self._begun.wait()
        with anyio.move_on_after(LONGEST):
            while True:
                try:
                    with anyio.move_on_after(self._interval):
                        await self._show(self._to)
                except Exception:
                    logger.debug("the signal on %s failed", self._to.channel, exc_info=True)
                await anyio.sleep(self._interval)
