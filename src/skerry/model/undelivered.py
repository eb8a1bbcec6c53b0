"""Errors of parts of replies: a delayed delivery, or a request that cannot be fulfilled."""

from skerry.model.errors import RequestError, SkerryError


class DeliveryDelayedError(SkerryError):
    """A platform did not accept a part now, for example because of its rate limit.

    `seconds` is the time until the next try; with None the sender chooses it.
    """

    code = "delivery.delayed"

    def __init__(self, message: str, seconds: float | None = None) -> None:
        self.seconds = seconds
        super().__init__(message)


class PartError(RequestError):
    """A part of the outbox does not exist, or its state does not allow the change."""

    code = "outbox.part"
    remedy = "`skerry outbox list` shows the parts that are not delivered."


class MediaError(SkerryError):
    """An attached file cannot be fetched, or a file cannot be sent."""

    code = "channel.media"
