"""Protocol of a chat platform's adapter."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit

Inbox = Callable[[InboundMessage], Awaitable[None]]


class ChannelAdapter(Protocol):
    """One account on one platform. Maps and sends; the core keeps what must not be lost."""

    @property
    def channel(self) -> ChannelId:
        """Returns the platform's name."""
        ...

    @property
    def account(self) -> AccountId:
        """Returns the account's name."""
        ...

    @property
    def text_limit(self) -> int:
        """Returns the most that one message may have, in `text_unit`."""
        ...

    @property
    def text_unit(self) -> TextUnit:
        """Returns in what the platform counts."""
        ...

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled. Acknowledge a message only after `inbox` has returned."""
        ...

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; returns when the platform has taken it.

        Raises:
            DeliveryRefusedError: it never will, so nobody tries again.
            DeliveryDelayedError: it did not take the part now, and may say when to try again. After
                any other error the part is settled and tried again, later and later.
        """
        ...

    async def typing(self, to: ReplyTo) -> None:
        """Shows for some seconds that an answer is being written; does nothing if it cannot.

        What it raises is noted and harms nobody.
        """
        ...

    async def settle(self, part: OutboundPart) -> Settlement:
        """Says whether a part arrived whose sending was interrupted; UNKNOWN where nobody can."""
        ...
