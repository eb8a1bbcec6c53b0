"""A model call in the form of `openai-responses`."""

import json
from typing import Any

from msgspec.structs import replace

from skerry.features.openai_responses.request import API, request_body
from skerry.model.message import (
    AssistantMessage,
    Content,
    ImageBlock,
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

MODEL = ModelInfo(
    "openai", "gpt", "GPT", reasoning=True, input=frozenset({"text", "image"}), max_tokens=77
)
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {}}})
ITEM = '{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"}'
PICTURE = ImageBlock("aGk=", "image/png")


def assistant_message(*content: Any, model: str = "gpt", stop: str = "toolUse") -> AssistantMessage:
    return AssistantMessage(content, API, "openai", model, Usage(), stop, 1)


def result(*content: Content) -> ToolResultMessage:
    return ToolResultMessage("c1", "read", content, is_error=False, timestamp=1)


def sent(*messages: Any, model: ModelInfo = MODEL, **more: Any) -> dict[str, Any]:
    request = ModelRequest(model, "Be brief.", History(messages), **more)
    body: dict[str, Any] = json.loads(request_body(request))
    return body


def test_a_request_names_everything_and_stores_nothing() -> None:
    body = sent(user("hi", 1), tools=(READ,), session_id="s" * 100)
    assert body == {
        "model": "gpt",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "s" * 64,
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Read a file.",
                "parameters": READ.parameters,
                "strict": False,
            }
        ],
    }


def test_a_model_that_cannot_think_is_not_asked_for_reasoning() -> None:
    model = replace(MODEL, reasoning=False)
    request = ModelRequest(model, "", History([user("hi", 1)]), thinking=ThinkingLevel.HIGH)
    assert efforts(request) == ("",)
    assert not {"include", "reasoning"} & json.loads(request_body(request)).keys()


def test_an_effort_is_asked_for_and_a_weaker_one_is_ready() -> None:
    request = ModelRequest(MODEL, "", History(), thinking=ThinkingLevel.XHIGH)
    assert efforts(request) == ("xhigh", "high", "")
    body = json.loads(request_body(request, "xhigh", limits=True))
    assert body["reasoning"] == {"effort": "xhigh", "summary": "auto"}
    assert body["max_output_tokens"] == 77


def test_reasoning_goes_back_unchanged_before_what_followed_it() -> None:
    words = TextBlock("I look.", "commentary")
    call = ToolCall("c1", "read", {"path": "a"})
    items = sent(
        assistant_message(ThinkingBlock("so", ITEM), words, call), result(TextBlock("42"))
    )["input"]
    assert items == [
        json.loads(ITEM),
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
    ]


def test_reasoning_of_another_model_or_of_a_broken_answer_stays_here() -> None:
    thought = ThinkingBlock("so", ITEM)
    for message in (
        assistant_message(thought, TextBlock("x", "commentary"), model="other"),
        assistant_message(thought, TextBlock("x"), stop="aborted"),
    ):
        assert sent(message)["input"] == [{"role": "assistant", "content": "x"}]


def test_reasoning_that_nothing_followed_stays_here() -> None:
    assert sent(assistant_message(ThinkingBlock("so", ITEM)), user("on", 1))["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "on"}]}
    ]


def test_images_go_to_a_model_that_reads_them() -> None:
    picture = {
        "type": "input_image",
        "detail": "auto",
        "image_url": "data:image/png;base64,aGk=",
    }
    items = sent(UserMessage((TextBlock("see"), PICTURE), 1), result(PICTURE))["input"]
    assert items[0]["content"][1] == picture
    assert items[1]["output"] == [picture]
    blind = sent(result(PICTURE), model=replace(MODEL, input=frozenset({"text"})))
    assert blind["input"][0]["output"][0]["type"] == "input_text"


def test_only_what_fits_is_sent() -> None:
    assert len(sent(user("a", 1), user("b", 1), first=1)["input"]) == 1
