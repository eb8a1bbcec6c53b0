"""Delivers the outbox: one sender for each account, in order, each part once.

A part is marked `sending` before the adapter gets it and `sent` after. Found in `sending`, or after
a failed attempt, it may have arrived: the adapter is asked to settle that, and where it cannot, the
part is `unknown` and waits for a person. It is never sent twice on a guess.

A part that fails holds back its conversation, whose order counts, and no other. It is tried again
after longer and longer pauses; one that is refused, or was tried for about a day, is `failed`.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio
import anyio.lowlevel

from skerry.agent.runtime import usual_room
from skerry.hooks.events import MessageSent
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.model.errors import DeliveryRefusedError, StateError
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.ports.channel import ChannelAdapter
from skerry.replies.splitting import split
from skerry.store import Reader, Store, outbox
from skerry.store.outbox import PartState, WaitingPart

logger = logging.getLogger(__name__)

SEND_SECONDS: Final = 15.0
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 300.0
MAX_ATTEMPTS: Final = 300
"""With the pauses about a day: a platform may be out of reach for a night."""


@dataclass(slots=True)
class Sender:
    """Sends what the outbox holds for one account."""

    adapter: ChannelAdapter
    store: Store
    clock: Clock
    reach: Callable[[str], None]
    hooks: Hooks
    _wake: anyio.Event = field(default_factory=anyio.Event, init=False)
    _held: dict[Peer, float] = field(default_factory=dict, init=False)
    """Conversations with a part that failed, and when it may be tried again."""

    def wake(self) -> None:
        """Look into the outbox soon."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled; a part that was begun is brought to an end first."""
        while True:
            self._wake = anyio.Event()
            pause = await self._send_waiting()
            with anyio.move_on_after(pause):
                await self._wake.wait()

    async def flush(self) -> None:
        """Send what waits once, after `run` was cancelled."""
        await self._send_waiting()

    async def _send_waiting(self) -> float | None:
        """Send what may be sent now; return after how many seconds there may be more to do."""
        began, after = anyio.current_time(), 0
        try:
            while batch := await self.store.read(partial(self._waiting, after=after)):
                for one in batch:
                    peer = one.part.to.peer
                    if self._held.get(peer, began) > began:
                        continue  # the order of a conversation is kept
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    # Broken off by the gateway's stop, nobody would know whether it arrived.
                    with anyio.CancelScope(shield=True):
                        ended = await self._bring_to_an_end(one)
                    if ended:
                        self._held.pop(peer, None)
                    else:
                        self._held[peer] = anyio.current_time() + _pause(one.attempts)
                after = batch[-1].part.serial
        except StateError:
            # What was sent and could not be marked is settled when the store works again.
            logger.exception("the outbox of %s waits for the store", self.adapter.account)
            return FIRST_PAUSE
        return min(self._held.values()) - anyio.current_time() if self._held else None

    def _waiting(self, reader: Reader, after: int) -> list[WaitingPart]:
        return outbox.waiting(reader, self.adapter.channel, self.adapter.account, after=after)

    async def _bring_to_an_end(self, one: WaitingPart) -> bool:
        """Send the part, or find out that it was; return False when it must be tried again."""
        part, last = one.part, one.attempts >= MAX_ATTEMPTS
        match await self._standing(one):
            case Settlement.DELIVERED:
                await self._mark(part, PartState.SENT)
                return True
            case Settlement.UNKNOWN:
                logger.warning("nobody knows whether %s arrived; it is not sent again", part.nonce)
                await self._mark(part, PartState.UNKNOWN)
                return True
            case None:
                await self._mark(part, PartState.UNKNOWN if last else PartState.SENDING)
                return last
        if last:
            logger.error("%s was tried %d times; it is given up", part.nonce, one.attempts)
            await self._mark(part, PartState.FAILED)
            return True
        return await self._send(part)

    async def _standing(self, one: WaitingPart) -> Settlement | None:
        """Return whether the part is there already; None when that cannot be asked now."""
        if one.state is PartState.PENDING:
            return Settlement.ABSENT
        try:
            with anyio.fail_after(SEND_SECONDS):
                return await self.adapter.settle(one.part)
        except Exception:
            logger.exception("whether %s arrived could not be found out", one.part.nonce)
            return None

    async def _send(self, part: OutboundPart) -> bool:
        await self._mark(part, PartState.SENDING)
        self.reach("delivery.before-send")
        try:
            with anyio.fail_after(SEND_SECONDS):
                receipt = await self.adapter.send(part)
        except DeliveryRefusedError as error:
            logger.warning("%s is refused for good: %s", part.nonce, error)
            await self._mark(part, PartState.FAILED)
            return True
        except Exception:
            # Whatever an adapter raises concerns this part only; the others must go out.
            logger.exception("sending %s failed; it is tried again", part.nonce)
            return False
        self.reach("delivery.after-send")
        await self._mark(part, PartState.SENT, receipt)
        return True

    async def _mark(
        self, part: OutboundPart, state: PartState, receipt: Receipt | None = None
    ) -> None:
        now = self.clock.now_ms()
        await self.store.write(lambda unit: outbox.mark(unit, part.serial, state, now, receipt))
        if self.hooks.message_sent.handlers and state in {PartState.SENT, PartState.FAILED}:
            self._tell(part, state, receipt)

    def _tell(self, part: OutboundPart, state: PartState, receipt: Receipt | None) -> None:
        sent = state is PartState.SENT
        self.hooks.message_sent.start(
            MessageSent(
                run_id=part.run_id,
                channel=part.to.channel,
                account=part.to.account,
                to=part.to.peer.id,
                content=part.text,
                success=sent,
                error=None if sent else "The platform did not take it; it is given up.",
                message_ids=receipt.platform_ids if receipt else (),
            )
        )


def _pause(attempts: int) -> float:
    """Return the seconds before a part is tried again that was tried `attempts` times before."""
    return min(FIRST_PAUSE * (1 << min(attempts, 16)), LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The senders of all accounts."""

    senders: Mapping[tuple[ChannelId, AccountId], Sender]

    def parts(self, to: ReplyTo, text: str) -> list[str]:
        """Cut a text into what the platform takes; one whose adapter is gone waits in one piece."""
        sender = self.senders.get((to.channel, to.account))
        if sender is None:
            return [text]
        return split(text, sender.adapter.text_limit, sender.adapter.text_unit)

    def room(self, to: ReplyTo) -> tuple[int, TextUnit]:
        """Return how much the platform takes at once; without its adapter what most take."""
        sender = self.senders.get((to.channel, to.account))
        return (sender.adapter.text_limit, sender.adapter.text_unit) if sender else usual_room(to)

    async def typing(self, to: ReplyTo) -> None:
        """Show on the platform that an answer is being written."""
        sender = self.senders.get((to.channel, to.account))
        if sender is not None:
            await sender.adapter.typing(to)

    def wake(self, to: ReplyTo) -> None:
        """Tell the account's sender that its outbox has something."""
        sender = self.senders.get((to.channel, to.account))
        if sender is not None:
            sender.wake()

    async def flush(self) -> None:
        """Send what waits, one account after another."""
        for sender in self.senders.values():
            await sender.flush()
