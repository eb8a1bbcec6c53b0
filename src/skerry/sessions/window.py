"""The window of a model: the tokens of each part, what is sent of a conversation (pure)."""

from bisect import bisect_left
from itertools import chain
from operator import is_
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.config.context import Compaction
from skerry.model.message import CHARS_PER_TOKEN, Message, UserMessage, size
from skerry.ports.model import History

RESERVE_SHARE: Final = 3
KEEP_SHARE: Final = 3
SUMMARY_SHARE: Final = 4
LEAST_ROOM: Final = 256
"""Tokens; a window that the system prompt fills is an error of the model's call, not of ours."""
RESULT_SHARE: Final = 0.3
"""Share of the room that one message may take (openclaw-behaviour 7.3, 30 %)."""
LEAST_RESULT: Final = 2000
"""Characters that every message may have in a request."""


class TokenBudget(Struct, frozen=True):
    """Tokens of one window."""

    window: int
    reserve: int
    room: int
    """Tokens that a conversation may have before it is compacted."""
    keep: int
    """Tokens of the newest messages that a compaction keeps as they are."""
    summary: int
    """Tokens that the summary may have."""

    def tighter(self, times: int) -> "TokenBudget":
        """Returns the budget after the model refused a conversation that should have fitted."""
        if not times:
            return self
        keep = self.keep // 4**times
        return replace(self, keep=keep, summary=max(64, self.summary // 2**times))

    def below(self, refused: int) -> "TokenBudget":
        """Returns how a window is used that did not take a request of `refused` tokens."""
        if not 0 < refused < self.window:
            return self
        fixed = self.window - self.reserve - self.room
        reserve = min(self.reserve, refused // RESERVE_SHARE)
        room = min(self.room, max(refused - reserve - fixed, LEAST_ROOM))
        keep = min(self.keep, room // KEEP_SHARE)
        return TokenBudget(refused, reserve, room, keep, min(self.summary, room // SUMMARY_SHARE))

    @property
    def most_chars(self) -> int:
        """Returns how many characters one message may have in a request."""
        return max(LEAST_RESULT, int(self.room * CHARS_PER_TOKEN * RESULT_SHARE))


def budget(window: int, fixed: int, settings: Compaction) -> TokenBudget:
    """Returns how a window of `window` tokens is used; `fixed` are the system prompt and tools."""
    configured = max(settings.reserve_tokens, settings.reserve_tokens_floor)
    reserve = min(configured, window // RESERVE_SHARE)
    room = max(window - reserve - fixed, LEAST_ROOM)
    keep = min(settings.keep_recent_tokens, room // KEEP_SHARE)
    summary = min(reserve * 4 // 5, room // SUMMARY_SHARE)
    return TokenBudget(window, reserve, room, keep, summary)


def tokens(text: str) -> int:
    """Returns about how many tokens the text has, rather too many: one a non-ASCII character."""
    foreign = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (len(text) + (CHARS_PER_TOKEN - 1) * foreign) // CHARS_PER_TOKEN + 1


def weight(message: Message) -> int:
    """Returns about how many tokens the message has."""
    text = message.text
    foreign = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (size(message) + (CHARS_PER_TOKEN - 1) * foreign) // CHARS_PER_TOKEN + 1


def first_that_fits(history: History, budget: int) -> int:
    """Returns the index of the first message to send, so that about `budget` tokens are sent.

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


class MessageOverlay:
    """A conversation with some messages replaced. The conversation itself stays as it is."""

    def __init__(self) -> None:
        self._replaced: dict[int, tuple[Message, Message]] = {}
        """By index: the message of the conversation, and what is sent in its place."""
        self._sources: list[Message] = []
        self._copy: History | None = None

    def replace(self, history: History, index: int, message: Message) -> None:
        """Sends `message` in place of the one at `place`, as long as that is there."""
        self._replaced[index] = history.messages[index], message
        if self._copy is not None and index < len(self._copy.messages):
            self._copy.cut(index)
            del self._sources[index:]

    def of(self, history: History) -> History:
        """Returns the messages to send: the conversation itself where nothing is replaced."""
        messages = history.messages
        self._replaced = {
            index: pair
            for index, pair in self._replaced.items()
            if index < len(messages) and messages[index] is pair[0]
        }
        if not self._replaced:
            self._copy, self._sources = None, []
            return history
        copy = self._copy = self._copy or History()
        same = _common(self._sources, messages)
        copy.cut(same)
        del self._sources[same:]
        for index in range(same, len(messages)):
            self._sources.append(messages[index])
            copy.append(self._at(index, messages[index]))
        return copy

    def shown(self, history: History) -> list[Message]:
        """Returns the messages as they would be sent."""
        return [self._at(index, message) for index, message in enumerate(history.messages)]

    def _at(self, index: int, message: Message) -> Message:
        source, replacement = self._replaced.get(index, (None, message))
        return replacement if source is message else message


def _common(first: list[Message], second: list[Message]) -> int:
    """Returns how many messages the two have in common at their begin, by identity."""
    for index, same in enumerate(map(is_, first, second)):
        if not same:
            return index
    return min(len(first), len(second))
