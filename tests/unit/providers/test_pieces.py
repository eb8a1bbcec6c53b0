"""What the builders of replies share."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.message import TextBlock, ToolCall, Usage
from skerry.ports.model import ModelReply
from skerry.providers.pieces import OWN_ID, identified


def reply(*ids: str) -> ModelReply:
    calls = (ToolCall(one, "read", {"number": n}, "sig") for n, one in enumerate(ids))
    return ModelReply((TextBlock("x"), *calls), "toolUse", Usage())


def test_an_id_that_can_be_used_stays() -> None:
    said = reply("call_1", "fc-2", "x" * 64)
    assert identified(said, 5) == said


def test_a_call_whose_id_is_missing_or_repeated_or_too_long_gets_one_of_ours() -> None:
    calls = identified(reply("a", "", "a", "x" * 65), 5).tool_calls
    assert [one.id for one in calls] == ["a", f"{OWN_ID}5_2", f"{OWN_ID}5_3", f"{OWN_ID}5_4"]
    assert [one.arguments["number"] for one in calls] == [0, 1, 2, 3]
    assert calls[1].thought_signature == "sig"


@given(st.lists(st.lists(st.sampled_from(["", "a", "b"]), max_size=5), max_size=5))
def test_no_two_calls_of_a_response_have_the_same_id(rounds: list[list[str]]) -> None:
    for place, ids in enumerate(rounds):
        made = [one.id for one in identified(reply(*ids), place).tool_calls]
        assert len(set(made)) == len(ids)
        assert all(one in ids or one.startswith(f"{OWN_ID}{place}_") for one in made)
        assert "" not in made
