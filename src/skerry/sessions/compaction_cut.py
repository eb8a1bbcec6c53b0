"""Position at which a conversation is cut for a compaction (pure).

Source: openclaw-behaviour 7.4. A cut is made before a message of the person or of the assistant,
never before a tool result, so that every result stays with its call.
"""

from collections.abc import Sequence

from msgspec import Struct

from skerry.model.message import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    aborted_result,
    is_note,
)
from skerry.sessions.window import weight

Numbered = tuple[int, Message]
"""An entry: its number in the transcript, and its message."""


class CompactionCut(Struct, frozen=True):
    """Messages to summarise, and the first one to keep."""

    messages: tuple[Message, ...]
    """Messages to summarise, oldest first."""
    first_kept: int
    """Number of the first entry that is kept."""
    splits: bool
    """True when the cut is inside a turn, whose rest is kept."""

    def open_request(self, before: str) -> str:
        """Returns the person's request of the turn that is cut; empty if no turn is cut.

        `before` is the open request of the previous compaction: a long turn may be cut repeatedly.
        """
        if not self.splits:
            return ""
        texts = (
            message.text for message in reversed(self.messages) if isinstance(message, UserMessage)
        )
        return next(texts, before)


def model_entries(entries: Sequence[Numbered]) -> list[Numbered]:
    """Returns the entries for a model, without commands, their answers, and summaries."""
    selected: list[Numbered] = []
    for number, message in entries:
        match is_note(message):
            case "":
                selected.append((number, message))
            case "command" if selected and isinstance(selected[-1][1], UserMessage):
                selected.pop()
            case _:
                pass
    return selected


def with_all_results(entries: Sequence[tuple[int, Message]]) -> list[tuple[int, Message]]:
    """Returns the entries with a result for each call, after unreadable entries were skipped.

    Entries without gaps are returned unchanged.
    """
    if not entries or entries[-1][0] - entries[0][0] + 1 == len(entries):
        return list(entries)
    complete: list[tuple[int, Message]] = []
    waiting: dict[str, ToolCall] = {}
    for number, message in entries:
        if isinstance(message, ToolResultMessage):
            if waiting.pop(message.tool_call_id, None) is not None:
                complete.append((number, message))
            continue
        complete += [
            (number - 1, aborted_result(call, message.timestamp)) for call in waiting.values()
        ]
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        waiting = {call.id: call for call in calls}
        complete.append((number, message))
    return complete


def cut(entries: Sequence[Numbered], keep: int) -> CompactionCut | None:
    """Returns the cut that keeps about `keep` tokens; None if no message is before the cut.

    Counts back from the newest message until `keep` is reached, then moves forward to the next
    possible cut. If only results of one response follow, the cut is before that response.
    """
    index = _first_kept([message for _, message in entries], keep)
    if index <= 0:
        return None
    first, message = entries[index]
    messages = tuple(earlier for _, earlier in entries[:index])
    return CompactionCut(messages, first, splits=not isinstance(message, UserMessage))


def _first_kept(messages: Sequence[Message], keep: int) -> int:
    """Returns the index of the first message that is kept; 0 if all are."""
    index, tokens = len(messages), 0
    while index and tokens < keep:
        index -= 1
        tokens += weight(messages[index])
    if tokens < keep or not messages:
        return 0
    forward = (n for n in range(index, len(messages)) if may_begin(messages[n]))
    backward = (n for n in reversed(range(index)) if may_begin(messages[n]))
    return next(forward, next(backward, 0))


def may_begin(message: Message) -> bool:
    """Returns whether a cut may be made before the message."""
    return not isinstance(message, ToolResultMessage)


def batches(messages: Sequence[Message], room: int) -> list[tuple[Message, ...]]:
    """Splits the messages into batches of about `room` tokens, at positions of possible cuts.

    A single message, or a response with its results, may be larger than `room`.
    """
    runs: list[list[Message]] = []
    tokens = 0
    for group in _groups(messages):
        group_tokens = sum(map(weight, group))
        if not runs or tokens + group_tokens > room:
            runs.append([])
            tokens = 0
        runs[-1] += group
        tokens += group_tokens
    return [tuple(batch) for batch in runs]


def _groups(messages: Sequence[Message]) -> list[list[Message]]:
    """Groups each response with its results; every other message is a group of its own."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and isinstance(message, ToolResultMessage):
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def calls_of(messages: Sequence[Message]) -> list[tuple[str, dict[str, object]]]:
    """Returns the name and the arguments of every tool call, in order."""
    return [
        (call.name, call.arguments)
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]
