"""Runs the adapters of accounts and delivers the outbox: in order, each part once.

A part is marked `sending` before the adapter gets it and `sent` after. A part that is `sending` at
a start, or whose attempt failed, may have arrived: the adapter is asked whether it did. If it
cannot tell, the part is `unknown`, and the configuration decides: the person gets a notice, or the
part is sent again with a mark. Only that notice is ever sent twice without a mark.

A failed part holds back its own conversation, to keep the order, and no other. It is tried again
after growing pauses, or at the time given by the platform. A part that is refused, or was tried for
about a day, is `failed`. The pauses do not depend on the wall clock, which may be set.
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.config.messages import UnknownDelivery
from skerry.hooks.events import MessageSent
from skerry.hooks.hooks import Hooks
from skerry.infra.backoff import Backoff
from skerry.infra.clock import Clock
from skerry.infra.supervise import keep_running
from skerry.model.errors import BusyError, DeliveryRefusedError, StateError
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.model.undelivered import DeliveryDelayedError
from skerry.ports.channel import ChannelAdapter, Inbox, capabilities
from skerry.replies.splitting import split
from skerry.runtime.late import preview_streaming
from skerry.runtime.reactions import Reactions
from skerry.runtime.undelivered_notice import warn_owner
from skerry.store import Reader, Store, Unit, outbox
from skerry.store.outbox import PartState, WaitingPart

logger = logging.getLogger(__name__)

USUAL_ROOM: Final = (4000, TextUnit.CHARACTERS)
"""Message limit of most platforms: openclaw-behaviour 6.7."""
SEND_SECONDS: Final = 15.0
FILE_SECONDS: Final = 90.0
"""Seconds for a part with a file, which may be large."""
RETRIES: Final = Backoff(base=5.0, cap=300.0)
"""Pauses before a part is tried again."""
MAX_HINT_SECONDS: Final = 86_400.0
"""Limit on the pause that a platform may ask for, in seconds."""
MAX_ATTEMPTS: Final = 300
"""Limit on the attempts; with the pauses about a day, for a platform that is down for a night."""
REPEATED: Final = "🔁 You may have this already:\n\n"
UNSETTLED: Final = "Whether it arrived is unknown."
MISSING: Final = "⚠️ A part of my reply before this may not have reached you."


def no_chat() -> ReplyTo | None:
    """Returns None: the owner has no chat for notices."""
    return None


def ignored(_: ReplyTo) -> None:
    """Wakes no other sender."""


class Sender(Struct):
    """Sends the parts in the outbox of one account."""

    adapter: ChannelAdapter
    store: Store
    clock: Clock
    reach: Callable[[str], None]
    hooks: Hooks
    on_unknown: Callable[[], UnknownDelivery] = lambda: UnknownDelivery.NOTICE
    """Returns the configured action for a part that may or may not have arrived."""
    owner: Callable[[], ReplyTo | None] = no_chat
    """Returns the owner's chat for notices about undelivered parts."""
    wake_other: Callable[[ReplyTo], None] = ignored
    """Wakes the sender of the chat of the owner."""
    redact: Callable[[str], str] = str
    """Removes secrets from the reason of a failure: a platform may quote the sent text."""
    _reactions: Reactions | None = None
    _wake: anyio.Event = field(default_factory=anyio.Event)
    _retry_at: dict[Peer, float] = field(default_factory=dict)
    """Time of the next attempt for each conversation with a failed part, in event loop seconds."""

    @property
    def reactions(self) -> Reactions:
        """Returns the reactions of the account."""
        self._reactions = self._reactions or Reactions(self.adapter, self.store)
        return self._reactions

    def wake(self) -> None:
        """Makes `run` read the outbox."""
        self._wake.set()

    def hurry(self, peer: Peer) -> None:
        """Sends the parts that the conversation holds back now."""
        self._retry_at.pop(peer, None)
        self._wake.set()

    async def run(self) -> None:
        """Sends parts until cancelled; an attempt that has begun is finished first."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.reactions.run)
            while True:
                self._wake = anyio.Event()
                pause = await self._send_waiting()
                with anyio.move_on_after(pause):
                    await self._wake.wait()

    async def flush(self) -> None:
        """Sends the waiting parts once, after `run` was cancelled."""
        await self._send_waiting()

    async def report_refused(self, nonce: str, reason: str) -> bool:
        """Marks a part as failed that the platform accepted and could not deliver.

        Returns False while the part is being sent: then the report must be repeated.
        """
        now, redacted = self.clock.now_ms(), self.redact(reason)
        channel, account = self.adapter.channel, self.adapter.account

        def write(unit: Unit) -> PartState | None:
            part = outbox.fail_sent(unit, channel, account, nonce, redacted, now)
            if part is not None and part.waiting.state is PartState.SENT:
                warn_owner(unit, part.waiting.part, self.owner(), now)
            return part.waiting.state if part else None

        state = await self.store.write(write)
        if state is PartState.SENT:
            logger.warning("%s was accepted but not delivered: %s", nonce, reason)
            self._wake_owner()
        return state is not PartState.SENDING

    async def _send_waiting(self) -> float | None:
        """Sends the parts that are due; returns the seconds until the next attempt, or None."""
        began, tried = anyio.current_time(), dict[int, Peer]()
        try:
            while batch := await self.store.read(partial(self._waiting, excluded=tried)):
                for waiting in batch:
                    peer = waiting.part.to.peer
                    if self._retry_at.setdefault(peer, began + self._wait_seconds(waiting)) > began:
                        continue  # the order of a conversation is kept
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    # A send that the gateway's stop cancels may or may not have arrived.
                    with anyio.CancelScope(shield=True):
                        pause = await self._finish(waiting)
                    if pause is None:
                        self._retry_at.pop(peer, None)
                    else:
                        self._retry_at[peer] = anyio.current_time() + pause
                tried.update((waiting.part.serial, waiting.part.to.peer) for waiting in batch)
        except StateError:
            # A part that was sent but not marked is settled when the store works again.
            logger.exception("outbox of %s: retrying after a store error", self.adapter.account)
            return RETRIES.base
        self._retry_at = {p: self._retry_at[p] for p in tried.values() if p in self._retry_at}
        return min(self._retry_at.values()) - anyio.current_time() if self._retry_at else None

    def _waiting(self, reader: Reader, excluded: Collection[int]) -> list[WaitingPart]:
        return outbox.waiting(reader, self.adapter.channel, self.adapter.account, excluded=excluded)

    def _wait_seconds(self, waiting: WaitingPart) -> float:
        """Returns the remaining pause, in seconds, of a part that an earlier process postponed.

        At most `MAX_HINT_SECONDS`, even if the clock was set meanwhile.
        """
        seconds = (waiting.retry_at - self.clock.now_ms()) / 1000 if waiting.retry_at else 0.0
        return min(max(seconds, 0.0), MAX_HINT_SECONDS)

    async def _finish(self, waiting: WaitingPart) -> float | None:
        """Sends the part unless it has arrived; returns the pause before a retry, or None."""
        part, last = waiting.part, waiting.attempts >= MAX_ATTEMPTS
        if part.additions.preview and await self.store.read(lambda r: outbox.is_completed(r, part)):
            return await self._mark_unknown(waiting)  # the finished text is sent instead
        match await self._settlement(waiting):
            case Settlement.DELIVERED:
                await self._mark(part, PartState.SENT)
                return None
            case Settlement.UNKNOWN:
                return await self._mark_unknown(waiting)
            case None:
                await self._mark(part, PartState.UNKNOWN if last else PartState.SENDING)
                return None if last else await self._put_off(waiting, UNSETTLED, None, sent=True)
        if last:
            logger.error("%s failed after %d attempts", part.nonce, waiting.attempts)
            await self._mark(part, PartState.FAILED)
            return None
        return await self._send(waiting)

    async def _mark_unknown(self, waiting: WaitingPart) -> float | None:
        """Handles a part that may have arrived, as the configuration says; returns as `_finish`."""
        part, now = waiting.part, self.clock.now_ms()
        logger.warning("delivery of %s is unknown", part.nonce)
        if part.additions.preview:
            await self._mark(part, PartState.DROPPED)
            return None
        if part.block < 0 and part.text == MISSING:
            # A repeated notice does no harm; without it the person would not know of the gap.
            return await self._send(msgspec.structs.replace(waiting, repeated=False))
        if self.on_unknown() is UnknownDelivery.REPEAT and not waiting.repeated:
            await self.store.write(lambda unit: outbox.mark_repeated(unit, part.serial))
            return await self._send(msgspec.structs.replace(waiting, repeated=True))

        def write(unit: Unit) -> None:
            marked = outbox.mark(unit, part.serial, PartState.UNKNOWN, now)
            if marked and part.block >= 0:
                outbox.add_notice(unit, part, MISSING, now)
            if marked:
                warn_owner(unit, part, self.owner(), now)

        await self.store.write(write)
        self.wake()
        self._wake_owner()
        return None

    async def _settlement(self, waiting: WaitingPart) -> Settlement | None:
        """Returns whether the part has arrived; None if the adapter cannot be asked now."""
        if waiting.state is PartState.PENDING or waiting.part.additions.completes:
            return Settlement.ABSENT  # a preview may be replaced by the same text again
        try:
            with anyio.fail_after(SEND_SECONDS):
                return await self.adapter.settle(waiting.part)
        except Exception:
            logger.exception("could not find out whether %s arrived", waiting.part.nonce)
            return None

    async def _send(self, waiting: WaitingPart) -> float | None:
        part = waiting.part
        if not await self._mark(part, PartState.SENDING):
            return None  # a person dropped it
        self.reach("delivery.before-send")
        try:
            receipt = await self._hand_over(waiting)
        except DeliveryRefusedError as error:
            logger.warning("the platform refused %s: %s", part.nonce, error)
            reason = self.redact(str(error))
            await self.store.write(lambda unit: outbox.set_error(unit, part.serial, reason))
            await self._mark(part, PartState.FAILED)
            return None
        except DeliveryDelayedError as error:
            return await self._put_off(waiting, error, error.seconds, sent=False)
        except Exception as error:
            # An exception of the adapter concerns only this part; the others must be sent.
            logger.exception("sending %s failed; it is tried again", part.nonce)
            return await self._put_off(waiting, error, None, sent=True)
        self.reach("delivery.after-send")
        await self._mark(part, PartState.SENT, receipt)
        return None

    async def _hand_over(self, waiting: WaitingPart) -> Receipt:
        """Sends the part with the adapter; with the repeat mark it may need several messages."""
        if waiting.part.additions.completes:
            with anyio.fail_after(SEND_SECONDS):
                receipt = await preview_streaming.completed(self.store, self.adapter, waiting.part)
            if receipt is not None:
                return receipt
        texts, has_file = [waiting.part.text], waiting.part.additions.media is not None
        if waiting.repeated:
            marked = REPEATED + waiting.part.text
            texts = split(marked, self.adapter.text_limit, self.adapter.text_unit)
            texts = texts[:1] if has_file else texts
        message_ids: list[str] = []
        for text in texts:
            with anyio.fail_after(FILE_SECONDS if has_file else SEND_SECONDS):
                receipt = await self.adapter.send(replace(waiting.part, text=text))
            message_ids += receipt.platform_ids
        return Receipt(tuple(message_ids))

    async def _put_off(
        self, waiting: WaitingPart, error: Exception | str, seconds: float | None, *, sent: bool
    ) -> float:
        """Records the reason and the time of the next attempt; returns the pause in seconds."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        reason, pause = self.redact(text), RETRIES.delay(waiting.attempts + 1)
        if seconds is not None:
            pause = min(max(seconds, 1.0), MAX_HINT_SECONDS)
        retry_at = self.clock.now_ms() + round(pause * 1000)
        await self.store.write(
            lambda unit: outbox.put_off(
                unit, waiting.part.serial, reason, retry_at, maybe_sent=sent
            )
        )
        return pause

    async def _mark(
        self, part: OutboundPart, state: PartState, receipt: Receipt | None = None
    ) -> bool:
        now = self.clock.now_ms()
        dead = state in {PartState.FAILED, PartState.UNKNOWN}
        if dead and part.additions.preview:  # the part that completes it has a state of its own
            dead, state = False, PartState.DROPPED

        def write(unit: Unit) -> bool:
            marked = outbox.mark(unit, part.serial, state, now, receipt)
            if marked and dead:
                warn_owner(unit, part, self.owner(), now)
            return marked

        marked = await self.store.write(write)
        if dead:
            self._wake_owner()
        is_over = state is PartState.SENT and not capabilities(self.adapter).late_refusals
        if is_over and part.additions.media is not None:
            from skerry.runtime.media_out import discard  # noqa: PLC0415 - it imports the runtime, which has the deliveries

            discard(part.additions.media)
        is_reported = state in {PartState.SENT, PartState.FAILED} and not part.additions.preview
        if self.hooks.message_sent.handlers and is_reported:
            self._notify_hooks(part, state, receipt)
        return marked

    def _wake_owner(self) -> None:
        to = self.owner()
        if to is not None:
            self.wake_other(to)

    def _notify_hooks(self, part: OutboundPart, state: PartState, receipt: Receipt | None) -> None:
        sent = state is PartState.SENT
        self.hooks.message_sent.start(
            MessageSent(
                run_id=part.run_id,
                channel=part.to.channel,
                account=part.to.account,
                to=part.to.peer.id,
                content=part.text,
                success=sent,
                error=None if sent else "The platform did not accept the message.",
                message_ids=receipt.platform_ids if receipt else (),
            )
        )


