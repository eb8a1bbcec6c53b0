"""Errors of parts of replies: a slow platform, or a request that cannot be fulfilled."""

from skerry.model.errors import RequestError, SkerryError


class DeliveryDelayedError(SkerryError):
    """A platform did not take a part now, such as for its rate limit, and may say when it will.

    `seconds` is after how long to try again; None leaves that to the sender.
    """

    code = "delivery.delayed"

    def __init__(self, message: str, seconds: float | None = None) -> None:
        self.seconds = seconds
        super().__init__(message)


class PartError(RequestError):
    """A part of the outbox does not exist, or its state does not allow the change."""

    code = "outbox.part"
    remedy = "`skerry outbox list` shows what is not delivered."


class MediaError(SkerryError):
    """A file that came with a message cannot be had, or a file cannot be sent."""

    code = "channel.media"
