"""The body of an `openai-completions` request."""

import json
from typing import Any

import pytest

from skerry.features.openai_completions.request import API, ChatForm, request_body
from skerry.model.message import (
    AssistantMessage,
    Block,
    Content,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    user,
)
from skerry.model.thinking import ThinkingLevel
from skerry.model.tool import ToolSpec
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.providers.retry import efforts

MODEL = ModelInfo("p", "m-1", "M", max_tokens=99)
SEES = ModelInfo("p", "m-1", "M", input=frozenset({"text", "image"}))
IMAGE = ImageBlock("aGk=", "image/png")
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {}}})


def assistant(*content: Block, stop_reason: str = "stop") -> AssistantMessage:
    return AssistantMessage(content, API, "p", "m", Usage(), stop_reason, 1)


def encoded(message: Message) -> bytes:
    form = ChatForm(MODEL)
    form.add(message)
    return b"".join(form.since(0))


def body(request: ModelRequest, output_limit: str | None = None) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(request_body(request, output_limit))
    return parsed


def test_a_conversation_with_a_tool_is_sent_in_the_apis_form() -> None:
    history = History(
        [
            user("look", 1),
            assistant(
                TextBlock("ok"), ToolCall("c1", "read", {"path": "a"}), stop_reason="toolUse"
            ),
            ToolResultMessage(
                "c1", "read", (TextBlock("one"), TextBlock("two")), is_error=False, timestamp=1
            ),
            assistant(TextBlock("done")),
        ]
    )
    sent = body(ModelRequest(MODEL, "be kind", history, (READ,)))
    assert sent == {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": "ok",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path":"a"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "one\ntwo"},
            {"role": "assistant", "content": "done"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Read a file.",
                    "parameters": {"type": "object", "properties": {"path": {}}},
                },
            }
        ],
    }


def test_tools_are_not_offered_to_a_model_that_cannot_use_them() -> None:
    model = ModelInfo("p", "m", "M", supports_tools=False)
    assert "tools" not in body(ModelRequest(model, "s", History([user("x", 1)]), (READ,)))


def test_no_tools_and_no_system_prompt_leave_no_trace() -> None:
    sent = body(ModelRequest(MODEL, "", History([user("x", 1)])))
    assert sent["messages"] == [{"role": "user", "content": "x"}]
    assert "tools" not in sent


def test_the_length_is_limited_in_the_field_that_the_provider_wants() -> None:
    request = ModelRequest(MODEL, "", History([user("x", 1)]))
    assert body(request, "max_completion_tokens")["max_completion_tokens"] == 99
    assert body(request).keys() == {"model", "messages", "stream", "stream_options"}


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_a_response_that_failed_keeps_its_text_and_is_left_out_without(stop_reason: str) -> None:
    some = encoded(assistant(TextBlock("half"), stop_reason=stop_reason))
    assert json.loads(some) == {"role": "assistant", "content": "half"}
    assert encoded(assistant(stop_reason=stop_reason)) == b""


def test_what_is_left_out_leaves_no_hole() -> None:
    history = History([user("a", 1), assistant(stop_reason="aborted"), user("b", 1)])
    sent = body(ModelRequest(MODEL, "", history))
    assert [message["content"] for message in sent["messages"]] == ["a", "b"]


def test_messages_before_the_first_to_send_stay_away() -> None:
    history = History([user("old", 1), user("new", 1)])
    sent = body(ModelRequest(MODEL, "s", history, first=1))
    assert [message["content"] for message in sent["messages"]] == ["s", "new"]


def test_a_tool_call_without_text_has_no_content() -> None:
    message = json.loads(encoded(assistant(ToolCall("1", "t", {}), stop_reason="toolUse")))
    assert message["content"] is None


def test_text_keeps_every_character() -> None:
    text = 'quote " backslash \\ newline \n null \0 emoji \N{SNOWMAN}'
    assert json.loads(encoded(UserMessage((TextBlock(text),), 1)))["content"] == text


