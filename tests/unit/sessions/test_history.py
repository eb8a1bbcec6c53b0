"""Open tool calls, and the results that close them."""

from skerry.model.message import (
    ABORTED_RESULT,
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    aborted_result,
    open_calls,
    user,
)


def call_message(*ids: str) -> AssistantMessage:
    calls = tuple(ToolCall(call_id, "read", {}) for call_id in ids)
    return AssistantMessage(calls, "", "", "", Usage(), "toolUse", 0)


def answered(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(call_id, "read", (TextBlock("x"),), is_error=False, timestamp=0)


def test_calls_without_a_result_are_open_in_their_order() -> None:
    messages: list[Message] = [user("hi", 0), call_message("a", "b", "c"), answered("b")]
    assert [call.id for call in open_calls(messages)] == ["a", "c"]


def test_nothing_is_open_when_all_are_answered() -> None:
    assert open_calls([call_message("a"), answered("a")]) == []
    assert open_calls([]) == []


def test_an_id_that_is_used_again_is_open_again() -> None:
    assert [
        call.id for call in open_calls([call_message("a"), answered("a"), call_message("a")])
    ] == ["a"]


def test_the_closing_result_is_an_error_that_says_what_is_not_known() -> None:
    call = ToolCall("a", "read", {})
    result = aborted_result(call, 7)
    assert open_calls([call_message("a"), result]) == []
    assert (result.tool_name, result.is_error, result.timestamp) == ("read", True, 7)
    assert result.text == ABORTED_RESULT
