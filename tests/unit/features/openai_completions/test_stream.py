"""Pieces of an `openai-completions` stream become one reply."""

import json
from typing import Any

import pytest

from skerry.features.openai_completions.provider import CompatBuilder
from skerry.model.errors import (
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import TextBlock, ThinkingBlock, ToolCall, Usage
from skerry.ports.model import ModelReply
from skerry.providers.wire_format import RAW_ARGUMENTS, EventText, parse_arguments


def delta(finish: str | None = None, **content: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


def call(index: int | None, arguments: str, **first: str) -> dict[str, Any]:
    piece: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        piece["index"] = index
    if "name" in first:
        piece["function"]["name"] = first.pop("name")
    return delta(tool_calls=[piece | first])


def build(*pieces: dict[str, Any]) -> ModelReply:
    builder = CompatBuilder("P")
    for piece in pieces:
        builder.take(json.dumps(piece).encode())
    return builder.reply()


def test_text_comes_back_as_it_is_added() -> None:
    builder = CompatBuilder("P")
    pieces = [delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo")]
    texts = [builder.take(json.dumps(piece).encode()) for piece in (*pieces, delta("stop"))]
    assert texts == [None, EventText("Hel"), EventText("lo"), None]
    assert builder.reply() == ModelReply((TextBlock("Hello"),), "stop", Usage())


def test_tool_calls_in_pieces_are_put_together_by_index() -> None:
    reply = build(
        call(0, "", id="a", name="read"),
        call(1, "", id="b", name="list"),
        call(0, '{"pa'),
        call(1, "{}"),
        call(0, 'th":"x"}'),
        delta("tool_calls"),
    )
    assert reply.tool_calls == (ToolCall("a", "read", {"path": "x"}), ToolCall("b", "list", {}))
    assert reply.stop_reason == "toolUse"


def test_calls_that_all_have_index_0_are_told_apart_by_id() -> None:
    reply = build(
        call(0, '{"n":1}', id="a", name="t"), call(0, '{"n":2}', id="b", name="t"), delta("stop")
    )
    assert [tool_call.arguments for tool_call in reply.tool_calls] == [{"n": 1}, {"n": 2}]
    assert reply.stop_reason == "toolUse"


def test_pieces_without_an_index_belong_to_the_last_call() -> None:
    reply = build(call(None, '{"n"', id="a", name="t"), call(None, ":1}"), delta("stop"))
    assert reply.tool_calls == (ToolCall("a", "t", {"n": 1}),)


def test_an_id_that_is_repeated_in_every_piece_names_one_call() -> None:
    reply = build(
        call(0, '{"n"', id="a", name="t"), call(0, ":1}", id="a", name="t"), delta("tool_calls")
    )
    assert reply.tool_calls == (ToolCall("a", "t", {"n": 1}),)


def test_calls_without_ids_are_told_apart_by_index() -> None:
    reply = build(call(0, "{}", name="t"), call(1, "{}", name="u"), delta("tool_calls"))
    assert [tool_call.name for tool_call in reply.tool_calls] == ["t", "u"]


def test_arguments_that_come_as_an_object_are_taken() -> None:
    piece = delta(
        tool_calls=[{"index": 0, "id": "a", "function": {"name": "t", "arguments": {"n": 1}}}]
    )
    assert build(piece, delta("stop")).tool_calls == (ToolCall("a", "t", {"n": 1}),)


@pytest.mark.parametrize("text", ['{"path": "a', "[1]", "null", "path=a"])
def test_arguments_that_are_no_object_are_kept_as_text(text: str) -> None:
    assert parse_arguments(text) == {RAW_ARGUMENTS: text}


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert parse_arguments(text) == {}


def test_usage_tells_what_was_read_from_the_cache() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    reply = build(delta("stop", content="x"), {"choices": [], "usage": usage})
    assert reply.usage == Usage(input=36, output=20, cache_read=64, total_tokens=120)


def test_usage_without_details_or_total_is_added_up() -> None:
    reply = build(delta("stop"), {"choices": [], "usage": {"prompt_tokens": 3, "x": 1}})
    assert reply.usage == Usage(input=3, total_tokens=3)


def test_an_answer_cut_by_its_length_says_so_even_with_calls() -> None:
    reply = build(call(0, '{"n": 1', id="a", name="t"), delta("length"))
    assert reply.stop_reason == "length"
    assert reply.tool_calls == (ToolCall("a", "t", {RAW_ARGUMENTS: '{"n": 1'}),)


def test_blocks_of_text_are_joined_and_thinking_is_skipped() -> None:
    content = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Hi"}]
    assert build(delta(content=content), delta("stop")).text == "Hi"


def test_without_its_finish_marker_an_answer_is_not_whole() -> None:
    with pytest.raises(ModelStreamCutError, match="finish marker"):
        build(delta(content="half"))


@pytest.mark.parametrize(
    ("finish", "kind"), [("content_filter", ModelRequestError), ("error", ModelOverloadedError)]
)
def test_an_answer_that_was_stopped_is_an_error(finish: str, kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        build(delta(content="half"), delta(finish))


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"choices":[{"delta":{"content":5}}]}', b'{"choices":7}', b"\xff"]
)
def test_a_piece_that_is_not_readable_is_a_cut_stream(data: bytes) -> None:
    with pytest.raises(ModelStreamCutError, match="cannot be decoded"):
        CompatBuilder("P").take(data)


def test_an_error_object_in_the_stream_is_raised() -> None:
    with pytest.raises(ModelRateLimitError, match="slow down"):
        CompatBuilder("P").take(b'{"error":{"code":429,"message":"slow down"}}')


@pytest.mark.parametrize(
    "data",
    [
        b'{"error":null,"choices":[{"delta":null,"finish_reason":null}]}',
        b'{"choices":[{"delta":{"content":null,"tool_calls":null}}],"usage":null}',
        b'{"object":"ping"}',
    ],
)
def test_empty_pieces_add_nothing(data: bytes) -> None:
    assert CompatBuilder("P").take(data) is None


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skerry.providers.wire_format.TEXT_LIMIT", 10)
    builder = CompatBuilder("P")
    builder.take(json.dumps(delta(content="12345")).encode())
    with pytest.raises(ModelRequestError, match="P sent an answer of more than 10 characters"):
        builder.take(json.dumps(call(0, "123456", id="c")).encode())


@pytest.mark.parametrize(
    "piece",
    [
        b'{"choices":' + b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"choices":[{"delta":{"content":"half an emoji: \xf0\x9f"}}]}',
    ],
    ids=["deep", "deep and unknown", "no UTF-8"],
)
def test_a_piece_that_is_not_readable_cuts_the_answer(piece: bytes) -> None:
    with pytest.raises(ModelStreamCutError, match="cannot be decoded"):
        CompatBuilder("P").take(piece)


def test_deep_nesting_in_arguments_is_no_object() -> None:
    nested = '{"a":' * 200_000
    assert parse_arguments(nested) == {RAW_ARGUMENTS: nested}


@pytest.mark.parametrize(("said", "taken"), [(9 << 70, 1 << 40), ((1 << 63) - 1, 1 << 40), (-5, 0)])
def test_usage_that_no_model_has_is_bounded(said: int, taken: int) -> None:
    usage = {"prompt_tokens": said, "completion_tokens": said, "total_tokens": said}
    reply = build(delta(content="hi", finish="stop"), {"usage": usage})
    assert (reply.usage.input, reply.usage.output) == (taken, taken)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_is_a_block_that_says_in_which_field_it_came(field: str) -> None:
    builder = CompatBuilder("P")
    first = builder.take(json.dumps(delta(**{field: "Six ", "content": ""})).encode())
    builder.take(json.dumps(delta(**{field: "times seven."})).encode())
    last = builder.take(json.dumps(delta("stop", content="42")).encode())
    assert (first, last) == (EventText(thinking="Six "), EventText("42"))
    said = (ThinkingBlock("Six times seven.", field), TextBlock("42"))
    assert builder.reply().content == said


def test_a_providers_own_form_of_thinking_is_kept_whole_and_told_once() -> None:
    def detail(**fields: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "index": 0, "format": "x", **fields}

    reply = build(
        delta(reasoning="Hm", reasoning_details=[detail(text="Hm", signature=None)]),
        delta(reasoning_details=[detail(text=".", signature="sig")]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "e", "index": 1}]),
        delta("stop", content="42"),
    )
    thinking = reply.content[0]
    assert isinstance(thinking, ThinkingBlock)
    assert thinking.thinking == "Hm."
    assert json.loads(thinking.thinking_signature or "") == [
        detail(text="Hm.", signature="sig"),
        {"type": "reasoning.encrypted", "data": "e", "index": 1},
    ]


def test_mistrals_blocks_are_thinking_and_text() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    reply = build(delta("stop", content=[thinking, {"type": "text", "text": "42"}]))
    assert reply.content == (ThinkingBlock("Hm."), TextBlock("42"))
