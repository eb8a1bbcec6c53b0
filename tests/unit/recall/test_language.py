"""In which language a text seems to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry_recall.language import LANGUAGE_WORDS, guess


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wie heißt der Hund von meiner Schwester?", "german"),
        ("¿Cómo se llama el perro de mi hermana?", "spanish"),
        ("Comment est le chien de ma sœur ?", "french"),
        ("Come si chiama il cane della mia amica?", "italian"),
        ("Qual é o nome do cão que não dorme em casa?", "portuguese"),
        ("Hoe heet de hond van mijn zus?", "dutch"),
        ("What is the name of my sister's dog?", ""),
        ("Где моя собака?", ""),
        ("我的狗叫什么名字", ""),
        ("ERR_CONN_42", ""),
        ("", ""),
    ],
)
def test_its_common_words_tell_the_language(text: str, language: str) -> None:
    assert guess(text) == language


@given(st.text(max_size=400))
def test_any_text_gets_a_language_that_is_known(text: str) -> None:
    assert guess(text) in LANGUAGE_WORDS
