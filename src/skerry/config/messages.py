"""Section `messages`: what happens to messages that come during a run."""

from pydantic import Field

from skerry.config.base import OpenSection
from skerry.model.run import QueueMode


class QueueConfig(OpenSection):
    """The queue of a session."""

    mode: QueueMode = QueueMode.QUEUE
    """`queue`: each message becomes a run of its own, in order. `steer`: it enters the present run
    after the current tool call. `followup`: it continues the present run when that would stop."""


class MessagesConfig(OpenSection):
    """What happens to messages."""

    queue: QueueConfig = QueueConfig()
    response_prefix: str = Field(default="", max_length=200)
    """Stands before every answer on a platform. `{model}`, `{provider}`, `{thinkingLevel}` and
    `{identity.name}` are filled in."""
