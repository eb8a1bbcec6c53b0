"""Removing the directives of a message removes no other text."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.commands.directives import directives, remove_directives, sole_directives

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="/`>~"), min_size=1, max_size=8)
GIVEN = st.sampled_from(
    ["/think high", "/t: low", "/verbose full", "/reasoning on", "/queue steer cap:3", "/v:off"]
)


def nothing(_: str) -> bool:
    return False


@given(st.text(st.characters(codec="utf-8", exclude_characters="/")))
def test_a_text_without_a_slash_has_none(text: str) -> None:
    assert directives(text, nothing) == []
    assert sole_directives(text) == []


@given(st.text(st.sampled_from("/think high`~\n>: veros queue-")))
def test_whatever_is_taken_out_was_a_directive(text: str) -> None:
    found = directives(text, nothing)
    kept = "".join(
        text[end:begin]
        for end, begin in zip(
            [0, *(directive.end for directive in found)],
            [*(directive.begin for directive in found), len(text)],
            strict=True,
        )
    )
    assert remove_directives(text, found).split() == kept.split() or found
    assert "".join(remove_directives(text, found).split()) == "".join(kept.split())
    if not found:
        assert remove_directives(text, found) == text


@given(st.lists(st.tuples(st.booleans(), WORDS, GIVEN), max_size=8))
def test_only_the_directives_vanish(parts: list[tuple[bool, str, str]]) -> None:
    text = " ".join(one if is_given else word for is_given, word, one in parts)
    words = " ".join(word for is_given, word, _ in parts if not is_given)
    assert remove_directives(text, directives(text, nothing)).split() == words.split()
