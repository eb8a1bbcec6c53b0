"""Tool calls that a model wrote as text."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.message import TextBlock, ThinkingBlock, ToolCall, Usage, user
from skerry.model.tool import ToolSpec
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest
from skerry.providers.text_filters import WrittenCalls, written_calls

NAMES = frozenset({"read", "read_all"})
TOOLS = tuple(ToolSpec(name, "", {}) for name in sorted(NAMES))
READ = '{"name": "read", "arguments": {"path": "a"}}'
ONE = ("read", {"path": "a"})


def request(*, tools: bool = True) -> ModelRequest:
    model = ModelInfo("p", "m", "M")
    return ModelRequest(model, "", History([user("x", 1)]), TOOLS if tools else ())


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        (READ, "", [ONE]),
        (f"\n {READ}\n", "", [ONE]),
        (READ.replace("arguments", "parameters"), "", [ONE]),
        ('{"type": "function", ' + READ[1:], "", [ONE]),
        (f"```json\n{READ}\n```", "", [ONE]),
        (f"```\n{READ}\n```\n", "", [ONE]),
        (f"```tool_call\n{READ}\n```", "", [ONE]),
        (f"<tool_call>{READ}</tool_call>", "", [ONE]),
        (f"<tool_call>\n{READ}\n</tool_call>\n<tool_call>{READ}</tool_call>", "", [ONE, ONE]),
        (f"I look.\n<tool_call>\n{READ}\n</tool_call>\n", "I look.", [ONE]),
    ],
)
def test_the_name_of_an_offered_tool_and_its_arguments_are_a_call(
    text: str, said: str, calls: list[Any]
) -> None:
    assert written_calls(text, NAMES) == (said, calls)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello",
        f"Call it so: {READ}",
        f"{READ} is how it is called",
        f"Call it so:\n```json\n{READ}\n```",
        f"`{READ}`",
        READ.replace("read", "write"),
        READ.replace('"a"', '"a'),
        '{"name": "read"}',
        '{"name": "read", "arguments": "path"}',
        '{"name": "read", "arguments": {}, "note": 1}',
        '{"name": "read", "arguments": {}, "parameters": {}}',
        '{"arguments": {}, "name": "read"}',
        '{"name": ["read"], "arguments": {}}',
        f"[{READ}]",
        f"<tool_call>{READ}</tool_call> is its form",
        f"Its form is <tool_call>{READ}</tool_call>",
        "<tool_call></tool_call>",
        f"<tool_call>{READ}</tool_call>\n<tool_call>x</tool_call>",
        '{"name": "read", ' * 5000,
    ],
)
def test_anything_else_is_text(text: str) -> None:
    assert written_calls(text, NAMES) is None
    assert stream([text]) == (text, "", ())


def stream(pieces: list[str]) -> tuple[str, str, tuple[ToolCall, ...]]:
    """Returns the shown text, the text of the reply if it differs, and its calls."""
    watch = WrittenCalls(request())
    shown = "".join(watch.feed(piece) for piece in pieces)
    text = "".join(pieces)
    reply, rest = watch.finish(ModelReply((TextBlock(text),), "stop", Usage()))
    said = "" if reply.text == text else reply.text
    return shown + rest, said, reply.tool_calls


pieces_of_text = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            READ,
            "{",
            '"name":',
            "```",
            "```json\n",
            "\n",
            " ",
            "<tool_call>",
            "</tool_call>",
            "<",
            "I",
        ]
    ),
    st.recursive(
        st.none() | st.integers() | st.sampled_from(["read", "name", "arguments"]),
        lambda inner: st.dictionaries(st.sampled_from(["name", "arguments", "x"]), inner),
    ).map(json.dumps),
)


@given(st.lists(pieces_of_text, max_size=8), st.data())
def test_however_it_is_cut_what_is_shown_is_the_text_or_what_is_before_its_calls(
    drawn: list[str], data: st.DataObject
) -> None:
    text = "".join(drawn)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    bounds = [0, *cuts, len(text)]
    cut = [text[start:end] for start, end in pairwise(bounds)]
    shown, said, calls = stream(cut)
    if calls:
        assert shown.rstrip() == said
        assert all(call.name in NAMES for call in calls)
        assert "read" in text
    else:
        assert shown == text


@given(st.text())
def test_what_names_no_tool_is_never_a_call(text: str) -> None:
    if "read" not in text:
        assert written_calls(text, NAMES) is None


words = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), min_size=1)


@given(words.filter(str.strip), st.sampled_from([READ, f"```json\n{READ}\n```"]), st.booleans())
def test_a_call_that_is_quoted_in_a_sentence_is_text(words: str, call: str, after: bool) -> None:  # noqa: FBT001 - drawn
    text = call + words if after else words + call
    assert written_calls(text, NAMES) is None


def test_many_beginnings_without_an_end_are_text() -> None:
    text = "\n<tool_call>" * 85_000  # looked for one by one, the end of each would take a minute
    assert written_calls(text, NAMES) is None


def test_ordinary_text_is_shown_at_once() -> None:
    watch = WrittenCalls(request())
    assert watch.feed("Hel") == "Hel"
    assert watch.feed("lo {") == "lo {"
    assert watch.feed("a < b") == "a < b"
    assert WrittenCalls(request()).feed('{"answer": 1') == '{"answer": 1'
    assert WrittenCalls(request()).feed("```python") == "```python"


def test_what_may_become_a_call_is_held_back() -> None:
    watch = WrittenCalls(request())
    assert [watch.feed(piece) for piece in ("I look.\n", "<tool", "_call>", READ)] == [
        "I look.\n", "", "", "",
    ]  # fmt: skip
    assert WrittenCalls(request()).feed('{"name": "re') == ""


def test_blanks_are_not_held_back_for_ever() -> None:
    watch = WrittenCalls(request())
    assert sum(len(watch.feed(" " * 100)) for _ in range(100)) > 9000


def test_without_offered_tools_nothing_is_a_call() -> None:
    watch = WrittenCalls(request(tools=False))
    reply = ModelReply((TextBlock(READ),), "stop", Usage())
    assert watch.feed(READ) == READ
    assert watch.finish(reply) == (reply, "")


def test_thinking_and_the_words_before_the_calls_stay() -> None:
    watch = WrittenCalls(request())
    said = (ThinkingBlock("Hm."), TextBlock(f"I look.\n<tool_call>{READ}</tool_call>"))
    reply, rest = watch.finish(ModelReply(said, "stop", Usage()))
    call = ToolCall("", "read", {"path": "a"})
    assert reply.content == (ThinkingBlock("Hm."), TextBlock("I look."), call)
    assert (reply.stop_reason, rest) == ("toolUse", "")


def test_a_reply_with_real_calls_keeps_its_text() -> None:
    watch = WrittenCalls(request())
    reply = ModelReply((TextBlock(READ), ToolCall("c", "read", {})), "toolUse", Usage())
    assert watch.feed(READ) == ""
    assert watch.finish(reply) == (reply, READ)
