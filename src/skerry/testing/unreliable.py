"""Platform with random failures of each kind that the outbox must handle."""

from dataclasses import dataclass, field
from random import Random

from skerry.model.outbound import OutboundPart, Receipt
from skerry.model.undelivered import DeliveryDelayedError
from skerry.testing.channel import MemoryChannel


@dataclass(slots=True)
class UnreliableChannel(MemoryChannel):
    """Fails for a share `rate` of the sends: refuses, delays, or delivers and then raises."""

    rate: float = 0.06
    dice: Random = field(default_factory=Random)

    async def send(self, part: OutboundPart) -> Receipt:
        """Delivers a part to the platform, or raises an error of a platform's library."""
        fate = self.dice.random() / self.rate
        if fate < 1 / 3:
            raise ConnectionError("the platform hung up")
        if fate < 2 / 3:
            raise DeliveryDelayedError("too many messages", 1.0)
        receipt = await MemoryChannel.send(self, part)
        if fate < 1:
            raise TimeoutError("the platform received the part, and did not answer")
        return receipt
