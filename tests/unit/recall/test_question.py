"""A question says more than its words."""

import pytest

from skerry_recall.question import read
from skerry_recall.terms import Words

WORDS = Words()


def test_the_terms_are_the_stems_of_its_telling_words() -> None:
    assert read("What did Ada paint?", WORDS).terms == {"ada": 1.0, "paint": 1.0}


def test_its_words_are_kept_in_lower_case() -> None:
    assert read("What did Ada paint?", WORDS).words == {"what", "did", "ada", "paint"}


@pytest.mark.parametrize(
    "question", ["When did we meet?", "How long was it?", "In which year did she move?"]
)
def test_it_asks_for_a_time(question: str) -> None:
    assert read(question, WORDS).when
    assert not read("What did Ada paint?", WORDS).when
