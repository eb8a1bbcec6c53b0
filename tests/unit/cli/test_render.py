"""Text for terminals."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.cli.render import plain, styled, table, text_of, width


@given(st.text())
def test_plain_text_has_no_control_but_newline_and_tab(text: str) -> None:
    kept = plain(text)
    assert all(char in "\n\t" or char >= " " for char in kept)
    assert not set(kept) & {"\x7f", "\x9b", "\u202e", "\u2066"}
    kept.encode()


def test_an_escape_sequence_is_left_without_its_power() -> None:
    assert plain("a\x1b]0;title\x07b\r\x9b31mc\n\td") == "a]0;titleb31mc\n\td"


def test_ordinary_text_of_any_script_stays_as_it_is() -> None:
    text = "Ünïcödé 日本語 👩\u200d🚀 שלום"
    assert plain(text) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_gets_styles() -> None:
    assert styled("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"


def test_a_pipe_gets_none() -> None:
    assert styled("x", "red", io.StringIO()) == "x"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_none_gets_none(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert styled("x", "red", Terminal()) == "x"


def test_columns_are_aligned() -> None:
    assert table([("a", "bbb"), ("aaa", "b")]) == "a    bbb\naaa  b"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "as text"}, "as text"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "toolCall"}, {"text": "b"}]}, "ab"),
        ({"content": [7, {"text": 7}]}, ""),
        (None, ""),
    ],
)
def test_the_text_of_a_message_is_found_in_every_shape(message: object, text: str) -> None:
    assert text_of(message) == text


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    assert [width(text) for text in ("ab", "日本", "e\u0301", "👩\u200d")] == [2, 4, 1, 2]
    first, second = table([("日本", "x"), ("ab", "y")]).splitlines()
    assert (first, second) == ("日本  x", "ab    y")


def test_a_terminal_gets_lines_no_wider_than_itself_and_a_pipe_gets_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    rows = [("key", "日本" * 9), ("k", "short")]
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert "日本" * 9 in table(rows)
    monkeypatch.setattr("sys.stdout", Terminal())
    assert table(rows).splitlines() == ["key  日本日…", "k    short"]


def test_one_long_key_makes_its_own_row_longer_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("k" * 500, "x"), ("main", "what was said")]
    long, short = table(rows).splitlines()
    assert (long, short) == (f"{'k' * 500}  x", f"{'main':<60}  what was said")
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert table(rows).splitlines() == [long, f"{short[:69]}…"]