class Senders(Struct, frozen=True):
    """The senders of all accounts."""

    senders: dict[tuple[ChannelId, AccountId], Sender]

    def parts(self, to: ReplyTo, text: str) -> list[str]:
        """Cuts a text into parts within the platform's limit; without an adapter it stays whole."""
        sender = self.senders.get((to.channel, to.account))
        if sender is None:
            return [text]
        return split(text, sender.adapter.text_limit, sender.adapter.text_unit)

    def room(self, to: ReplyTo) -> tuple[int, TextUnit]:
        """Returns the platform's message limit; without its adapter the usual one."""
        sender = self.senders.get((to.channel, to.account))
        return (sender.adapter.text_limit, sender.adapter.text_unit) if sender else USUAL_ROOM

    def takes_files(self, to: ReplyTo) -> bool:
        """Returns whether the platform accepts files; false without its adapter."""
        sender = self.senders.get((to.channel, to.account))
        return sender is not None and capabilities(sender.adapter).media_out

    def edits(self, to: ReplyTo) -> bool:
        """Returns whether the platform can edit messages; false without its adapter."""
        sender = self.senders.get((to.channel, to.account))
        return sender is not None and capabilities(sender.adapter).edits

    async def typing(self, to: ReplyTo) -> None:
        """Shows on the platform that an answer is being written."""
        sender = self.senders.get((to.channel, to.account))
        if sender is not None:
            await sender.adapter.typing(to)

    def wake(self, to: ReplyTo) -> None:
        """Wakes the account's sender after a write to its outbox."""
        sender = self.senders.get((to.channel, to.account))
        if sender is not None:
            sender.wake()

    def hurry(self, to: ReplyTo) -> None:
        """Lets the account's sender send the parts that the conversation holds back now."""
        sender = self.senders.get((to.channel, to.account))
        if sender is not None:
            sender.hurry(to.peer)

    async def flush(self) -> None:
        """Sends the waiting parts, one account after another."""
        for sender in self.senders.values():
            await sender.flush()


async def receive(adapter: ChannelAdapter, inbox: Inbox) -> None:
    """Runs the adapter until the gateway stops; restarts it when it fails or ends."""

    async def listen() -> bool:
        try:
            await adapter.run(inbox)
        except BusyError:
            return False  # the gateway stops; the platform sends unacknowledged messages again
        return True

    await keep_running(listen, f"{adapter.channel}/{adapter.account}")
