"""Pruning: old results that are shortened or cleared, and messages that never change."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.context_limits import ContextPruning, HardClear, PruningTools, SoftTrim, seconds
from skerry.model import message
from skerry.model.message import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    size,
)
from skerry.sessions.pruning import allowed, pruned, shortened

ON = ContextPruning(mode="cache-ttl")


def answer(text: str = "ok", *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage((TextBlock(text), *calls), "", "", "", Usage(), "stop", 1)


def result(text: str, tool: str = "read", *blocks: ImageBlock) -> ToolResultMessage:
    return ToolResultMessage("c", tool, (TextBlock(text), *blocks), is_error=False, timestamp=1)


def conversation(*results: ToolResultMessage, after: int = 3) -> list[Message]:
    messages: list[Message] = [message.user("hello", 1)]
    for tool_result in results:
        messages += [answer("", ToolCall("c", tool_result.tool_name, {})), tool_result]
    return [*messages, *(answer() for _ in range(after))]


@pytest.mark.requirement("pruning-soft-trim-form")
@pytest.mark.requirement("pruning-soft-trim-values")
def test_a_long_result_keeps_its_begin_and_its_end() -> None:
    text = "a" * 1500 + "b" * 5000 + "c" * 1500
    (changed,) = pruned(conversation(result(text)), ON, window=2000).values()
    assert changed.text == (
        "a" * 1500
        + "\n...\n"
        + "c" * 1500
        + "\n\n[Tool result trimmed: kept first 1500 chars and last 1500 chars of 8000 chars.]"
    )
    assert (changed.tool_call_id, changed.tool_name) == ("c", "read")


@pytest.mark.requirement("pruning-soft-trim-values")
@pytest.mark.parametrize(("chars", "trimmed"), [(4000, False), (4001, True)])
def test_only_what_is_longer_than_4000_characters_is_shortened(
    chars: int, *, trimmed: bool
) -> None:
    tool_result = result("x" * chars)
    assert (shortened(tool_result, ON.soft_trim) is not tool_result) is trimmed


@pytest.mark.requirement("pruning-ratios")
def test_nothing_is_shortened_below_the_soft_ratio() -> None:
    messages = conversation(result("x" * 8000))
    window = sum(map(size, messages)) / 4
    assert pruned(messages, ON, window=int(window / 0.31))
    assert not pruned(messages, ON, window=int(window / 0.29))
    assert (ON.soft_trim_ratio, ON.hard_clear_ratio) == (0.3, 0.5)


@pytest.mark.requirement("pruning-ratios")
@pytest.mark.requirement("pruning-hard-clear")
@pytest.mark.requirement("pruning-only-tool-results")
def test_the_oldest_results_are_taken_out_until_the_rest_is_small_enough() -> None:
    messages = conversation(*(result("x" * 3900) for _ in range(20)))
    room = sum(map(size, messages))
    changed = pruned(messages, ON, window=room // 4)
    cleared = [
        index
        for index, tool_result in changed.items()
        if tool_result.text == "[Old tool result content cleared]"
    ]
    assert cleared == sorted(changed)
    assert cleared[0] == 2
    calls = [getattr(messages[index], "tool_call_id", "") for index in cleared]
    assert [changed[index].tool_call_id for index in cleared] == calls
    remaining = room - sum(size(messages[n]) - size(changed[n]) for n in changed)
    assert remaining < room * 0.5
    assert remaining + 4000 >= room * 0.5  # no more than needed
    without_clear = ContextPruning(mode="cache-ttl", hard_clear=HardClear(enabled=False))
    assert not pruned(messages, without_clear, window=room // 4)
    few_chars = ContextPruning(mode="cache-ttl", min_prunable_tool_chars=100_000)
    assert not pruned(messages, few_chars, window=room // 4)


@pytest.mark.requirement("pruning-keep-last-assistants")
@pytest.mark.parametrize(("after", "changes"), [(2, False), (3, True)])
def test_the_last_three_responses_are_protected_with_what_follows(
    after: int, *, changes: bool
) -> None:
    messages = conversation(result("x" * 8000), after=after)
    assert bool(pruned(messages, ON, window=2000)) is changes


@pytest.mark.requirement("pruning-skip-images")
def test_results_with_images_are_skipped() -> None:
    image = ImageBlock("aGk=", "image/png")
    assert not pruned(conversation(result("x" * 9000, "read", image)), ON, window=2000)


def test_results_before_the_first_words_of_a_person_are_protected() -> None:
    messages = [answer("", ToolCall("c", "read", {})), result("x" * 9000), *conversation()]
    assert not pruned(messages, ON, window=2000)


@pytest.mark.parametrize(
    ("tool", "allow", "deny", "may"),
    [
        ("read", (), (), True),
        ("read", ("re*",), (), True),
        ("write", ("re*",), (), False),
        ("read", ("*",), ("READ",), False),
    ],
)
def test_tools_are_chosen_by_name(
    tool: str, allow: tuple[str, ...], deny: tuple[str, ...], *, may: bool
) -> None:
    assert allowed(tool, PruningTools(allow=allow, deny=deny)) is may


@pytest.mark.parametrize(("text", "found"), [("5m", 300), ("90s", 90), ("1.5h", 5400), ("2", 120)])
def test_a_ttl_is_a_duration(text: str, found: float) -> None:
    assert seconds(text) == found


messages = st.lists(
    st.one_of(
        st.builds(lambda n: message.user("u" * n, 1), st.integers(0, 500)),
        st.builds(lambda n: answer("a" * n), st.integers(0, 500)),
        st.builds(lambda n: result("r" * n), st.integers(0, 9000)),
        st.builds(lambda n: result("r" * n, "read", ImageBlock("", "")), st.integers(0, 9000)),
    ),
    max_size=30,
)


@pytest.mark.requirement("pruning-only-tool-results")
@given(messages, st.integers(100, 5000))
def test_only_results_change_and_they_get_shorter_and_keep_their_call(
    messages: Sequence[Message], window: int
) -> None:
    before = list(messages)
    settings = ContextPruning(mode="cache-ttl", min_prunable_tool_chars=1000)
    for index, tool_result in pruned(messages, settings, window).items():
        old = messages[index]
        assert isinstance(old, ToolResultMessage)
        assert size(tool_result) <= size(old) or len(old.text) < 40
        assert tool_result.tool_call_id == old.tool_call_id
        assert not any(isinstance(block, ImageBlock) for block in old.content)
    assert list(messages) == before


def test_head_and_tail_that_cover_it_all_leave_it() -> None:
    tool_result = result("x" * 100)
    assert (
        shortened(tool_result, SoftTrim(max_chars=10, head_chars=60, tail_chars=60)) is tool_result
    )
