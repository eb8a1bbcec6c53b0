"""Messages in the shape of a transcript's lines."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from skerry.model import message
from skerry.model.message import (
    AssistantMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
)


@pytest.mark.requirement("transcript-message-line")
def test_a_message_of_the_person_has_role_and_content() -> None:
    assert json.loads(message.encode(message.user("hi", 7))) == {
        "role": "user",
        "content": [{"type": "text", "text": "hi"}],
        "timestamp": 7,
    }


def test_a_message_of_the_assistant_has_the_fields_of_pi_sessions() -> None:
    call = ToolCall("c1", "read", {"path": "a"})
    said = AssistantMessage(
        (TextBlock("so"), call), "openai-completions", "p", "m", Usage(3, 2, 1, 0, 5), "toolUse", 7
    )
    assert json.loads(message.encode(said)) == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "so"},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
        ],
        "api": "openai-completions",
        "provider": "p",
        "model": "m",
        "usage": {
            "input": 3,
            "output": 2,
            "cacheRead": 1,
            "cacheWrite": 0,
            "totalTokens": 5,
            "cost": {
                "input": 0.0,
                "output": 0.0,
                "cacheRead": 0.0,
                "cacheWrite": 0.0,
                "total": 0.0,
            },
        },
        "stopReason": "toolUse",
        "timestamp": 7,
    }
    assert said.text == "so"
    assert said.tool_calls == (call,)


def test_only_a_failed_message_has_an_error() -> None:
    said = AssistantMessage((), "", "", "", Usage(), "error", 7, "no")
    assert json.loads(message.encode(said))["errorMessage"] == "no"


def test_a_tool_result_is_paired_with_its_call() -> None:
    result = ToolResultMessage("c1", "read", (TextBlock("x"),), is_error=True, timestamp=7)
    assert json.loads(message.encode(result)) == {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "read",
        "content": [{"type": "text", "text": "x"}],
        "isError": True,
        "timestamp": 7,
    }


def test_details_of_a_result_are_stored_and_older_entries_have_none() -> None:
    result = ToolResultMessage("c1", "exec", (), False, 7, details={"exitCode": 0})  # noqa: FBT003 - is_error
    stored = message.encode(result)
    assert json.loads(stored)["details"] == {"exitCode": 0}
    assert message.decode(stored) == result
    older = json.loads(stored)
    del older["details"]
    assert message.decode(json.dumps(older)) == replace(result, details=None)


@pytest.mark.parametrize("data", ['{"role":"system"}', '{"role":"user"}', "[]", "x"])
def test_anything_else_is_refused(data: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        message.decode(data)


def test_usage_adds_up_but_the_context_is_that_of_the_last_call() -> None:
    total = Usage(1, 2, 3, 4, 10) + Usage(10, 20, 30, 40, 50)
    assert total == Usage(11, 22, 33, 44, 50)
    assert (total + Usage()).total_tokens == 50


def test_the_size_counts_text_names_and_arguments() -> None:
    assert message.size(message.user("abcd", 0)) == 20
    said = AssistantMessage(
        (TextBlock("ab"), ToolCall("c", "read", {"p": 1})), "", "", "", Usage(), "toolUse", 0
    )
    assert message.size(said) == 16 + 2 + 4 + len('{"p":1}')
