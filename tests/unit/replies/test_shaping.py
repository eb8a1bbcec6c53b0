"""Conversion of a model's text to the text for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.message import AssistantMessage, TextBlock, ThinkingBlock, ToolCall, Usage
from skerry.replies.shaping import Shaper, as_shown, shaped, split_thoughts
from skerry.replies.tags import ReplyMarks, media


def read(text: str, size: int = 1, *, cut: bool = False) -> tuple[str, str, Shaper]:
    """Returns visible text and thoughts when the text is streamed in deltas of `size`."""
    thoughts: list[str] = []
    shaper = Shaper(thoughts.append)
    visible = [shaper.feed(text[at : at + size]) for at in range(0, len(text), size)]
    visible.append(shaper.end(cut=cut))
    return "".join(visible), "".join(thoughts), shaper


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("plain", "plain", ""),
        ("<think>hm</think>\n\nHello", "Hello", "hm"),
        ("<Thinking>a < b</thinking>Yes", "Yes", "a < b"),
        ("One <think>x</think> two", "One two", "x"),
        ("One\n<think>x</think>\n\nTwo", "One\n\n\nTwo", "x"),
        ("<think>x</think><final>Yes</final>", "Yes", "x"),
        ("thoughts</think>Yes", "thoughtsYes", ""),
        ("<think>never closed", "", "never closed"),
        ("<think>cut in its end</thi", "", "cut in its end"),
        ("Yes <thin", "Yes ", ""),
        ("a <b and <think", "a <b and ", ""),
        ("1 < 2", "1 < 2", ""),
        ("a <t", "a <t", ""),
        ("<thinker>", "<thinker>", ""),
        ("`<think>` is a tag", "`<think>` is a tag", ""),
        ("``a ` <think>`` b", "``a ` <think>`` b", ""),
        ("a ` tick <think>x</think>\nb `", "a ` tick \nb `", "x"),
        ("```\n<think>\n```\n<think>x</think>end", "```\n<think>\n```\nend", "x"),
        ("~~~ xml\n<final>\nMEDIA: a.png\n[[reply_to_current]]", None, ""),
    ],
)
def test_thoughts_in_tags_are_taken_out_but_never_from_code(
    text: str, said: str | None, thought: str, size: int
) -> None:
    assert read(text, size)[:2] == (text if said is None else said, thought)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "said", "marks"),
    [
        ("[[reply_to_current]] Hi", "Hi", ReplyMarks(reply_to_current=True)),
        ("[[ reply_to : 42 ]]Hi", "Hi", ReplyMarks("42")),
        ("Hi [[reply_to:a-b.c]]", "Hi ", ReplyMarks("a-b.c")),
        ("Hi [[reply_to:cut", "Hi ", ReplyMarks()),
        ("[[audio_as_voice]]\nHi", "Hi", ReplyMarks(voice=True)),
        ("[[Page]] [link](x) [", "[[Page]] [link](x) [", ReplyMarks()),
        ("`[[reply_to_current]]`", "`[[reply_to_current]]`", ReplyMarks()),
    ],
)
def test_a_model_can_say_what_it_replies_to(
    text: str, said: str, marks: ReplyMarks, size: int
) -> None:
    visible, _, shaper = read(text, size)
    assert (visible, shaper.marks) == (said, marks)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("MEDIA: chart.png", ["chart.png"]),
        ('MEDIA: "my chart.png" ./b.png', ["my chart.png", "./b.png"]),
        ("MEDIA:`a b.pdf`", ["a b.pdf"]),
        ("MEDIA: https://example.org/a", ["https://example.org/a"]),
        ("MEDIA: is a fine word", None),
        ("MEDIA:", None),
    ],
)
def test_a_line_names_files(line: str, names: list[str] | None) -> None:
    assert media(line) == names


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_line_of_files_is_replaced_outside_of_code(size: int) -> None:
    text = "See:\nMEDIA: out/chart.png b.png\nMEDIA: no file at all\n```\nMEDIA: a.png\n```"
    expected = "See:\n📎 chart.png\n📎 b.png\nMEDIA: no file at all\n```\nMEDIA: a.png\n```"
    assert read(text, size)[0] == expected


@pytest.mark.requirement("flush-no-reply-silent")
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    "text",
    [
        *("NO_REPLY", " NO_REPLY\n", "**NO_REPLY**", '"NO_REPLY"', "NO_REPLY.", "`NO_REPLY`"),
        *('{"action": "NO_REPLY"}', "<think>no</think>\nNO_REPLY", "[[reply_to_current]] NO_REPLY"),
    ],
)
def test_nothing_of_a_silent_reply_leaves_while_it_comes(text: str, size: int) -> None:
    visible, _, shaper = read(text, size)
    assert (visible, shaper.silent) == ("", True)


@pytest.mark.requirement("flush-no-reply-silent")
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NO_REPLY is a word", "NO_REPLY is a word"),
        ("Not now", "Not now"),
        ("NO", "NO"),
        ("Say N", "Say N"),
        ("Done.\n\nNO_REPLY", "Done.\n\n"),
        ("Done. NO_REPLY!", "Done. "),
        ("XNO_REPLY", "XNO_REPLY"),
        ("NO_REPLY_TO is a field", "NO_REPLY_TO is a field"),
        ('{"action": "write"}', '{"action": "write"}'),
        ("Is it NO_REPLY or not", "Is it NO_REPLY or not"),
    ],
)
def test_a_reply_is_silent_only_when_the_whole_of_it_is_the_word(
    text: str, said: str, size: int
) -> None:
    visible, _, shaper = read(text, size)
    assert (visible, shaper.silent) == (said, False)


@pytest.mark.parametrize("text", ["N", "NO_RE", " NO_", "Done. NO_REP", "**NO_REPLY"])
def test_a_reply_that_breaks_off_in_the_word_says_nothing_of_it(text: str) -> None:
    assert read(text, cut=True)[0] in {"", "Done. "}


PIECES = (
    *("<", "think", ">", "</think>", "<think>", "<final>", "</final>", "`", "``", "```", "\n"),
    *("[[", "reply_to", "_current", ":1", "]]", "[", "MEDIA:", " a.png", "NO_REPLY", "NO_", "N"),
    *("a", " ", "~~~", ".", "x y", '{"action":', '"NO_REPLY"}', "<thi", "/"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.integers(1, 9))
def test_what_is_read_does_not_depend_on_how_it_came(text: str, size: int) -> None:
    visible_at_once, thoughts, whole = read(text, max(len(text), 1))
    visible, thought, shaper = read(text, size)
    assert (visible, thought) == (visible_at_once, thoughts)
    assert (shaper.silent, shaper.marks) == (whole.silent, whole.marks)
    assert shaped(text).text == visible_at_once
    assert shaped(text).silent == whole.silent


@given(st.text(st.sampled_from("ab `\n.~"), max_size=80))
def test_a_text_without_marks_is_read_as_it_is(text: str) -> None:
    assert read(text)[0] == text


def test_the_transcript_keeps_what_the_model_wrote_but_its_thoughts() -> None:
    text = "<think>hm</think>[[reply_to_current]]Hi\nMEDIA: a.png\nNO_REPLY"
    assert split_thoughts(text) == ("[[reply_to_current]]Hi\nMEDIA: a.png\nNO_REPLY", "hm")
    assert split_thoughts("plain [[x]]") is None


def message(text: str, stop_reason: str = "stop", provider: str = "p") -> AssistantMessage:
    content = (ThinkingBlock("hm"), TextBlock(text), ToolCall("c", "read", {}))
    return AssistantMessage(content, "", provider, "", Usage(), stop_reason, 1)


def test_a_transcript_reads_as_the_answer_did() -> None:
    shown_message = as_shown(message("[[reply_to_current]]Hi\nMEDIA: a.png"))
    assert shown_message.content[1] == TextBlock("Hi\n📎 a.png")
    assert [type(block) for block in shown_message.content] == [ThinkingBlock, TextBlock, ToolCall]
    assert [type(block) for block in as_shown(message("NO_REPLY")).content] == [
        ThinkingBlock,
        ToolCall,
    ]


@pytest.mark.parametrize(
    "said", [message("plain"), message("[[x", "aborted"), message("NO_REPLY", provider="skerry")]
)
def test_what_needs_nothing_is_left_alone(said: AssistantMessage) -> None:
    assert as_shown(said) is said
