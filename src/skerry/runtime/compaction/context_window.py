"""Keeps the conversation of one run inside the window of its model.

Before each call: at the soft threshold notes are flushed, at the threshold the conversation is
compacted. When the model refuses a conversation as too long it is compacted harder and asked again,
three times at most (openclaw-behaviour 6.2); what is left then is a message that no window takes.
`prune` and `shorten` change what is sent, and nothing that is stored.
"""

from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from skerry.commands.table import CommandError
from skerry.config.context import ContextPruning, SoftTrim, seconds
from skerry.model.message import (
    CHARS_PER_TOKEN,
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)
from skerry.model.run import Compacted
from skerry.model.session import SessionEntry
from skerry.ports.model import ModelInfo
from skerry.runtime.compaction.compactor import Compactor, Task, tighter
from skerry.runtime.conversation_cache import Conversation
from skerry.sessions.pruning import pruned, shortened
from skerry.sessions.summary import fitted
from skerry.sessions.window import Budget

ATTEMPTS: Final = 3
SOFT_SHARE: Final = 4
"""Divisor of a small window's room: the soft threshold is at most this part below the other."""
NOTHING: Final = "There is nothing to summarise yet."


class Keeper(Struct):
    """Watches one run. `moved` is told where each message now comes from, after a compaction."""

    compactor: Compactor
    conversation: Conversation
    moved: Callable[[list[int]], None]
    """Takes the number of each message's entry, when the conversation was read anew."""
    refused: int = 0
    """Number of times that the model refused the conversation as too long."""
    least: int = 0
    """Tokens, about, of the smallest request that it refused."""
    ended: SessionEntry | None = None
    """The session that this run's message took the place of by itself; its notes come first."""
    _futile: int = 0
    """Messages at which nothing could be cut; it is tried again when there are more."""
    _last: Task | None = None

    async def before_call(self, model: ModelInfo, limits: Budget, system: str) -> None:
        """Flushes or compacts, if it is time. Costs next to nothing while it is not."""
        if self.ended is not None:
            ended, self.ended = self.ended, None
            await self._note(ended, system, limits)
        settings = self.compactor.settings
        tokens = held(self.conversation, limits)
        threshold = limits.window - limits.reserve
        task = self._last = Task(model, limits, system, "threshold", tokens)
        soft = min(settings.memory_flush.soft_threshold_tokens, limits.room // SOFT_SHARE)
        if not settings.enabled or tokens <= threshold - soft:
            return
        if tokens > threshold:
            await self._compact(task)
        elif not self.conversation.flushed:
            self.conversation.flushed = True  # once a cycle, whatever comes of it
            said = self.conversation.history.messages
            await self.compactor.flush(said, system, limits)

    async def _note(self, ended: SessionEntry, system: str, limits: Budget) -> None:
        """Flushes the notes of a session that ended by itself (decisions 6, row 18)."""
        histories = self.compactor.runtime.histories
        before = await histories.get(ended.session_id, ended.tail + 1)
        if not before.flushed:
            said = before.history.messages
            await self.compactor.flush(said, system, limits, ended.session_id)
        histories.forget(ended.session_id)

    async def after_refusal(self, sent: int) -> bool:
        """Compacts what the model refused; returns whether it may be asked again.

        Args:
            sent: Tokens of the request, about. Its window takes less, whatever is configured.
        """
        if self._last is None or self.refused >= ATTEMPTS:
            return False
        self.least = min(sent, self.least or sent)
        self.refused += 1
        task = tighter(self._last, self.least, self.refused - 1)
        task = Task(task.model, task.limits, task.system, "overflow", task.tokens)
        await self._compact(task)
        return True

    def fitting(self, limits: Budget) -> Budget:
        """Returns the limits, less what the model refused."""
        return limits.below(self.least).tighter(self.refused)

    async def on_demand(self, task: Task) -> Compacted:
        """Compacts because somebody asks.

        Raises:
            CommandError: there is nothing to summarise.
        """
        done = await self._compact(task)
        if done is None:
            raise CommandError(NOTHING)
        return done

    async def _compact(self, task: Task) -> Compacted | None:
        conversation, compactor = self.conversation, self.compactor
        count = len(conversation.history.messages)
        if task.trigger == "threshold" and count <= self._futile:
            return None
        done = await compactor.run(task, conversation.tail)
        if done is None:
            self._futile = count
            return None
        conversation.tail = done.tail
        session_id, histories = compactor.whose.session_id, compactor.runtime.histories
        with anyio.CancelScope(shield=True):  # what is stored is what the rest of the run sees
            self.moved(await histories.load(conversation, session_id, done.tail + 1))
        return done


def held(conversation: Conversation, limits: Budget) -> int:
    """Returns about how many tokens the next request has: as the model counted last, if more."""
    history = conversation.history
    fixed = limits.window - limits.reserve - limits.room
    ends = history.ends
    counted = fixed + (ends[-1] if ends else 0) // CHARS_PER_TOKEN
    for place in reversed(range(conversation.since, len(ends))):
        message = history.messages[place]
        if isinstance(message, AssistantMessage) and message.usage.total_tokens:
            told = message.usage.total_tokens + (ends[-1] - ends[place]) // CHARS_PER_TOKEN
            return max(counted, told)
    return counted


PROMPT_SHARE: Final = 2
"""A person's message may have so many times what a tool's result may."""


def shorten(conversation: Conversation, limits: Budget) -> None:
    """Lets no message take more of the window than is its share. Costs O(1) while all are short."""
    history, most = conversation.history, limits.most_chars
    if not history.ends or history.ends[-1] <= most:
        return
    before = 0
    for place, end in enumerate(history.ends):
        if end - before > most:
            message = history.messages[place]
            short = fit(message, most)
            if short is not message:
                conversation.view.replace(history, place, short)
        before = end


def fit(message: Message, most: int) -> Message:
    """Returns the message with a tool's result, or a person's words, cut to their share."""
    match message:
        case ToolResultMessage() if not _has_image(message):
            form = SoftTrim(max_chars=most, head_chars=most * 2 // 3, tail_chars=most // 4)
            return shortened(message, form)
        case UserMessage() if len(message.text) > most * PROMPT_SHARE:
            text = TextBlock(fitted(message.text, most * PROMPT_SHARE // CHARS_PER_TOKEN))
            images = (one for one in message.content if isinstance(one, ImageBlock))
            return replace(message, content=(text, *images))
    return message


def prune(conversation: Conversation, settings: ContextPruning, model: ModelInfo, now: int) -> None:
    """Shortens old tool results, if the provider's cache of them has expired.

    What was shortened once stays so: else the next request would be another than the one that the
    provider has cached.
    """
    if settings.mode == "off" or not _caches(model.api, model.id):
        return
    history = conversation.history
    last = _last_call(history.messages)
    if last is None or now - last < seconds(settings.ttl) * 1000:
        return
    changed = pruned(conversation.view.shown(history), settings, model.context_window)
    for place, result in changed.items():
        conversation.view.replace(history, place, result)


def _last_call(messages: list[Message]) -> int | None:
    """Returns when a model that caches last answered, in milliseconds."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and _caches(message.api, message.model):
            return message.timestamp
    return None


def _caches(api: str, model: str) -> bool:
    """Returns whether the provider keeps the beginning of a request for some minutes."""
    return api == "anthropic-messages" or model.startswith("anthropic/")


def _has_image(message: ToolResultMessage) -> bool:
    return any(isinstance(block, ImageBlock) for block in message.content)
