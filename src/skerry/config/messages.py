"""Section `messages`: what happens to messages that come during a run, and to replies."""

from enum import StrEnum

from pydantic import Field

from skerry.config.base import OpenSection
from skerry.model.run import QueueMode


class QueueConfig(OpenSection):
    """The queue of a session."""

    mode: QueueMode = QueueMode.QUEUE
    """`queue`: each message becomes a run of its own, in order. `steer`: it enters the present run
    after the current tool call. `followup`: it continues the present run when that would stop."""


class UnknownDelivery(StrEnum):
    """What becomes of a part of which nobody can say whether it arrived."""

    NOTICE = "notice"
    REPEAT = "repeat"


class DeliveryConfig(OpenSection):
    """How replies reach a platform."""

    unknown: UnknownDelivery = UnknownDelivery.NOTICE
    """Of a part that was being sent when the gateway died, where the platform cannot be asked:
    `notice` tells the person that one may be missing and keeps it for `skerry outbox`; `repeat`
    sends it once more with a mark."""


class MessagesConfig(OpenSection):
    """What happens to messages."""

    queue: QueueConfig = QueueConfig()
    response_prefix: str = Field(default="", max_length=200)
    """Stands before every answer on a platform. `{model}`, `{provider}`, `{thinkingLevel}` and
    `{identity.name}` are filled in."""
    delivery: DeliveryConfig = DeliveryConfig()
