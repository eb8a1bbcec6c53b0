"""The common parts of the builders of replies."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.infra.untrusted_json import DEEPEST
from skerry.model.errors import ModelRequestError
from skerry.model.message import AssistantMessage, TextBlock, ToolCall, Usage
from skerry.model.redaction import Redaction
from skerry.ports.model import ModelReply
from skerry.providers.wire_format import OWN_ID, RAW_ARGUMENTS, REPLY_LIMIT, sound


def reply(*ids: str) -> ModelReply:
    calls = (ToolCall(one, "read", {"number": n}, "sig") for n, one in enumerate(ids))
    return ModelReply((TextBlock("x"), *calls), "toolUse", Usage())


def test_an_id_that_can_be_used_stays() -> None:
    said = reply("call_1", "fc-2", "x" * 64)
    assert sound(said, 5, "P") == said


def test_a_call_whose_id_is_missing_or_repeated_or_too_long_gets_one_of_ours() -> None:
    calls = sound(reply("a", "", "a", "x" * 65), 5, "P").tool_calls
    assert [call.id for call in calls] == ["a", f"{OWN_ID}5_2", f"{OWN_ID}5_3", f"{OWN_ID}5_4"]
    assert [call.arguments["number"] for call in calls] == [0, 1, 2, 3]
    assert calls[1].thought_signature == "sig"


@given(st.lists(st.lists(st.sampled_from(["", "a", "b"]), max_size=5), max_size=5))
def test_no_two_calls_of_a_response_have_the_same_id(rounds: list[list[str]]) -> None:
    for position, ids in enumerate(rounds):
        made = [tool_call.id for tool_call in sound(reply(*ids), position, "P").tool_calls]
        assert len(set(made)) == len(ids)
        assert all(one in ids or one.startswith(f"{OWN_ID}{position}_") for one in made)
        assert "" not in made


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("read", "read"),
        ("my-tool_2", "my-tool_2"),
        ("functions.read:0", "functions_read_0"),
        ("größe", "gr__e"),
        ("x" * 65, "x" * 64),
        ("", "unnamed"),
    ],
)
def test_a_name_that_no_tool_has_can_go_back_to_every_api(text: str, name: str) -> None:
    made = sound(ModelReply((ToolCall("a", text, {}),), "toolUse", Usage()), 0, "P")
    assert made.tool_calls == (ToolCall("a", name, {}),)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"text": "the blue boat"}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


def test_arguments_that_nobody_could_redact_are_left_out_and_the_model_is_told() -> None:
    said = (ToolCall("a", "read", nested(DEEPEST)), ToolCall("b", "read", nested(DEEPEST + 1)))
    kept, refused = sound(ModelReply(said, "toolUse", Usage()), 0, "P").tool_calls
    assert kept == said[0]
    assert refused.arguments == {RAW_ARGUMENTS: "(more than 64 levels deep)"}
    line = msgspec.to_builtins(AssistantMessage((kept,), "a", "p", "m", Usage(), "toolUse", 0))
    assert "boat" in str(line)
    assert "boat" not in str(Redaction(["the blue boat"]).value(line))


def test_an_answer_has_a_limit_wherever_it_is_long() -> None:
    long = ModelReply((ToolCall("a", "x" * REPLY_LIMIT, {}),), "toolUse", Usage())
    with pytest.raises(ModelRequestError, match="more than"):
        sound(long, 0, "P")
