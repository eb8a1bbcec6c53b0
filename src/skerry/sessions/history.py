"""What the model sees of a transcript (pure)."""

from collections.abc import Iterable

from skerry.model.message import (
    COMMAND,
    NOTICE,
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
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


def command_answer(text: str, at: int) -> AssistantMessage:
    """Return what the transcript has of a command's answer: no model said it."""
    said = (TextBlock(text),)
    provider, model = COMMAND
    return AssistantMessage(said, provider, provider, model, Usage(), "stop", at)


def notice(text: str, at: int) -> AssistantMessage:
    """Return what the transcript has of something that the gateway tells the person."""
    provider, model = NOTICE
    said = (TextBlock(text),)
    return AssistantMessage(said, provider, provider, model, Usage(), "stop", at)


def without_commands(messages: Iterable[Message]) -> list[Message]:
    """Return the conversation without notices, commands and their answers: none is the model's."""
    kept: list[Message] = []
    for message in messages:
        if _is(message, NOTICE):
            continue
        if not is_command_answer(message):
            kept.append(message)
        elif kept and isinstance(kept[-1], UserMessage):
            kept.pop()
    return kept


def is_command_answer(message: Message) -> bool:
    """Return whether `command_answer` made it."""
    return _is(message, COMMAND)


def _is(message: Message, what: tuple[str, str]) -> bool:
    return isinstance(message, AssistantMessage) and (message.provider, message.model) == what
