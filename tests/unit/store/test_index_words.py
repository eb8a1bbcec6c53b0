"""Text of entries for the index."""

from skerry.model import message
from skerry.model.message import AssistantMessage, TextBlock, ToolCall, ToolResultMessage, Usage
from skerry.model.origin import Origin
from skerry.store.index_words import indexed, plain, spread


def test_unspaced_scripts_are_cut_into_pairs() -> None:
    assert spread("ab東京都cd").split() == ["ab", "東京", "京都", "都", "cd"]


def test_tool_calls_are_found_and_what_was_remembered_is_not() -> None:
    call = ToolCall("c", "read", {"path": "notes.txt"})
    answer = AssistantMessage((TextBlock("Look"), call), "", "", "", Usage(), "toolUse", 1)
    assert indexed(answer) == plain(answer) == 'Look\nread {"path":"notes.txt"}'
    remembered = (TextBlock("x"),)
    memory_result = ToolResultMessage(
        "c", "session_search", remembered, is_error=False, timestamp=1, origin=Origin.MEMORY
    )
    assert indexed(memory_result) == ""
    assert indexed(message.user("hi", 1)) == "hi"
