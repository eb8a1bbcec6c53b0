"""Answers that grow in one message: a preview that is edited while the model answers.

The preview is a row of the outbox like any part, so it is sent once. During the run its message is
edited; the edits are not recorded, as each replaces the one before. The first part of the finished
text names the row and replaces its text. After a crash the row still exists, and the text of the
resumed run completes it. A preview that was not sent before the finished text is not sent at all.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio
from msgspec.structs import replace

from skerry.model.errors import DeliveryRefusedError, StateError
from skerry.model.ids import RunId
from skerry.model.inbound import PeerKind, ReplyTo
from skerry.model.outbound import Additions, Content, OutboundPart, Receipt
from skerry.model.undelivered import DeliveryDelayedError
from skerry.ports.channel import ChannelAdapter, Edits, Locates
from skerry.store import Reader, Store, outbox
from skerry.store.outbox import OutboxRow

if TYPE_CHECKING:  # it completes previews with this module
    from skerry.runtime.delivery import Senders

logger = logging.getLogger(__name__)

MIN_CHARS: Final = 30
"""Least number of characters of a preview."""
DIRECT_SECONDS: Final = 1.5
"""Seconds between two edits: platforms allow about one message a second to a person."""
GROUP_SECONDS: Final = 4.0
"""Seconds between two edits in a group, where platforms allow about twenty a minute."""
EDIT_SECONDS: Final = 10.0
ADDITIONS: Final = Additions(preview=True, silent=True)


Growth = Callable[[], tuple[str, int]]
"""Function that returns the present text, and the serial of the preview's row or 0."""
Begin = Callable[[Content], Awaitable[None]]
"""Function that writes the row of a new preview."""


class Preview:
    """The preview message of one run. Start `run()` in a task."""

    def __init__(
        self,
        store: Store,
        delivery: "Senders",
        run_id: RunId,
        to: ReplyTo,
        mode: str,
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._run_id = run_id
        self._to = to
        self._mode = mode
        self._seconds = DIRECT_SECONDS if to.peer.kind is PeerKind.DIRECT else GROUP_SECONDS
        self._pause = self._seconds
        self._serial = 0
        self._platform_id = ""
        self._shown_text = ""
        self.is_given_up = False

    async def run(self, lock: anyio.Lock, growth: Growth, begin: Begin) -> None:
        """Updates the preview until cancelled; `lock` keeps the order with the blocks."""
        while not self.is_given_up:
            await anyio.sleep(self._pause)
            self._pause = self._seconds
            async with lock:
                # An edit cancelled at the end of the run could arrive after the finished text.
                with anyio.CancelScope(shield=True):
                    await self._show(*growth(), begin)

    async def _show(self, text: str, serial: int, begin: Begin) -> None:
        if self._mode == "block":
            text = text[: text.rfind("\n") + 1]
        text = (self._delivery.parts(self._to, text) or [""])[0] if text.strip() else ""
        if len(text) < MIN_CHARS or text == self._shown_text:
            return
        try:
            if not serial:
                await begin(Content(text, ADDITIONS))
                self._shown_text = text
            elif await self._edit(serial, text):
                self._shown_text = text
        except StateError as error:
            logger.warning("preview of run %s: store error: %s", self._run_id, error)

    async def _edit(self, serial: int, text: str) -> bool:
        """Edits the message; returns False if it cannot be edited now."""
        if serial != self._serial:
            self._serial, self._platform_id = serial, ""
        if not self._platform_id:
            ids = await self._store.read(lambda reader: outbox.ids_of(reader, serial))
            self._platform_id = ids[0] if ids else ""
        sender = self._delivery.senders.get((self._to.channel, self._to.account))
        if not self._platform_id or sender is None or not isinstance(sender.adapter, Edits):
            return False
        try:
            with anyio.fail_after(EDIT_SECONDS):
                await sender.adapter.edit(self._to, self._platform_id, text)
        except DeliveryDelayedError as error:
            self._pause = max(error.seconds or 0.0, self._seconds)
            return False
        except Exception:
            # The finished text is sent even if its preview cannot be edited.
            logger.info("editing the preview of run %s failed", self._run_id, exc_info=True)
            self.is_given_up = True
            return False
        return True


async def completed(store: Store, adapter: ChannelAdapter, part: OutboundPart) -> Receipt | None:
    """Replaces the preview that a part completes; returns None if the part must be sent."""
    message_id = await _message_of(store, adapter, part.additions.completes)
    if message_id and isinstance(adapter, Edits):
        try:
            await adapter.edit(part.to, message_id, part.text)
        except DeliveryRefusedError as error:
            logger.info("the preview of %s cannot be completed: %s", part.nonce, error)
        else:
            return Receipt((message_id,))
    # From now on it is an ordinary part: the adapter must be asked if it arrived.
    additions = replace(part.additions, completes=0)
    await store.write(lambda unit: outbox.change(unit, part.serial, additions))
    return None


async def _message_of(store: Store, adapter: ChannelAdapter, serial: int) -> str:
    """Returns the platform's id of a preview message; empty if there is none.

    If a crash interrupted the sending, the adapter looks the message up, if it can.
    """

    def read(reader: Reader) -> tuple[tuple[str, ...], OutboxRow | None]:
        return outbox.ids_of(reader, serial), outbox.get(reader, serial)

    ids, part = await store.read(read)
    if not ids and part is not None and part.waiting.attempts and isinstance(adapter, Locates):
        receipt = await adapter.locate(part.waiting.part)
        ids = receipt.platform_ids if receipt is not None else ()
    return ids[0] if ids else ""
