"""Messages of a transcript as the model receives them (pure)."""

from collections.abc import Iterable, Sequence

from skerry.model.message import (
    COMMAND,
    COMPACTION,
    NOTICE,
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
)

ABORTED_RESULT = "This call was interrupted; whether it had an effect is not known."


def open_calls(messages: Iterable[Message]) -> list[ToolCall]:
    """Returns the tool calls that have no result, in order."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage):
            calls.pop(message.tool_call_id, None)
    return list(calls.values())


def aborted_result(call: ToolCall, at: int) -> ToolResultMessage:
    """Returns the result that closes a call whose run was interrupted or aborted."""
    return ToolResultMessage(
        call.id, call.name, (TextBlock(ABORTED_RESULT),), is_error=True, timestamp=at
    )


def mended(entries: Sequence[tuple[int, Message]]) -> list[tuple[int, Message]]:
    """Returns numbered entries so that each call has its result, where some could not be read.

    Entries without gaps are returned as they are.
    """
    if not entries or entries[-1][0] - entries[0][0] + 1 == len(entries):
        return list(entries)
    found: list[tuple[int, Message]] = []
    waiting: dict[str, ToolCall] = {}
    for number, message in entries:
        if isinstance(message, ToolResultMessage):
            if waiting.pop(message.tool_call_id, None) is not None:
                found.append((number, message))
            continue
        found += [(number - 1, aborted_result(one, message.timestamp)) for one in waiting.values()]
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        waiting = {call.id: call for call in calls}
        found.append((number, message))
    return found


def command_answer(text: str, at: int) -> AssistantMessage:
    """Returns the transcript entry of a command's answer: no model produced it."""
    said = (TextBlock(text),)
    provider, model = COMMAND
    return AssistantMessage(said, provider, provider, model, Usage(), "stop", at)


def notice(text: str, at: int) -> AssistantMessage:
    """Returns the transcript entry of a notice from the gateway to the person."""
    provider, model = NOTICE
    said = (TextBlock(text),)
    return AssistantMessage(said, provider, provider, model, Usage(), "stop", at)


def is_command_answer(message: Message) -> bool:
    """Returns whether `command_answer` made it."""
    return is_note(message) == "command"


def is_note(message: Message) -> str:
    """Returns `command` for the answer to one, `notice`, `compaction` for a summary, or nothing.

    Such entries stand in the transcript, and are no words to a model.
    """
    if not isinstance(message, AssistantMessage):
        return ""
    source = message.provider, message.model
    return source[1] if source in {COMMAND, NOTICE, COMPACTION} else ""
