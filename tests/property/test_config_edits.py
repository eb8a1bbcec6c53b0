"""Whatever is changed in a file with comments, it means the same as written anew, and they stay."""

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.config import source
from skerry.config.edits import edited
from tests.support.shown import examples

keys = st.sampled_from(["a", "b", "port", "some-key", "$x", "ü", "it's", ""])
plain: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "x", "it's", '"', "\\", "//"])
)
trees: st.SearchStrategy[Any] = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
roots = st.dictionaries(keys, trees, max_size=4)
GAPS = st.sampled_from(["", "", "", " ", "lines", "line", "block"])
YES = st.booleans()
FORMS = st.sampled_from(["lines", "one line"])
COMMENT = re.compile(r"⟦\d+⟧")


class Writer:
    """Writes a tree as JSON5, with numbered comments wherever one may stand."""

    def __init__(self, data: st.DataObject, *, lines: bool) -> None:
        self._data, self._lines, self._comments = data, lines, 0

    def text(self, tree: Any) -> str:
        return self._gap() + self._value(tree) + self._gap()

    def _value(self, one: Any) -> str:
        match one:
            case dict():
                members = [f"{self._key(key)}{self._gap()}:{self._gap()}" for key in one]
                values = zip(members, one.values(), strict=True)
                return self._all("{}", [key + self._value(value) for key, value in values])
            case list():
                return self._all("[]", [self._value(value) for value in one])
            case str():
                return self._quoted(one)
            case _:
                return json.dumps(one)

    def _all(self, brackets: str, parts: list[str]) -> str:
        ends: bool = self._data.draw(YES)
        end = "," if parts and ends else ""
        inner = f"{self._gap()},".join(self._gap() + part for part in parts)
        return brackets[0] + inner + self._gap() + end + self._gap() + brackets[1]

    def _gap(self) -> str:
        kind = self._data.draw(GAPS)
        self._comments += 1
        mark = f"⟦{self._comments}⟧"
        if kind == "lines":
            return "\n  " if self._lines else " "
        if kind == "line" and self._lines:
            return f"// {mark}\n"
        return f"/* {mark} */" if kind in {"line", "block"} else kind

    def _key(self, key: str) -> str:
        is_bare = key.isascii() and key.isidentifier() and self._data.draw(YES)
        return key if is_bare else self._quoted(key)

    def _quoted(self, text: str) -> str:
        quote = self._data.draw(st.sampled_from("'\""))
        body = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
        return quote + body + quote


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), roots, roots, FORMS)
def test_any_change_means_the_same_as_a_rewrite(
    data: st.DataObject, before: dict[str, Any], other: dict[str, Any], lines: str
) -> None:
    text = Writer(data, lines=lines == "lines").text(before)
    assert source.parse(Path(), text) == before
    after = edited(text, before, {**before, **other})
    assert after is not None
    assert source.parse(Path(), after) == {**before, **other}


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), roots, st.dictionaries(keys, plain, max_size=3), FORMS)
def test_no_comment_outside_the_changed_values_is_lost(
    data: st.DataObject, before: dict[str, Any], other: dict[str, Any], lines: str
) -> None:
    inner = {key: one for key, one in before.items() if not isinstance(one, dict | list)}
    removed = data.draw(st.sets(st.sampled_from(sorted(inner)))) if inner else set()
    expected = {key: one for key, one in before.items() if key not in removed}
    expected |= {key: one for key, one in other.items() if key in inner or key not in before}
    text = Writer(data, lines=lines == "lines").text(before)
    after = edited(text, before, expected)
    assert after is not None
    assert source.parse(Path(), after) == expected
    gone = set(COMMENT.findall(text)) - set(COMMENT.findall(after))
    assert len(gone) <= 2 * len(removed), "only those between a removed key and its value"
