"""Rules for a message that arrives while a run of its conversation is active."""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class QueueMode(StrEnum):
    """Handling of such a message."""

    COLLECT = "collect"
    """Waits; all messages that wait become one later prompt."""
    STEER = "steer"
    """Enters the run after the current tool call; the remaining calls are skipped."""
    FOLLOWUP = "followup"
    """Waits until the run has ended, then gets a separate turn."""
    STEER_BACKLOG = "steer-backlog"
    """Enters the run as with `steer`, and also gets a separate turn afterwards."""
    INTERRUPT = "interrupt"
    """Stops the run and the waiting messages, and is answered at once."""
    OWN_RUN = "queue"
    """Waits for a separate run, regardless of the configuration, because a caller waits for its
    answer.

    People cannot choose it: they mean `steer` by this name. It is the stored value of requests.
    """


class DropPolicy(StrEnum):
    """Policy if more messages wait than the limit allows."""

    OLD = "old"
    """The oldest is dropped."""
    NEW = "new"
    """The newest is refused."""
    SUMMARIZE = "summarize"
    """Keeps one line of each of the oldest messages for the model."""


CHOICES: Final = tuple(mode.value for mode in QueueMode if mode is not QueueMode.OWN_RUN)
_ALIASES: Final = {
    "queue": QueueMode.STEER,
    "queued": QueueMode.STEER,
    "steering": QueueMode.STEER,
    "coalesce": QueueMode.COLLECT,
    "steer+backlog": QueueMode.STEER_BACKLOG,
    "steer_backlog": QueueMode.STEER_BACKLOG,
    "abort": QueueMode.INTERRUPT,
}


def queue_mode(text: str) -> QueueMode:
    """Returns the mode of a name that a person wrote. Source: openclaw-behaviour 5.2.

    Raises:
        ValueError: there is no such mode; the message lists the modes.
    """
    word = text.strip().lower()
    try:
        return _ALIASES.get(word) or QueueMode(word)
    except ValueError:
        raise ValueError(f"{text!r} is not a queue mode; modes: {', '.join(CHOICES)}") from None


class QueueRules(Struct, frozen=True):
    """Rules for one queued message; the defaults are those of openclaw-behaviour 5.2."""

    mode: QueueMode = QueueMode.COLLECT
    debounce_ms: int = 1000
    """Milliseconds without a new message before the queued messages are processed."""
    cap: int = 20
    """Maximum number of waiting messages of a conversation."""
    drop: DropPolicy = DropPolicy.SUMMARIZE
