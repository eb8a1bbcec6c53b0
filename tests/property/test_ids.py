"""Session keys: printing and parsing again gives the same key, whatever the text."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.errors import InvalidSessionKeyError
from skerry.model.ids import SessionKey, agent_id

anything = st.text(max_size=80) | st.lists(
    st.sampled_from(
        ["agent", "main", "dm", "direct", "group", "\uff24\uff2d", "İ", "ß", "ﬀ", "x y", ""]
    )
    | st.text(max_size=6),
    max_size=8,
).map(":".join)


@given(anything)
def test_printing_and_parsing_again_gives_the_same_key(text: str) -> None:
    try:
        key = SessionKey.parse(text)
    except InvalidSessionKeyError:
        return
    assert SessionKey.parse(str(key)) == key
    assert key.scope
    assert all(key.scope)


@given(anything)
def test_case_and_alias_never_make_a_second_key(text: str) -> None:
    try:
        key = SessionKey.parse(text)
    except InvalidSessionKeyError:
        return
    assert SessionKey.parse(text.casefold()) == key
    assert SessionKey.parse(f"  {text} ") == key


@given(st.text(max_size=100))
def test_an_agent_id_is_made_once(text: str) -> None:
    once = agent_id(text)
    assert agent_id(once) == once
    assert SessionKey.parse(f"agent:{once}:main").agent == once