def result(number: int, *content: Content) -> ToolResultMessage:
    return ToolResultMessage(f"c{number}", "read", content, is_error=False, timestamp=1)


def test_an_image_is_sent_as_a_data_url() -> None:
    history = History([UserMessage((TextBlock("what?"), IMAGE), 1)])
    sent = body(ModelRequest(SEES, "", history))["messages"]
    assert sent == [{"role": "user", "content": [{"type": "text", "text": "what?"}, SHOWN]}]


def test_a_model_that_reads_only_text_is_told_of_an_image() -> None:
    history = History([UserMessage((TextBlock("what?"), IMAGE), 1), result(1, IMAGE)])
    sent = body(ModelRequest(MODEL, "", history))["messages"]
    assert sent[0]["content"] == "what?\n(An image, which this model cannot read.)"
    assert sent[1]["content"] == "(An image, which this model cannot read.)"


def test_images_of_tool_results_follow_all_results_of_the_response() -> None:
    calls = assistant(ToolCall("c1", "read", {}), ToolCall("c2", "read", {}))
    history = History([user("a", 1), calls, result(1, TextBlock("x"), IMAGE), result(2, IMAGE)])
    request = ModelRequest(SEES, "", history)
    sent = body(request)["messages"]
    assert [row["role"] for row in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [row["type"] for row in sent[4]["content"]] == ["text", "image_url", "image_url"]
    history.append(assistant(TextBlock("seen")))
    assert body(request)["messages"][:5] == sent
    history.append(user("b", 1))
    rest = body(ModelRequest(SEES, "", history, first=5))["messages"]
    assert [row["content"] for row in rest] == ["b"]


@pytest.mark.parametrize(
    ("signature", "sent"),
    [
        ("reasoning_content", {"reasoning_content": "Hm."}),
        ("reasoning", {"reasoning": "Hm."}),
        ('[{"type":"x"}]', {"reasoning_details": [{"type": "x"}]}),
        ("of another kind", {}),
        (None, {}),
    ],
)
def test_thinking_goes_back_in_the_field_that_it_came_in(
    signature: str | None, sent: dict[str, Any]
) -> None:
    own = ModelInfo("p", "m", "M")
    message = assistant(ThinkingBlock("Hm.", signature), TextBlock("42"))
    history = History([user("a", 1), message])
    expected = {"role": "assistant", "content": "42"}
    assert body(ModelRequest(own, "", history))["messages"][1] == expected | sent
    assert body(ModelRequest(MODEL, "", history))["messages"][1] == expected


def test_a_model_that_thinks_is_told_how_much() -> None:
    thinks = ModelInfo("p", "m", "M", reasoning=True)
    request = ModelRequest(thinks, "", History([user("a", 1)]), thinking=ThinkingLevel.XHIGH)
    assert efforts(request) == ("xhigh", "high", "")
    assert json.loads(request_body(request, None, "high"))["reasoning_effort"] == "high"
    assert "reasoning_effort" not in json.loads(request_body(request, None))
    other = ModelRequest(MODEL, "", request.history, thinking=ThinkingLevel.HIGH)
    assert efforts(other) == ("",)
    assert efforts(ModelRequest(thinks, "", request.history)) == ("",)


def test_a_conversation_whose_end_was_forgotten_is_as_if_it_never_was() -> None:
    calls = assistant(ToolCall("c1", "read", {}), ToolCall("c2", "read", {}))
    messages: list[Message] = [user("a", 1), calls, result(1, IMAGE), result(2, IMAGE)]
    messages += [assistant(TextBlock("seen")), user("b", 1)]
    for count in range(len(messages) + 1):
        form, fresh = ChatForm(SEES), ChatForm(SEES)
        for message in messages:
            form.add(message)
        form.keep(count)
        for message in messages[count:]:
            form.add(message)
        for message in messages:
            fresh.add(message)
        assert form.since(0) == fresh.since(0)
