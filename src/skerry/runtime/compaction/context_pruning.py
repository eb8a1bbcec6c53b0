"""Pruning for one request: long messages and old results are shortened for it alone.

Nothing here changes the transcript or the conversation in memory.
"""

from typing import Final

from msgspec.structs import replace

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
from skerry.ports.model import ModelInfo
from skerry.runtime.conversation_cache import Conversation
from skerry.sessions.budget import Budget
from skerry.sessions.pruning import pruned, shortened
from skerry.sessions.summary import fitted

PROMPT_SHARE: Final = 2
"""A person's message may have so many times what a tool's result may."""


def shorten(conversation: Conversation, limits: Budget) -> None:
    """Let no message take more of the window than is its share. Costs O(1) while all are short."""
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
    """Return the message with a tool's result, or a person's words, cut to their share."""
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
    """Shorten old tool results, if the provider's cache of them has expired.

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
    """Return when a model that caches last answered, in milliseconds."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and _caches(message.api, message.model):
            return message.timestamp
    return None


def _caches(api: str, model: str) -> bool:
    """Return whether the provider keeps the beginning of a request for some minutes."""
    return api == "anthropic-messages" or model.startswith("anthropic/")


def _has_image(message: ToolResultMessage) -> bool:
    return any(isinstance(block, ImageBlock) for block in message.content)
