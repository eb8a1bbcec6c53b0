"""What `google-generative-ai` streams mean beyond the recorded ones."""

import json
from typing import Any

import pytest

from skerry.features.google_generative_ai.provider import GoogleBuilder
from skerry.model.errors import (
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import TextBlock, ThinkingBlock, Usage
from skerry.ports.model import ModelReply
from skerry.providers.wire_format import TEXT_LIMIT


def reply(*events: Any) -> ModelReply:
    builder = GoogleBuilder("P")
    for event in events:
        builder.take(event if isinstance(event, bytes) else json.dumps(event).encode())
    return builder.reply()


def piece(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **more}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def test_usage_behind_the_finish_marker_counts() -> None:
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    ended = reply(piece({"text": "x"}, finish="STOP"), {"usageMetadata": usage})
    assert ended.usage == Usage(5, 2, total_tokens=7)


def test_a_server_that_finishes_every_piece_is_read_to_its_end() -> None:
    assert reply(piece({"text": "a"}, finish="STOP"), piece({"text": "b"}, finish="STOP")).text == (
        "ab"
    )


def test_text_and_thinking_take_turns_as_blocks() -> None:
    said = reply(
        piece({"text": "t", "thought": True}, {"text": "a"}, {"text": "b"}),
        piece({"text": "u", "thought": True, "thoughtSignature": "s"}, finish="STOP"),
    )
    assert said.content == (ThinkingBlock("t"), TextBlock("ab"), ThinkingBlock("u", "s"))


def test_a_call_makes_it_a_tool_use_whatever_the_finish_reason() -> None:
    for reason in ("STOP", "FUNCTION_CALL"):
        done = reply(piece(call("a"), finish=reason))
        assert (done.stop_reason, len(done.tool_calls)) == ("toolUse", 1)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (piece(finish="SAFETY"), ModelRequestError),
        (piece(finish="RECITATION"), ModelRequestError),
        (piece(finish="PROHIBITED_CONTENT"), ModelRequestError),
        (piece(finish="SOMETHING_NEW"), ModelRequestError),
        (piece(finish="MALFORMED_FUNCTION_CALL"), ModelStreamCutError),
        (piece(finish="UNEXPECTED_TOOL_CALL"), ModelStreamCutError),
        (piece(finish="OTHER"), ModelOverloadedError),
        (piece(finish="FINISH_REASON_UNSPECIFIED"), ModelStreamCutError),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, ModelRequestError),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, ModelRateLimitError),
        ({"error": {"code": 503, "status": "UNAVAILABLE"}}, ModelOverloadedError),
        ({}, ModelStreamCutError),
        (b"{", ModelStreamCutError),
        (piece({"text": "x" * (TEXT_LIMIT + 1)}), ModelRequestError),
    ],
    ids=lambda value: str(value)[:60],
)
def test_failures_are_told_apart(event: Any, kind: type[ModelError]) -> None:
    with pytest.raises(ModelError) as caught:
        reply(piece({"text": "so far"}), event)
    assert type(caught.value) is kind


def test_a_stop_says_its_reason() -> None:
    with pytest.raises(ModelRequestError, match="SAFETY"):
        reply(piece(finish="SAFETY"))
