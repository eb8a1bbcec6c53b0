"""Pruning of old tool results that are not sent again (pure).

Source: openclaw-behaviour 7.3. The transcript and the conversation in memory do not change: copies
are pruned, for one request and the following ones.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from skerry.config.context_limits import ContextPruning, PruningTools, SoftTrim
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


def pruned(
    messages: Sequence[Message], settings: ContextPruning, window: int
) -> Mapping[int, ToolResultMessage]:
    """Returns the replacement messages by index.

    Args:
        messages: The conversation, oldest first.
        settings: Thresholds and forms; the caller evaluates `mode` and `ttl`.
        window: Tokens of the model's window; a token counts as four characters.

    If the conversation is still above `hardClearRatio` after shortening, whole results are cleared,
    oldest first, until it is below.
    """
    indexes = _prunable(messages, settings)
    room = window * CHARS_PER_TOKEN
    total = sum(map(size, messages))
    changed: dict[int, ToolResultMessage] = {}
    if not indexes or room <= 0 or total < settings.soft_trim_ratio * room:
        return changed
    current = {index: result for index in indexes if (result := _result(messages, index))}
    for index, result in current.items():
        trimmed = shortened(result, settings.soft_trim)
        if trimmed is not result:
            changed[index] = trimmed
            total += size(trimmed) - size(result)
    chars = sum(size(changed.get(index, result)) for index, result in current.items())
    if not settings.hard_clear.enabled or chars < settings.min_prunable_tool_chars:
        return changed
    cleared = (TextBlock(settings.hard_clear.placeholder),)
    for index, result in current.items():
        if total < settings.hard_clear_ratio * room:
            break
        before = changed.get(index, result)
        changed[index] = replace(result, content=cleared)
        total += size(changed[index]) - size(before)
    return changed


def shortened(result: ToolResultMessage, form: SoftTrim) -> ToolResultMessage:
    """Returns the beginning and the end of a result with more than `max_chars`."""
    text = result.text
    if len(text) <= form.max_chars or form.head_chars + form.tail_chars >= len(text):
        return result
    head, tail = text[: form.head_chars], text[len(text) - form.tail_chars :]
    note = (
        f"[Tool result trimmed: kept first {form.head_chars} chars and last {form.tail_chars}"
        f" chars of {len(text)} chars.]"
    )
    return replace(result, content=(TextBlock(f"{head}\n...\n{tail}\n\n{note}"),))


def _prunable(messages: Sequence[Message], settings: ContextPruning) -> list[int]:
    """Returns the indices of old results without images after the first message of a person."""
    start = next(
        (n for n, message in enumerate(messages) if isinstance(message, UserMessage)), None
    )
    if start is None:
        return []
    end, answers = len(messages), settings.keep_last_assistants
    while answers:
        end -= 1
        if end < 0:
            return []  # all of them are among the last
        answers -= isinstance(messages[end], AssistantMessage)
    return [
        index
        for index in range(start, end)
        if (result := _result(messages, index)) and allowed(result.tool_name, settings.tools)
    ]


def _result(messages: Sequence[Message], index: int) -> ToolResultMessage | None:
    message = messages[index]
    if not isinstance(message, ToolResultMessage):
        return None
    return None if any(isinstance(block, ImageBlock) for block in message.content) else message


def allowed(tool: str, rules: PruningTools) -> bool:
    """Returns whether results of the tool may be pruned; `deny` takes precedence."""
    name = tool.lower()
    if any(fnmatchcase(name, pattern.lower()) for pattern in rules.deny):
        return False
    return not rules.allow or any(fnmatchcase(name, pattern.lower()) for pattern in rules.allow)
