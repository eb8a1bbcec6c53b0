"""A platform that fails now and then, in each way that the outbox must bear."""

from dataclasses import dataclass, field
from random import Random

from skerry.model.outbound import OutboundPart, Receipt
from skerry.model.undelivered import DeliveryDelayedError
from skerry.testing.channel import MemoryChannel


@dataclass(slots=True)
class UnreliableChannel(MemoryChannel):
    """Fails at `rate` of the sendings: refuses, takes the part and fails, or asks for a wait."""

    rate: float = 0.06
    dice: Random = field(default_factory=Random)

    async def send(self, part: OutboundPart) -> Receipt:
        """Lets the platform receive a part, or raises what a platform's library would."""
        fate = self.dice.random() / self.rate
        if fate < 1 / 3:
            raise ConnectionError("the platform hung up")
        if fate < 2 / 3:
            raise DeliveryDelayedError("too many messages", 1.0)
        receipt = await MemoryChannel.send(self, part)
        if fate < 1:
            raise TimeoutError("the platform took it, and did not say so")
        return receipt
