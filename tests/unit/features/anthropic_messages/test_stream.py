"""The events of an `anthropic-messages` stream become one reply."""

import json
from typing import Any

import pytest

from skerry.features.anthropic_messages.provider import AnthropicBuilder
from skerry.model.errors import (
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import TextBlock, ThinkingBlock, ToolCall, Usage
from skerry.ports.model import ModelReply
from skerry.providers.wire_format import EventText

STOP = {"type": "message_stop"}


def start(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    block = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    added = {"type": kind, **fields}
    return {"type": "content_block_delta", "index": index, "delta": added}


def end(stop_reason: str, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage}


def build(*events: dict[str, Any]) -> ModelReply:
    builder = AnthropicBuilder("P")
    for event in events:
        builder.take(json.dumps(event).encode())
    return builder.reply()


def test_blocks_come_back_in_their_order_and_are_told_as_they_come() -> None:
    builder = AnthropicBuilder("P")
    events = [
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm."),
        delta(0, "signature_delta", signature="si"),
        delta(0, "signature_delta", signature="g"),
        {"type": "content_block_stop", "index": 0},
        start(1, "redacted_thinking", data="hidden"),
        {"type": "ping"},
        start(2, "text", text="Let "),
        delta(2, "text_delta", text="me see."),
        start(3, "tool_use", id="t1", name="read", input={}),
        delta(3, "input_json_delta", partial_json=""),
        delta(3, "input_json_delta", partial_json='{"pa'),
        delta(3, "input_json_delta", partial_json='th":"a"}'),
        start(4, "tool_use", id="t2", name="list", input={}),
        start(5, "of the future", data="x"),
        {"type": "of the future"},
        end("tool_use", output_tokens=9),
        STOP,
    ]
    heard = [builder.take(json.dumps(event).encode()) for event in events]
    assert [event_text for event_text in heard if event_text] == [
        EventText(thinking="Hm."),
        EventText("Let "),
        EventText("me see."),
    ]
    assert builder.done
    assert builder.reply().content == (
        ThinkingBlock("Hm.", "sig"),
        ThinkingBlock("", "hidden", redacted=True),
        TextBlock("Let me see."),
        ToolCall("t1", "read", {"path": "a"}),
        ToolCall("t2", "list", {}),
    )
    assert builder.reply().stop_reason == "toolUse"


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "length"),
        ("of_the_future", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
    ],
)
def test_stop_reasons_become_ours(text: str, ours: str) -> None:
    reply = build(start(0, "text", text="a"), end(text), STOP)
    assert (reply.text, reply.stop_reason) == ("a", ours)


def test_a_call_that_comes_in_its_start_is_taken() -> None:
    reply = build(start(0, "tool_use", id="t", name="read", input={"path": "a"}), end("x"), STOP)
    assert reply.tool_calls == (ToolCall("t", "read", {"path": "a"}),)


def test_a_refusal_is_an_error_that_says_why() -> None:
    refused = end("refusal")
    refused["delta"]["stop_details"] = {"type": "refusal", "explanation": "Not this."}
    with pytest.raises(ModelRequestError, match="refused to answer: Not this"):
        build(start(0, "text", text="half"), refused, STOP)


def test_a_window_that_is_full_at_once_is_an_overflow() -> None:
    with pytest.raises(ModelOverflowError):
        build(end("model_context_window_exceeded"), STOP)


def test_later_usage_replaces_earlier() -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 1,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
    }
    begun = {"type": "message_start", "message": {"usage": usage}}
    reply = build(begun, end("end_turn", output_tokens=30, input_tokens=None), STOP)
    assert reply.usage == Usage(7, 30, 100, 20, 157)


def test_an_answer_without_its_stop_is_cut() -> None:
    with pytest.raises(ModelStreamCutError, match="without a finish marker"):
        build(start(0, "text", text="a"), end("end_turn"))


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"type":"content_block_delta","index":"x"}',
        b'{"type":"content_block_delta","index":3,"delta":{"text":"a"}}',
        b'{"content_block":' + b'{"input":' * 100_000,
    ],
)
def test_a_piece_that_is_not_readable_is_a_cut_stream(data: bytes) -> None:
    with pytest.raises(ModelStreamCutError):
        AnthropicBuilder("P").take(data)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", ModelOverloadedError),
        ("api_error", ModelOverloadedError),
        ("rate_limit_error", ModelRateLimitError),
        ("authentication_error", ModelAuthError),
        ("invalid_request_error", ModelRequestError),
    ],
)
def test_an_error_event_is_raised(kind: str, error: type[ModelError]) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "so it is"}}
    with pytest.raises(error, match="so it is"):
        build(event)


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skerry.providers.wire_format.TEXT_LIMIT", 10)
    with pytest.raises(ModelRequestError, match="more than 10 characters"):
        build(start(0, "text", text="12345"), delta(0, "text_delta", text="123456"))


def test_blocks_that_share_a_number_are_all_kept() -> None:
    reply = build(
        start(0, "text"),
        delta(0, "text_delta", text="said"),
        start(0, "tool_use", id="c", name="read"),
        delta(0, "input_json_delta", partial_json='{"n":1}'),
        end("tool_use"),
        STOP,
    )
    assert reply.content == (TextBlock("said"), ToolCall("c", "read", {"n": 1}))
