"""Context window of a model: its token budget, and the messages that are sent (pure)."""

from bisect import bisect_left
from itertools import chain
from operator import is_
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.config.context_limits import Compaction, ContextPruning, SoftTrim, seconds
from skerry.model.message import (
    CHARS_PER_TOKEN,
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    size,
)
from skerry.ports.model import History, ModelInfo
from skerry.sessions.pruning import pruned, shortened

RESERVE_SHARE: Final = 3
KEEP_SHARE: Final = 3
SUMMARY_SHARE: Final = 4
MIN_ROOM: Final = 256
"""Minimum tokens for the conversation; a system prompt that fills the window fails at the model."""
RESULT_SHARE: Final = 0.3
"""Share of the room that one message may take (openclaw-behaviour 7.3, 30 %)."""
MIN_RESULT_CHARS: Final = 2000
"""Characters that every message may have in a request."""


PROMPT_SHARE: Final = 2
"""Factor on the limit of a tool result, for a person's message."""
_GAP: Final = "\n[… left out: {count} characters]\n"


class TokenBudget(Struct, frozen=True):
    """Token limits for one context window."""

    window: int
    reserve: int
    room: int
    """Limit on the conversation, above which it is compacted."""
    keep: int
    """Tokens of the newest messages that a compaction keeps unchanged."""
    summary: int
    """Limit on the summary."""

    def tighter(self, times: int) -> "TokenBudget":
        """Returns a smaller budget after the model refused a request `times` times."""
        if not times:
            return self
        keep = self.keep // 4**times
        return replace(self, keep=keep, summary=max(64, self.summary // 2**times))

    def below(self, refused: int) -> "TokenBudget":
        """Returns the budget after the model refused a request of `refused` tokens."""
        if not 0 < refused < self.window:
            return self
        fixed = self.window - self.reserve - self.room
        reserve = min(self.reserve, refused // RESERVE_SHARE)
        room = min(self.room, max(refused - reserve - fixed, MIN_ROOM))
        keep = min(self.keep, room // KEEP_SHARE)
        return TokenBudget(refused, reserve, room, keep, min(self.summary, room // SUMMARY_SHARE))

    @property
    def max_chars(self) -> int:
        """Returns the limit on the characters of one message in a request."""
        return max(MIN_RESULT_CHARS, int(self.room * CHARS_PER_TOKEN * RESULT_SHARE))


def budget(window: int, fixed: int, settings: Compaction) -> TokenBudget:
    """Returns the budget of a window; `fixed` are the tokens of the system prompt and tools."""
    configured = max(settings.reserve_tokens, settings.reserve_tokens_floor)
    reserve = min(configured, window // RESERVE_SHARE)
    room = max(window - reserve - fixed, MIN_ROOM)
    keep = min(settings.keep_recent_tokens, room // KEEP_SHARE)
    summary = min(reserve * 4 // 5, room // SUMMARY_SHARE)
    return TokenBudget(window, reserve, room, keep, summary)


def tokens(text: str) -> int:
    """Estimates the tokens of a text, rather too high: each non-ASCII character counts as one."""
    foreign = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (len(text) + (CHARS_PER_TOKEN - 1) * foreign) // CHARS_PER_TOKEN + 1


def fitted(text: str, max_tokens: int) -> str:
    """Returns at most `max_tokens` tokens of the text: beginning and end, with a mark between."""
    if tokens(text) <= max_tokens:
        return text
    gap = tokens(_GAP) + 4
    chars = len(text)
    while chars > 1 and tokens(text[: chars // 2]) + tokens(text[-(chars - chars // 2) :]) > max(
        max_tokens - gap, 2
    ):
        chars = chars * 3 // 4
    head, tail = chars * 2 // 3, chars - chars * 2 // 3
    return text[:head] + _GAP.format(count=len(text) - chars) + (text[-tail:] if tail else "")


def weight(message: Message) -> int:
    """Estimates the tokens of a message."""
    text = message.text
    foreign = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (size(message) + (CHARS_PER_TOKEN - 1) * foreign) // CHARS_PER_TOKEN + 1


def first_that_fits(history: History, budget: int) -> int:
    """Returns the index of the first message to send, so that about `budget` tokens are sent.

    Counts four characters as a token, and begins at a message of the person, so that every tool
    result stays with its call. The last message of the person is always sent. The transcript does
    not change. Costs O(log n) while everything fits.
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
    """A view of a conversation with some messages replaced. The conversation does not change."""

    def __init__(self) -> None:
        self._replaced: dict[int, tuple[Message, Message]] = {}
        """(message of the conversation, replacement) by index."""
        self._sources: list[Message] = []
        self._copy: History | None = None

    def replace(self, history: History, index: int, message: Message) -> None:
        """Replaces the message at `index`, as long as that message is at this index."""
        self._replaced[index] = history.messages[index], message
        if self._copy is not None and index < len(self._copy.messages):
            self._copy.cut(index)
            del self._sources[index:]

    def of(self, history: History) -> History:
        """Returns the messages to send: the conversation itself if none is replaced."""
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

    def sent(self, history: History) -> list[Message]:
        """Returns the messages with the replacements."""
        return [self._at(index, message) for index, message in enumerate(history.messages)]

    def _at(self, index: int, message: Message) -> Message:
        source, replacement = self._replaced.get(index, (None, message))
        return replacement if source is message else message


def _common(first: list[Message], second: list[Message]) -> int:
    """Returns the number of identical messages at the beginning of both lists."""
    for index, same in enumerate(map(is_, first, second)):
        if not same:
            return index
    return min(len(first), len(second))


def token_count(history: History, since: int, limits: TokenBudget) -> int:
    """Estimates the tokens of the next request, or uses the model's last count if that is higher.

    The model's counts up to index `since` are outdated and not used.
    """
    fixed = limits.window - limits.reserve - limits.room
    ends = history.ends
    counted = fixed + (ends[-1] if ends else 0) // CHARS_PER_TOKEN
    for index in reversed(range(since, len(ends))):
        message = history.messages[index]
        if isinstance(message, AssistantMessage) and message.usage.total_tokens:
            reported = message.usage.total_tokens + (ends[-1] - ends[index]) // CHARS_PER_TOKEN
            return max(counted, reported)
    return counted


def shorten(history: History, view: MessageOverlay, limits: TokenBudget) -> None:
    """Shortens messages that exceed their share of the window. Costs O(1) while all are short."""
    max_chars = limits.max_chars
    if not history.ends or history.ends[-1] <= max_chars:
        return
    before = 0
    for index, end in enumerate(history.ends):
        if end - before > max_chars:
            message = history.messages[index]
            short = fit(message, max_chars)
            if short is not message:
                view.replace(history, index, short)
        before = end


def fit(message: Message, max_chars: int) -> Message:
    """Returns the message, with a tool result or a person's text cut to its limit."""
    match message:
        case ToolResultMessage() if not _has_image(message):
            form = SoftTrim(
                max_chars=max_chars, head_chars=max_chars * 2 // 3, tail_chars=max_chars // 4
            )
            return shortened(message, form)
        case UserMessage() if len(message.text) > max_chars * PROMPT_SHARE:
            text = TextBlock(fitted(message.text, max_chars * PROMPT_SHARE // CHARS_PER_TOKEN))
            images = (block for block in message.content if isinstance(block, ImageBlock))
            return replace(message, content=(text, *images))
    return message


def prune(
    history: History, view: MessageOverlay, settings: ContextPruning, model: ModelInfo, now: int
) -> None:
    """Shortens old tool results after the provider's cache of them has expired.

    A shortened result stays shortened, so that the next request matches the provider's cache.
    """
    if settings.mode == "off" or not _caches(model.api, model.id):
        return
    last = _last_call(history.messages)
    if last is None or now - last < seconds(settings.ttl) * 1000:
        return
    changed = pruned(view.sent(history), settings, model.context_window)
    for index, result in changed.items():
        view.replace(history, index, result)


def _last_call(messages: list[Message]) -> int | None:
    """Returns the time of the last answer of a caching model, in ms; None without one."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and _caches(message.api, message.model):
            return message.timestamp
    return None


def _caches(api: str, model: str) -> bool:
    """Returns whether the provider caches the beginning of a request for some minutes."""
    return api == "anthropic-messages" or model.startswith("anthropic/")


def _has_image(message: ToolResultMessage) -> bool:
    return any(isinstance(block, ImageBlock) for block in message.content)
