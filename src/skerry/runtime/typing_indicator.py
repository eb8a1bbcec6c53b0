"""Shows on a chat platform that an answer is being written."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from skerry.model.inbound import ReplyTo
from skerry.replies.style import TypingMode

logger = logging.getLogger(__name__)

MAX_SECONDS: Final = 120.0
"""Seconds after which the indicator ends: openclaw-behaviour 6.8."""


class TypingIndicator:
    """Typing indicator of one run. Start `run()` in a task, then report the model's activity."""

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
        """Reports that the model thinks."""
        if self._mode is TypingMode.THINKING:
            self._begun.set()

    def speaks(self) -> None:
        """Reports text for the person; not called for a silent reply."""
        if self._mode is not TypingMode.NEVER:
            self._begun.set()

    async def run(self) -> None:
        """Shows the indicator repeatedly until cancelled, at most for `MAX_SECONDS` seconds."""
        await self._begun.wait()
        with anyio.move_on_after(MAX_SECONDS):
            while True:
                try:
                    with anyio.move_on_after(self._interval):
                        await self._show(self._to)
                except Exception:
                    logger.debug("typing on %s failed", self._to.channel, exc_info=True)
                await anyio.sleep(self._interval)
