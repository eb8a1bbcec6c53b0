"""Delivers the outbox: one sender for each account, in order, each part once.

A part is marked `sending` before the adapter gets it and `sent` after. Found in `sending`, or after
a failed attempt, it may have arrived: the adapter is asked to settle that, and where it cannot, the
part is `unknown` and waits for a person. It is never sent twice on a guess.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from skerry.channels.split import split
from skerry.infra.clock import Clock
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement
from skerry.ports.channel import ChannelAdapter
from skerry.store import Store, outbox
from skerry.store.outbox import PartState

logger = logging.getLogger(__name__)

SEND_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 5.0


@dataclass(slots=True)
class Sender:
    """Sends what the outbox holds for one account."""

    adapter: ChannelAdapter
    store: Store
    clock: Clock
    reach: Callable[[str], None]
    _wake: anyio.Event = field(default_factory=anyio.Event, init=False)

    def wake(self) -> None:
        """Look into the outbox soon."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._wake = anyio.Event()
            if not await self._send_waiting():
                with anyio.move_on_after(RETRY_SECONDS):
                    await self._wake.wait()
                continue
            await self._wake.wait()

    async def flush(self) -> None:
        """Send what waits once, after `run` was cancelled."""
        await self._send_waiting()

    async def _send_waiting(self) -> bool:
        """Send every waiting part once; return False when one of them needs another try."""
        adapter, held = self.adapter, set[Peer]()
        while True:
            waiting = await self.store.read(
                lambda reader: outbox.waiting(reader, adapter.channel, adapter.account)
            )
            todo = [(part, state) for part, state in waiting if part.to.peer not in held]
            if not todo:
                return not held
            for part, state in todo:
                if part.to.peer in held:
                    continue  # the order of a conversation is kept
                if not await self._send(part, state):
                    held.add(part.to.peer)

    async def _send(self, part: OutboundPart, state: PartState) -> bool:
        """Bring one part to an end; return False when it stays in the outbox."""
        if state is PartState.SENDING and not await self._absent(part):
            return True
        await self._mark(part, PartState.SENDING)
        self.reach("delivery.before-send")
        try:
            with anyio.fail_after(SEND_SECONDS):
                receipt = await self.adapter.send(part)
        except Exception:
            # Whatever an adapter raises concerns this part only; the others must go out.
            logger.exception("sending %s failed; it is tried again", part.nonce)
            return False
        self.reach("delivery.after-send")
        await self._mark(part, PartState.SENT, receipt)
        return True

    async def _absent(self, part: OutboundPart) -> bool:
        """Return whether a part whose sending was interrupted must be sent; else mark it."""
        try:
            with anyio.fail_after(SEND_SECONDS):
                settlement = await self.adapter.settle(part)
        except Exception:
            logger.exception("whether %s arrived could not be found out", part.nonce)
            settlement = Settlement.UNKNOWN
        match settlement:
            case Settlement.ABSENT:
                return True
            case Settlement.DELIVERED:
                await self._mark(part, PartState.SENT)
            case Settlement.UNKNOWN:
                logger.warning("nobody knows whether %s arrived; it is not sent again", part.nonce)
                await self._mark(part, PartState.UNKNOWN)
        return False

    async def _mark(
        self, part: OutboundPart, state: PartState, receipt: Receipt | None = None
    ) -> None:
        now = self.clock.now_ms()
        await self.store.write(lambda unit: outbox.mark(unit, part.serial, state, now, receipt))


@dataclass(frozen=True, slots=True)
class Delivery:
    """The senders of all accounts."""

    senders: Mapping[tuple[ChannelId, AccountId], Sender]

    def parts(self, to: ReplyTo, text: str) -> list[str]:
        """Cut a text into what the platform takes; one whose adapter is gone waits in one piece."""
        sender = self.senders.get((to.channel, to.account))
        return split(text, sender.adapter.text_limit) if sender else [text]

    def wake(self, to: ReplyTo) -> None:
        """Tell the account's sender that its outbox has something."""
        sender = self.senders.get((to.channel, to.account))
        if sender is not None:
            sender.wake()

    async def flush(self) -> None:
        """Send what waits, one account after another."""
        for sender in self.senders.values():
            await sender.flush()
