"""Holds plain messages of a sender until no more follow, and joins them into one message.

Held messages are in the ledger and the store, so that the adapter may acknowledge them; the next
start accepts them. Source: openclaw-behaviour 4.3.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.lanes.lanes import Lanes
from skerry.model.errors import BusyError, StateError
from skerry.model.ids import SessionKey
from skerry.store import Store, Unit, held_messages, inbound
from skerry.store.held_messages import HeldMessage

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
STRETCH: Final = 10
"""Limit on the wait for a sender who keeps writing, as a multiple of the debounce."""
_Sender = tuple[str, str]
"""Key of a conversation, and key of a sender in it."""


class _Quiet(Struct):
    """Event loop times of a sender's first and last message, and the pause to wait for."""

    first: float
    last: float
    seconds: float


class Debounce(Struct):
    """Holds plain messages of senders; media and commands are not held."""

    store: Store
    lanes: Lanes
    admit: Callable[[HeldMessage, SessionKey, Callable[[Unit], object]], Awaitable[None]]
    """Accepts the joined message, and calls the given function in the same unit."""
    _waiting: dict[_Sender, _Quiet] = field(default_factory=dict)
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def holds(
        self, item: HeldMessage, key: SessionKey, seconds: float, *, answers: bool
    ) -> bool:
        """Holds a message until its sender has paused; returns False if it is not held.

        Args:
            item: The message.
            key: Its conversation.
            seconds: The pause to wait for; 0 accepts the message at once, after the held ones.
            answers: False for a group message that is not addressed to the agent: it is held only
                after another message of its sender.

        """
        waits = (str(key), item.sender) in self._waiting
        if seconds and (answers or waits):
            await self._hold(item, key, seconds)
            return True
        if waits:
            await self.release(key, item.sender)
        return False

    async def _hold(self, item: HeldMessage, key: SessionKey, seconds: float) -> None:
        message = item.message

        def write(unit: Unit) -> None:
            if inbound.take(unit, message, item.run_id) is None:
                held_messages.add(unit, str(key), item)

        await self.store.write(write)
        sender, now = (str(key), item.sender), asyncio.get_running_loop().time()
        quiet = self._waiting.get(sender)
        if quiet is not None:
            quiet.last = now
            return
        self._waiting[sender] = _Quiet(now, now, seconds)
        lane = f"{key}:held:{item.sender}"
        job = partial(self._released, key, item.sender)
        self.lanes.submit(lane, job, counted=False, delay=partial(self._delay, sender))

    async def _released(self, key: SessionKey, sender: str) -> None:
        """Releases the held messages of a sender as soon as the store works.

        They are acknowledged, so no platform sends them again.
        """
        while True:
            try:
                await self.release(key, sender)
            except BusyError:
                return  # the gateway stops; the next start accepts them
            except StateError as error:
                logger.warning("held messages wait for the store: %s", error)
                await anyio.sleep(RETRY_SECONDS)
            else:
                return

    async def release(self, key: SessionKey, sender: str) -> None:
        """Accepts the held messages of a sender as one, with the facts of the last one."""
        async with self._turn:
            self._waiting.pop((str(key), sender), None)
            rows = await self.store.read(
                lambda reader: held_messages.read(reader, str(key), sender)
            )
            if not rows:
                return
            number, last = rows[-1]
            text = "\n".join(row.message.text for _, row in rows)
            mentions = any(row.message.mentions_me for _, row in rows)
            message = replace(last.message, text=text, mentions_me=mentions)
            joined = replace(last, message=message)
            await self.admit(
                joined, key, lambda unit: held_messages.take(unit, str(key), sender, number)
            )

    async def release_all(self) -> None:
        """Accepts all messages that an earlier process held."""
        for key, sender in await self.store.read(held_messages.senders):
            await self.release(SessionKey.parse(key), sender)

    def _delay(self, sender: _Sender) -> float:
        quiet = self._waiting.get(sender)
        if quiet is None:
            return -math.inf
        end = min(quiet.last + quiet.seconds, quiet.first + STRETCH * quiet.seconds)
        return end - asyncio.get_running_loop().time()
