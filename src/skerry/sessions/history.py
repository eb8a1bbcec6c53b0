"""What the model sees of a transcript (pure)."""

from collections.abc import Iterable

from skerry.model.message import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
)

ABORTED_RESULT = "This call was interrupted; whether it had an effect is not known."


def open_calls(messages: Iterable[Message]) -> list[ToolCall]:
    """Return the tool calls that have no result, in order."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage):
            calls.pop(message.tool_call_id, None)
    return list(calls.values())


def aborted_result(call: ToolCall, at: int) -> ToolResultMessage:
    """Return the result that closes a call whose run was interrupted or aborted."""
    return ToolResultMessage(
        call.id, call.name, (TextBlock(ABORTED_RESULT),), is_error=True, timestamp=at
    )
