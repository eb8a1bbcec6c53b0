"""A model call in the form of `google-generative-ai`."""

import json
from typing import Any

from msgspec.structs import replace

from skerry.features.google_generative_ai.request import API, request_body, thinking_forms
from skerry.model.message import (
    AssistantMessage,
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
from skerry.providers.wire_format import OWN_ID

MODEL = ModelInfo(
    "google",
    "gemini-3.8-flash",
    "Gemini",
    reasoning=True,
    input=frozenset({"text", "image"}),
    max_tokens=77,
)
READ = ToolSpec(
    "read", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}, "$schema": "x"}
)
PICTURE = ImageBlock("aGk=", "image/png")


def assistant_message(*content: Any, model: str = MODEL.id, api: str = API) -> AssistantMessage:
    return AssistantMessage(content, api, "google", model, Usage(), "toolUse", 1)


def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(call_id, "read", content, is_error=is_error, timestamp=1)


def sent(*messages: Any, model: ModelInfo = MODEL, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(
        request_body(ModelRequest(model, "", History(messages), **more))
    )
    return body


def test_a_request_has_contents_instruction_and_tools() -> None:
    request = ModelRequest(MODEL, "Be brief.", History([user("hi", 1)]), (READ,))
    assert json.loads(request_body(request, {"thinkingLevel": "LOW"}, limits=True)) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read",
                        "description": "Read.",
                        "parameters": {
                            "type": "object",
                            "properties": {"path": {"type": "string"}},
                        },
                    }
                ]
            }
        ],
        "generationConfig": {"maxOutputTokens": 77, "thinkingConfig": {"thinkingLevel": "LOW"}},
    }


def test_nothing_is_said_that_nobody_asked_for() -> None:
    assert sent(user("hi", 1)).keys() == {"contents"}


def test_a_tool_without_parameters_declares_none() -> None:
    bare = ToolSpec("now", "The time.", {"type": "object", "properties": {}})
    (tools,) = sent(user("hi", 1), tools=(bare,))["tools"]
    assert tools["functionDeclarations"] == [{"name": "now", "description": "The time."}]


def test_thoughts_and_signatures_go_back_as_they_came() -> None:
    own = f"{OWN_ID}1_0"
    contents = sent(
        assistant_message(
            ThinkingBlock("so", "t"),
            TextBlock("I look.", "x"),
            ToolCall(own, "read", {"path": "a"}, "sig"),
            ToolCall("theirs", "read", {}),
        ),
        result(own, TextBlock("42")),
        result("theirs", TextBlock("no"), is_error=True),
    )["contents"]
    assert contents == [
        {
            "role": "model",
            "parts": [
                {"text": "so", "thought": True, "thoughtSignature": "t"},
                {"text": "I look.", "thoughtSignature": "x"},
                {
                    "functionCall": {"name": "read", "args": {"path": "a"}},
                    "thoughtSignature": "sig",
                },
                {"functionCall": {"id": "theirs", "name": "read", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read", "response": {"output": "42"}}},
                {
                    "functionResponse": {
                        "id": "theirs",
                        "name": "read",
                        "response": {"error": "no"},
                    }
                },
            ],
        },
    ]


def test_what_another_model_said_goes_without_thoughts_and_its_first_call_is_signed() -> None:
    call = ToolCall("c1", "read", {}, "foreign")
    message = assistant_message(
        ThinkingBlock("so", "t"), TextBlock("x", "y"), call, call, model="gemini-3"
    )
    text, first, second = sent(message)["contents"][0]["parts"]
    assert text == {"text": "x"}
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in second
    older = sent(message, model=replace(MODEL, id="gemini-2.5-pro"))["contents"][0]["parts"]
    assert "thoughtSignature" not in older[1]


def test_images_go_to_a_model_that_reads_them() -> None:
    inline = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    message = UserMessage((TextBlock("see"), PICTURE), 1)
    assert sent(message)["contents"][0]["parts"][1] == inline
    assert sent(assistant_message(ToolCall("c", "read", {})), result("c", PICTURE))["contents"][1][
        "parts"
    ] == [
        {
            "functionResponse": {
                "id": "c",
                "name": "read",
                "response": {"output": "(no text)"},
            }
        },
        inline,
    ]
    blind = sent(message, model=replace(MODEL, input=frozenset({"text"})))
    assert "text" in blind["contents"][0]["parts"][1]


def test_thinking_is_asked_for_by_level_or_by_budget() -> None:
    request = ModelRequest(MODEL, "", History(), thinking=ThinkingLevel.MINIMAL)
    assert [form.get("thinkingLevel") for form in thinking_forms(request)] == [
        "MINIMAL",
        "LOW",
        None,
    ]
    second = replace(request, model=replace(MODEL, id="gemini-2.5-flash"))
    assert thinking_forms(second)[0] == {"includeThoughts": True, "thinkingBudget": 1024}
    assert thinking_forms(replace(request, thinking=ThinkingLevel.OFF)) == ({},)


def test_thinking_is_switched_off_by_the_budget_where_a_model_can_stop() -> None:
    def off(model: str) -> Any:
        asked = replace(MODEL, id=model)
        return thinking_forms(ModelRequest(asked, "", History(), thinking=ThinkingLevel.OFF))

    assert off("gemini-2.5-flash") == off("gemini-2.5-flash-lite") == ({"thinkingBudget": 0}, {})
    assert off("gemini-2.5-pro") == off("gemini-3.8-flash") == ({},)
