"""Division of the tokens of a model's window (pure).

The reserve is the larger of `reserveTokens` and `reserveTokensFloor`, as OpenClaw has it, but never
more than a third of the window: a local model of 8,192 tokens would have none left otherwise. What
neither the reserve nor the system prompt and the tools take is the room of the conversation. After
a compaction at most a third of it is recent messages and a quarter the summary, so that the next
compaction is some way off.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.config.context import Compaction
from skerry.model.message import CHARS_PER_TOKEN, Message, size

RESERVE_SHARE: Final = 3
KEEP_SHARE: Final = 3
SUMMARY_SHARE: Final = 4
LEAST_ROOM: Final = 256
"""Tokens; a window that the system prompt fills is an error of the model's call, not of ours."""
RESULT_SHARE: Final = 0.3
"""Share of the room that one message may take of a request (openclaw-behaviour 7.3, 30 %)."""
LEAST_RESULT: Final = 2000
"""Characters that every message may have in a request."""


class Budget(Struct, frozen=True):
    """Tokens of one window."""

    window: int
    reserve: int
    room: int
    """Tokens that the conversation may have before it is compacted."""
    keep: int
    """Tokens of the newest messages that remain unchanged."""
    summary: int
    """Tokens that the summary may have."""

    def tighter(self, times: int) -> "Budget":
        """Returns the budget after the model refused a conversation that should have fitted."""
        if not times:
            return self
        keep = self.keep // 4**times
        return replace(self, keep=keep, summary=max(64, self.summary // 2**times))

    def below(self, refused: int) -> "Budget":
        """Return how a window is used that did not take a request of `refused` tokens."""
        if not 0 < refused < self.window:
            return self
        fixed = self.window - self.reserve - self.room
        reserve = min(self.reserve, refused // RESERVE_SHARE)
        room = min(self.room, max(refused - reserve - fixed, LEAST_ROOM))
        keep = min(self.keep, room // KEEP_SHARE)
        return Budget(refused, reserve, room, keep, min(self.summary, room // SUMMARY_SHARE))

    @property
    def most_chars(self) -> int:
        """Return how many characters one message may have in a request."""
        return max(LEAST_RESULT, int(self.room * CHARS_PER_TOKEN * RESULT_SHARE))


def budget(window: int, fixed: int, settings: Compaction) -> Budget:
    """Return how a window of `window` tokens is used; `fixed` are the system prompt and tools."""
    wanted = max(settings.reserve_tokens, settings.reserve_tokens_floor)
    reserve = min(wanted, window // RESERVE_SHARE)
    room = max(window - reserve - fixed, LEAST_ROOM)
    keep = min(settings.keep_recent_tokens, room // KEEP_SHARE)
    summary = min(reserve * 4 // 5, room // SUMMARY_SHARE)
    return Budget(window, reserve, room, keep, summary)


def tokens(text: str) -> int:
    """Return about how many tokens the text has, rather too many: outside ASCII one a character."""
    foreign = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (len(text) + (CHARS_PER_TOKEN - 1) * foreign) // CHARS_PER_TOKEN + 1


def weight(message: Message) -> int:
    """Return about how many tokens the message has."""
    text = message.text
    foreign = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (size(message) + (CHARS_PER_TOKEN - 1) * foreign) // CHARS_PER_TOKEN + 1
