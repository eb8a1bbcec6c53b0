"""The body of an `anthropic-messages` request."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from skerry.features.anthropic_messages.request import API, request_body, thinking_options
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

MODEL = ModelInfo("p", "claude-sonnet-4-5", "M", max_tokens=40_000, reasoning=True)
NEWER = replace(MODEL, id="claude-opus-5")
OTHER = replace(MODEL, id="minimax")
READ = ToolSpec("read", "Read a file.", {"properties": {"path": {}}})
LIST = ToolSpec("list", "List files.", {})
MARK = {"type": "ephemeral"}
IMAGE = ImageBlock("aGk=", "image/png")
SHOWN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def assistant(*content: Block, model: str = MODEL.id, stop_reason: str = "stop") -> Message:
    return AssistantMessage(content, API, "p", model, Usage(), stop_reason, 1)


def result(call_id: str, *content: Content, is_error: bool = False) -> Message:
    return ToolResultMessage(call_id, "read", content, is_error, 1)


def body(*messages: Message, model: ModelInfo = MODEL, **more: Any) -> dict[str, Any]:
    request = ModelRequest(model, more.pop("system", ""), History(messages), **more)
    parsed: dict[str, Any] = json.loads(request_body(request, {}))
    return parsed


def sent(*messages: Message, model: ModelInfo = MODEL, first: int = 0) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = body(*messages, model=model, first=first)["messages"]
    for block in turns[-1]["content"] if turns else ():
        block.pop("cache_control", None)
    return turns


def test_what_stays_the_same_is_marked_for_the_cache() -> None:
    made = body(
        user("a", 1), assistant(TextBlock("b")), user("c", 1), system="be", tools=(READ, LIST)
    )
    assert made["system"] == [{"type": "text", "text": "be", "cache_control": MARK}]
    assert [tool.get("cache_control") for tool in made["tools"]] == [None, MARK]
    assert [turn["content"][-1].get("cache_control") for turn in made["messages"]] == [
        None, None, MARK,
    ]  # fmt: skip
    assert json.dumps(made).count("cache_control") <= 4
    assert made["tools"][0]["input_schema"] == {"type": "object", "properties": {"path": {}}}
    assert (made["model"], made["max_tokens"], made["stream"]) == (MODEL.id, 40_000, True)


def test_the_beginning_of_a_request_is_the_same_in_the_next_turn() -> None:
    history = History([user("a", 1)])
    request = ModelRequest(MODEL, "be", history, (READ,))
    first = json.loads(request_body(request, {}))["messages"]
    history.append(assistant(TextBlock("b")))
    history.append(user("c", 1))
    second = json.loads(request_body(request, {}))["messages"]
    del first[0]["content"][-1]["cache_control"]
    assert second[:1] == first


def test_all_results_of_a_response_are_one_message_and_what_the_person_says_follows() -> None:
    calls = ToolCall("c1", "read", {"path": "a"}), ToolCall("c2", "read", {})
    turns = sent(
        user("look", 1),
        assistant(TextBlock("ok"), *calls, stop_reason="toolUse"),
        result("c1", TextBlock("one")),
        result("c2", TextBlock("no"), IMAGE, is_error=True),
        user("and?", 1),
        model=replace(MODEL, input=frozenset({"text", "image"})),
    )
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"] == [
        {"type": "text", "text": "ok"},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
    ]
    no = [{"type": "text", "text": "no"}, SHOWN]
    one = [{"type": "text", "text": "one"}]
    assert turns[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": one, "is_error": False},
        {"type": "tool_result", "tool_use_id": "c2", "content": no, "is_error": True},
        {"type": "text", "text": "and?"},
    ]


def test_thinking_goes_back_unchanged_to_the_model_that_thought_it() -> None:
    thoughts = (
        ThinkingBlock("Hm.", "sig"),
        ThinkingBlock("", "hidden", redacted=True),
        ThinkingBlock("", "only a signature"),
        ThinkingBlock("unsigned"),
    )
    call = ToolCall("c", "read", {})
    messages = user("a", 1), assistant(*thoughts, call), result("c", TextBlock("x"))
    assert sent(*messages)[1]["content"][:-1] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "hidden"},
        {"type": "thinking", "thinking": "", "signature": "only a signature"},
    ]
    assert [row["type"] for row in sent(*messages, model=NEWER)[1]["content"]] == ["tool_use"]


def test_what_says_nothing_is_left_out() -> None:
    turns = sent(user("a", 1), assistant(stop_reason="aborted"), user(" \n", 1), user("b", 1))
    assert turns == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_messages_before_the_first_to_send_stay_away() -> None:
    turns = sent(user("old", 1), assistant(TextBlock("x")), user("new", 1), first=2)
    assert turns == [{"role": "user", "content": [{"type": "text", "text": "new"}]}]


def test_a_model_that_reads_only_text_is_told_of_an_image() -> None:
    content = sent(UserMessage((TextBlock("what?"), IMAGE), 1))[0]["content"]
    assert content[1] == {"type": "text", "text": "(An image, which this model cannot read.)"}


def test_ids_of_other_providers_are_written_as_the_api_takes_them() -> None:
    turns = sent(assistant(ToolCall("call|a.b", "read", {})), result("call|a.b"))
    assert turns[0]["content"][0]["id"] == turns[1]["content"][0]["tool_use_id"] == "call_a_b"


def options(model: ModelInfo, level: ThinkingLevel, *messages: Message) -> list[dict[str, Any]]:
    history = History(messages or [user("a", 1)])
    return list(thinking_options(ModelRequest(model, "", history, thinking=level)))


def adaptive(effort: str) -> dict[str, Any]:
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": effort}}


def budget(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("model", "level", "ways"),
    [
        (MODEL, ThinkingLevel.LOW, [budget(2048), adaptive("low"), {}]),
        (MODEL, ThinkingLevel.OFF, [{}]),
        (OTHER, ThinkingLevel.HIGH, [budget(16_384), adaptive("high"), {}]),
        (NEWER, ThinkingLevel.MEDIUM, [adaptive("medium"), budget(8192), {}]),
        (NEWER, ThinkingLevel.OFF, [{"thinking": {"type": "disabled"}}, {}]),
        (
            NEWER,
            ThinkingLevel.XHIGH,
            [adaptive("xhigh"), adaptive("high"), budget(32_768), {}],
        ),
        (replace(MODEL, max_tokens=4096), ThinkingLevel.HIGH, [budget(3072), adaptive("high"), {}]),
        (replace(MODEL, max_tokens=1500), ThinkingLevel.HIGH, [adaptive("high"), {}]),
        (replace(NEWER, reasoning=False), ThinkingLevel.HIGH, [{}]),
    ],
)
def test_thinking_is_asked_for_as_the_model_knows_it(
    model: ModelInfo, level: ThinkingLevel, ways: list[dict[str, Any]]
) -> None:
    assert options(model, level) == ways


def test_a_tool_loop_that_began_without_thinking_gets_no_budget() -> None:
    call = ToolCall("c", "read", {})
    plain = user("a", 1), assistant(call), result("c")
    thought = user("a", 1), assistant(ThinkingBlock("Hm.", "sig"), call), result("c")
    assert options(MODEL, ThinkingLevel.LOW, *plain) == [adaptive("low"), {}]
    assert options(MODEL, ThinkingLevel.LOW, *thought)[0] == budget(2048)
