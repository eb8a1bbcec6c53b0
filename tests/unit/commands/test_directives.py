"""Directives within a message: their syntax, and the text without them."""

import pytest

from skerry.commands.directives import (
    MAX_TEXT,
    directives,
    in_order,
    remove_directives,
    sole_directives,
)


def is_model(word: str) -> bool:
    return word == "openai/gpt"


@pytest.mark.parametrize(
    ("text", "expected", "rest"),
    [
        ("/think high what is 2+2?", ["think high"], "what is 2+2?"),
        ("hello /t low", ["think low"], "hello"),
        ("a /verbose full b", ["verbose full"], "a b"),
        ("/v on\nhello", ["verbose on"], "hello"),
        ("one\n/reason stream\ntwo", ["reasoning stream"], "one\ntwo"),
        ("one /think high\ntwo", ["think high"], "one\ntwo"),
        ("/THINK: High, no", [], "/THINK: High, no"),
        ("/Think: High now", ["think high"], "now"),
        ("/think:max now", ["think xhigh"], "now"),
        ("/status how are you?", ["status "], "how are you?"),
        ("/model openai/gpt hi", ["model openai/gpt"], "hi"),
        (
            "/queue steer cap:3 drop:old there /think off",
            ["queue steer cap:3 drop:old", "think off"],
            "there",
        ),
        ("so\n\n/think high\n\n    code", ["think high"], "so\n\n\n    code"),
    ],
)
def test_a_directive_is_taken_out_with_nothing_else(
    text: str, expected: list[str], rest: str
) -> None:
    parsed = directives(text, is_model)
    assert [f"{call.name} {call.level}" for call in parsed] == expected
    assert remove_directives(text, parsed) == rest


@pytest.mark.parametrize(
    "text",
    [
        "/think about it",
        "/think on this",
        "/model of a ship",
        "/queue here, please",
        "what does GET /status return?",
        "look at /usr/think high",
        "/usr/share/think high",
        "https://example.org/think high",
        "/think/high",
        "a/think high",
        "use `/think high` for that",
        "use `` a ` /think high `` for that",
        "```\n/think high\n```",
        "~~~sh\n /think high",
        "> /think high\n\nwhat does that mean?",
        "/elevated on",
        "/exec host=gateway",
        "/thinker high",
        "no directive at all",
    ],
)
def test_what_is_a_word_of_the_person_stays(text: str) -> None:
    assert directives(text, is_model) == []


def test_code_ends_where_its_fence_does() -> None:
    parsed = directives("```\n/think high\n```\n/verbose on go", is_model)
    assert [call.name for call in parsed] == ["verbose"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/think high /verbose on", [("think", "high"), ("verbose", "on")]),
        (
            "/status\n/queue collect cap:4 /t on",
            [("status", ""), ("queue", "collect cap:4"), ("think", "on")],
        ),
        ("/think /model gpt", [("think", ""), ("model", "gpt")]),
        ("/think hihg", [("think", "hihg")]),
        ("/think high and more", []),
        ("and /think high", []),
        ("/status now", []),
    ],
)
def test_a_message_of_directives_alone_may_say_anything_behind_each(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert [(directive.name, directive.level) for directive in sole_directives(text)] == expected


def test_they_are_done_in_one_order_and_the_last_of_a_name_counts() -> None:
    parsed = directives("/queue steer /think low /verbose on /think high go", is_model)
    assert [(call.name, call.level) for call in in_order(parsed)] == [
        ("think", "high"),
        ("verbose", "on"),
        ("queue", "steer"),
    ]


def test_a_message_that_nobody_typed_has_none() -> None:
    assert directives("/think high " + "x" * MAX_TEXT, is_model) == []
