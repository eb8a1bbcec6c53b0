"""Of a text only what people see is left."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from skerry.model.provenance import clean


@given(text=st.text())
@example(text="Tea,\tmilk\nand\r\x00 sugar\N{ZERO WIDTH SPACE}\N{TAG LATIN SMALL LETTER A}.")
def test_control_and_format_characters_go_and_all_others_stay(text: str) -> None:
    texts = [one for one in text if one in "\n\t" or unicodedata.category(one) not in {"Cc", "Cf"}]
    assert clean(text) == "".join(texts)
