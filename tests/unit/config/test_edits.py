"""A change keeps the comments and the style of the file around it."""

from pathlib import Path

import pytest

from skerry.config import source
from skerry.config.edits import edited
from skerry.config.paths import MISSING, parse_key_path, replaced


def changed(text: str, **values: object) -> str:
    """Returns the text with each place, with `_` for a dot, set; `...` removes it."""
    before = source.parse(Path(), text)
    after = before
    for name, value in values.items():
        place = parse_key_path(name.replace("_", "."))
        after = replaced(after, place, MISSING if value is ... else value)
    text_after = edited(text, before, after)
    assert text_after is not None
    return text_after


@pytest.mark.parametrize(
    ("text", "values", "after"),
    [
        ("{a: 1} // c", {"a": 2}, "{a: 2} // c"),
        ("{a: 1 /* x */}", {"b": "t"}, '{a: 1, /* x */ b: "t"}'),
        ("{'a': 'x'}", {"b": "it's"}, "{'a': 'x', 'b': 'it\\'s'}"),
        ("{a: 1, b: 2,}", {"c": 3}, "{a: 1, b: 2, c: 3,}"),
        ("{a: 1, b: 2}", {"b": ...}, "{a: 1}"),
        ("{ a: 1, b: 2 }", {"a": ...}, "{ b: 2 }"),
        ("{a: 1, b: 2, c: 3}", {"b": ..., "c": ...}, "{a: 1}"),
        ("{a: {b: 1}}", {"a_c": True}, "{a: {b: 1, c: true}}"),
        ("{a: [1, /* two */ 2, 3]}", {"a": [1, 2]}, "{a: [1, /* two */ 2]}"),
        ("{a: [1, /* two */ 2, 3]}", {"a": [1, 3]}, "{a: [1, /* two */ 3]}"),
        ("{a: [/* none */]}", {"a": ["x"]}, '{a: [/* none */ "x"]}'),
        ("{'b-c': 1}", {"d": [{"e": 1}]}, "{'b-c': 1, 'd': [{'e': 1}]}"),
        ("{a: 1}", {"b-c": 1}, '{a: 1, "b-c": 1}'),
        ("{a: +.5, b: 0x1F}", {"b": 32}, "{a: +.5, b: 32}"),
        ("{'\\x61': 1}", {"a": 2}, "{'\\x61': 2}"),
        ("{a: 1, a: 2}", {"a": 3}, "{a: 1, a: 3}"),
    ],
)
def test_only_the_changed_text_changes(text: str, values: dict[str, object], after: str) -> None:
    assert changed(text, **values) == after


def test_a_new_key_goes_onto_a_line_of_its_own_behind_the_last_comment() -> None:
    text = "// top\n{\n    a: 1, // one\n    // b: 2,\n}\n// end\n"
    new = "    c: {\n        d: [1, 2]\n    },\n"
    after = f"// top\n{{\n    a: 1, // one\n    // b: 2,\n{new}}}\n// end\n"
    assert changed(text, c={"d": [1, 2]}) == after


def test_a_removed_line_leaves_no_empty_one_and_the_comments_about_it_stay() -> None:
    text = "{\r\n  a: 1,\r\n  // about b\r\n  b: 2, // two\r\n  c: 3,\r\n}"
    assert changed(text, c=...) == "{\r\n  a: 1,\r\n  // about b\r\n  b: 2, // two\r\n}"
    assert changed(text, a=...) == "{\r\n  // about b\r\n  b: 2, // two\r\n  c: 3,\r\n}"
    assert "// about b\r\n" in changed(text, b=...)
    assert "// two\r\n" in changed(text, b=...)


def test_a_duplicate_key_is_changed_where_it_counts_and_removed_completely() -> None:
    text = "{a: {b: 1}, a: {b: 2}}"
    before = source.parse(Path(), text)
    assert edited(text, before, {"a": {"b": 3}}) == "{a: {b: 1}, a: {b: 3}}"
    assert edited(text, before, {"c": 1}) == "{ c: 1}"


def test_a_text_without_an_object_cannot_be_edited() -> None:
    assert edited("[1]", {}, {"a": 1}) is None
