"""First message of a long conversation from which the rest fits a model (pure)."""

from bisect import bisect_left
from itertools import chain

from skerry.model.message import CHARS_PER_TOKEN, UserMessage
from skerry.ports.model import History


def first_that_fits(history: History, budget: int) -> int:
    """Return the index of the first message to send, so that about `budget` tokens are sent.

    Counts four characters as a token and begins at a message of the person, so that no tool result
    is parted from its call. The last message of the person is always sent. The transcript itself
    loses nothing. Costs O(log n) while everything fits.
    """
    if not history.ends:
        return 0
    surplus = history.ends[-1] - budget * CHARS_PER_TOKEN
    if surplus <= 0:
        return 0
    messages = history.messages
    fitting = range(bisect_left(history.ends, surplus) + 1, len(messages))
    for index in chain(fitting, reversed(range(len(messages)))):
        if isinstance(messages[index], UserMessage):
            return index
    return 0
