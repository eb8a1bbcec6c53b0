"""What `openai-responses` streams mean beyond the recorded ones."""

import json
from typing import Any

import pytest

from skerry.features.openai_responses.provider import ResponsesBuilder
from skerry.model.errors import (
    ModelError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import TextBlock, ThinkingBlock, ToolCall
from skerry.ports.model import ModelReply
from skerry.providers.wire_format import RAW_ARGUMENTS, TEXT_LIMIT, EventText


def reply(*events: Any) -> ModelReply:
    builder = ResponsesBuilder("P")
    for event in events:
        builder.take(event if isinstance(event, bytes) else json.dumps(event).encode())
    return builder.reply()


def item_done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def ended(kind: str = "completed", **response: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": response}


def text(words: str, index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "delta": words}


def test_items_without_pieces_before_them_count_all_the_same() -> None:
    builder = ResponsesBuilder("P")
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    item = item_done(0, type="reasoning", id="r", summary=summary)
    payload = item_done(1, type="message", content=[{"type": "output_text", "text": "Yes."}])
    assert builder.take(json.dumps(item).encode()) == EventText(thinking="a\n\nb")
    assert builder.take(json.dumps(payload).encode()) == EventText("Yes.")
    builder.take(json.dumps(ended()).encode())
    assert builder.reply().content == (ThinkingBlock("a\n\nb"), TextBlock("Yes."))


def test_reasoning_that_cannot_be_read_again_is_not_kept_for_the_provider() -> None:
    empty = item_done(0, type="reasoning", id="r", summary=[])
    assert reply(empty, text("x", 1), ended()).content == (TextBlock("x"),)


def test_open_reasoning_is_kept_as_it_came() -> None:
    item = {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "t"}]}
    (block,) = reply(item_done(0, **item), ended()).content
    assert isinstance(block, ThinkingBlock)
    assert (block.thinking, json.loads(block.thinking_signature or "")) == ("t", item)


def test_the_whole_item_wins_over_its_pieces() -> None:
    piece = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a":'}
    call = item_done(0, type="function_call", call_id="c", name="n", arguments='{"a":1}')
    assert reply(piece, call, ended()).tool_calls == (ToolCall("c", "n", {"a": 1}),)


def test_arguments_that_are_not_json_reach_the_tool_layer() -> None:
    call = item_done(0, type="function_call", call_id="c", name="n", arguments="{a")
    assert reply(call, ended()).tool_calls[0].arguments == {RAW_ARGUMENTS: "{a"}


def test_what_later_versions_add_is_skipped() -> None:
    new = {"type": "response.new_thing.delta", "delta": "?"}
    assert reply(new, text("x"), b"[DONE]", ended()).text == "x"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, ModelRateLimitError),
        ({"type": "error", "error": {"type": "server_error"}}, ModelOverloadedError),
        (
            ended("failed", error={"code": "context_length_exceeded", "message": "big"}),
            ModelOverflowError,
        ),
        (ended("failed", error={"code": "server_error", "message": "x"}), ModelOverloadedError),
        (ended("failed", error={"code": "invalid_prompt", "message": "x"}), ModelRequestError),
        (ended("failed"), ModelOverloadedError),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), ModelRequestError),
        (b"{", ModelStreamCutError),
        (b'{"type":"response.completed","response":[]}', ModelStreamCutError),
        (text("x" * (TEXT_LIMIT + 1)), ModelRequestError),
        ({"type": "response.created"}, ModelStreamCutError),
    ],
    ids=lambda value: str(value)[:60],
)
def test_failures_are_told_apart(event: Any, kind: type[ModelError]) -> None:
    with pytest.raises(ModelError) as caught:
        reply(text("so far"), event)
    assert type(caught.value) is kind


def test_an_answer_that_ends_early_without_a_reason_is_cut_by_its_length() -> None:
    assert reply(text("x"), ended("incomplete")).stop_reason == "length"


def test_an_item_that_begins_late_or_twice_keeps_its_text() -> None:
    begun = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}}
    assert reply(text("a"), begun, text("b"), begun, ended()).text == "ab"
