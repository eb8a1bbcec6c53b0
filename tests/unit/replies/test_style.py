"""Style of answers, by configuration and conversation."""

import pytest

from skerry.config.replies import ReplyDefaults
from skerry.model.message import Cost, ToolCall, Usage
from skerry.model.outbound import TextUnit
from skerry.model.session import SessionSettings
from skerry.replies.style import (
    NATURAL,
    Detail,
    Style,
    TypingMode,
    footer,
    prefix,
    reasoning,
    style,
    tool_begun,
    tool_ended,
)


def sent(limit: int = 4000, *, direct: bool = True, **config: object) -> Style:
    defaults = ReplyDefaults.model_validate(config)
    return style(defaults, SessionSettings(), limit, TextUnit.UTF16, direct=direct)


def test_the_defaults_send_an_answer_whole_and_show_that_we_write() -> None:
    answer_style = sent()
    assert (answer_style.streams, answer_style.whole, answer_style.pause, answer_style.idle) == (
        False,
        False,
        None,
        1.0,
    )
    assert (answer_style.chunking.minimum, answer_style.chunking.maximum) == (800, 1200)
    assert (answer_style.joined_from, answer_style.joined_to) == (800, 4000)
    assert {answer_style.reasoning, answer_style.verbose, answer_style.usage} == {Detail.OFF}
    assert (answer_style.typing, answer_style.interval) == (TypingMode.INSTANT, 6.0)


def test_no_block_is_longer_than_the_platform_takes() -> None:
    answer_style = sent(350)
    assert (
        answer_style.chunking.minimum,
        answer_style.chunking.maximum,
        answer_style.joined_to,
    ) == (350, 350, 350)
    assert answer_style.chunking.unit is TextUnit.UTF16


def test_groups_see_us_write_with_the_first_words_and_nothing_of_tools() -> None:
    answer_style = sent(direct=False, verboseDefault="full")
    assert (answer_style.typing, answer_style.verbose) == (TypingMode.MESSAGE, Detail.OFF)
    assert sent(direct=False, typingMode="never").typing is TypingMode.NEVER


def test_the_conversation_counts_before_the_configuration() -> None:
    settings = SessionSettings(verbose_level="on", reasoning_level="stream", response_usage="full")
    answer_style = style(ReplyDefaults(), settings, 4000, TextUnit.BYTES, direct=True)
    assert (answer_style.verbose, answer_style.reasoning, answer_style.usage) == (
        Detail.ON,
        Detail.STREAM,
        Detail.FULL,
    )


@pytest.mark.parametrize(
    ("delay", "pause"),
    [
        ({}, None),
        ({"mode": "natural", "minMs": 1}, NATURAL),
        ({"mode": "custom", "minMs": 100, "maxMs": 200}, (0.1, 0.2)),
        ({"mode": "custom", "minMs": 300, "maxMs": 200}, (0.3, 0.3)),
    ],
)
def test_pauses(delay: dict[str, object], pause: tuple[float, float] | None) -> None:
    assert sent(humanDelay=delay).pause == pause


def test_a_prefix_names_what_it_knows() -> None:
    variables = {"model": "m", "provider": "p", "identity.name": "Ann"}
    assert prefix("[{identity.name} {Model}/{PROVIDER} {x}]", variables) == "[Ann m/p {x}]"


@pytest.mark.parametrize(
    ("level", "line"),
    [
        (Detail.OFF, ""),
        (Detail.ON, "Usage: 1.2k in / 340 out"),
        (Detail.TOKENS, "Usage: 1.2k in / 340 out"),
        (
            Detail.FULL,
            "Usage: 1.2k in / 340 out · cache 10 read / 0 written · $0.0120 · session k",
        ),
    ],
)
def test_what_an_answer_took(level: Detail, line: str) -> None:
    usage = Usage(1234, 340, cache_read=10, total_tokens=1574, cost=Cost(total=0.012))
    assert footer(level, usage, "k") == line
    assert footer(level, Usage(), "k") == ""


def test_reasoning_and_tools_read_as_messages() -> None:
    assert reasoning("One.\n\n two ") == "Reasoning:\n_One._\n\n_two_"
    assert tool_begun(ToolCall("c", "read", {"n": 1, "path": "a\nb"})) == "🛠️ read: a b"
    assert tool_begun(ToolCall("c", "list", {})) == "🛠️ list"
    call = ToolCall("c", "read", {})
    assert tool_ended(call, "a ``` b\n", failed=True) == "⚠️ read\n````\na ``` b\n````"
    assert tool_ended(call, "x" * 3000, failed=False).count("x") == 2000
