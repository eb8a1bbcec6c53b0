"""Rules for a message that arrives while a run of its conversation is active."""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class QueueMode(StrEnum):
    """Handling of such a message."""

    COLLECT = "collect"
    """Waits with the others that arrive meanwhile; together they are one later prompt."""
    STEER = "steer"
    """Enters the run after the current tool call; the remaining calls are skipped."""
    FOLLOWUP = "followup"
    """Waits until the run has ended, and then has a turn of its own."""
    STEER_BACKLOG = "steer-backlog"
    """Enters the run as with `steer`, and has a turn of its own afterwards too."""
    INTERRUPT = "interrupt"
    """Stops the run and the waiting messages, and is answered at once."""
    OWN_RUN = "queue"
    """Waits for a run of its own, regardless of the configuration: a caller waits for this one's
    answer.

    Nobody chooses it by this name, which stands for `steer` where people write it; it is what
    requests have stored from the beginning.
    """


class DropPolicy(StrEnum):
    """Policy when more messages wait than the limit allows."""

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
    """Returns the mode that people mean with `text`. Source: openclaw-behaviour 5.2.

    Raises:
        ValueError: they mean none; the message lists the modes.
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
    """Messages of a conversation that may wait."""
    drop: DropPolicy = DropPolicy.SUMMARIZE
