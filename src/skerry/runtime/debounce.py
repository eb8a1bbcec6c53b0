"""Holds plain messages of a sender until no more follow, and makes one message of them.

What is held is in the ledger and the store, so that the platform may be told that it is taken; the
next start takes it up. Source: openclaw-behaviour 4.3.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.lanes.lanes import Lanes
from skerry.model.ids import SessionKey
from skerry.store import Store, Unit, held_messages, inbound
from skerry.store.held_messages import HeldMessage

STRETCH: Final = 10
"""Whoever never stops writing is answered after so many times the debounce."""
_Sender = tuple[str, str]
"""Key of a conversation, and id of the sender there."""


class _Quiet(Struct):
    """Times of the event loop at which a sender wrote first and last, and the pause to wait for."""

    first: float
    last: float
    seconds: float


class Debounce(Struct):
    """Holds messages of senders. Implements nothing for media and commands: they go at once."""

    store: Store
    lanes: Lanes
    admit: Callable[[HeldMessage, SessionKey, Callable[[Unit], object]], Awaitable[None]]
    """Accepts the joined message, and calls the function in the same unit."""
    _waiting: dict[_Sender, _Quiet] = field(default_factory=dict)
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def holds(
        self, item: HeldMessage, key: SessionKey, seconds: float, *, answers: bool
    ) -> bool:
        """Takes a message, which waits until its sender has been quiet; returns whether it did.

        Args:
            item: The message.
            key: Its conversation.
            seconds: The pause to wait for; 0 for a message that goes at once, behind what waits.
            answers: False for a message of a group that is not addressed to the agent: it waits
                only with another of its sender.

        """
        waits = (str(key), item.message.sender_id) in self._waiting
        if seconds and (answers or waits):
            await self._hold(item, key, seconds)
            return True
        if waits:
            await self.release(key, item.message.sender_id)
        return False

    async def _hold(self, item: HeldMessage, key: SessionKey, seconds: float) -> None:
        message = item.message

        def write(unit: Unit) -> None:
            if inbound.take(unit, message, item.run_id) is None:
                held_messages.add(unit, str(key), item)

        await self.store.write(write)
        sender, now = (str(key), message.sender_id), asyncio.get_running_loop().time()
        quiet = self._waiting.get(sender)
        if quiet is not None:
            quiet.last = now
            return
        self._waiting[sender] = _Quiet(now, now, seconds)
        lane = f"{key}:held:{message.sender_id}"
        job = partial(self.release, key, message.sender_id)
        self.lanes.submit(lane, job, counted=False, delay=partial(self._delay, sender))

    async def release(self, key: SessionKey, sender: str) -> None:
        """Accepts what waits of a sender as one message; the last one's facts count."""
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
        """Accepts everything that an earlier process left."""
        for key, sender in await self.store.read(held_messages.senders):
            await self.release(SessionKey.parse(key), sender)

    def _delay(self, sender: _Sender) -> float:
        quiet = self._waiting.get(sender)
        if quiet is None:
            return -math.inf
        end = min(quiet.last + quiet.seconds, quiet.first + STRETCH * quiet.seconds)
        return end - asyncio.get_running_loop().time()
