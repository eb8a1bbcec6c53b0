"""Text of a model, as a person sees it before the answer."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from skerry.model.escape import escaped


def test_known_escapes() -> None:
    assert escaped("ls -l\t#\u202ex\r\n\u00a0\u2028") == "ls -l\\t#\\u{202e}x\\r\\n\\u{a0}\\u{2028}"


@given(st.text())
@example("\u3000\u200d\x7f")
def test_nothing_hidden_is_left(text: str) -> None:
    kinds = {unicodedata.category(each) for each in escaped(text) if each != " "}
    assert not kinds & {"Cc", "Cf", "Zs", "Zl", "Zp", "Cs", "Co"}


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_what_is_seen_stays(text: str) -> None:
    assert escaped(text) == text
