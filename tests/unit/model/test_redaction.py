# ruff: noqa: RUF001 - texts in other scripts are meant
"""The removal of a statement from texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.redaction import MARK, PhraseError, Redaction

words = st.text("abcdeäßéñ", min_size=3, max_size=8)


def test_the_sentence_goes_and_its_neighbours_stay() -> None:
    text = "I like tea. My locker code is 4711-B, do not tell. It rains."
    assert Redaction(["locker CODE is 4711 b"]).text(text) == f"I like tea. {MARK} It rains."


def test_a_phrase_is_found_over_the_end_of_a_line_and_through_markup() -> None:
    text = "The **locker\ncode** is 4711.\nOther."
    assert "4711" not in Redaction(["locker code is 4711"]).text(text)


def test_a_part_of_a_longer_word_is_none() -> None:
    assert Redaction(["tea"]).text("A team. A teapot.") == "A team. A teapot."


def test_a_phrase_in_a_script_without_spaces_is_found_within_a_run() -> None:
    assert Redaction(["暗証番号"]).text("私の暗証番号は1234です。雨。") == f"{MARK}雨。"


def test_letters_with_accents_are_found_however_they_are_encoded() -> None:
    assert Redaction(["café noir"]).text("The cafe\u0301 noir.") == MARK


def test_a_text_without_any_end_loses_what_is_near() -> None:
    text = f"{'a ' * 5000}hunter2{' b' * 5000}"
    left = Redaction(["hunter2"]).text(text)
    assert "hunter2" not in left
    assert len(left) > 17_900
    assert f" {MARK} " in Redaction(["hunter2"]).document(text)  # halves are not joined


def test_an_empty_bullet_does_not_stay_in_a_document() -> None:
    text = "# Notes\n\n- I like tea.\n- My code is 4711.\n- [ ] Rain. My code is blue. Snow.\n"
    left = Redaction(["code is 4711", "code is blue"]).document(text)
    assert left == "# Notes\n\n- I like tea.\n- [ ] Rain. Snow.\n"


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("dentist", "The dentist is Dr. Maro in Mill Road."),
        ("Maro", "Saw Dr. Maro at St. Anne hospital in room 12 e.g. the depression ward."),
        ("diagnosis", "The diagnosis at St. Anne hospital is grave."),
        ("depression", "Seen at St. Anne hospital, e.g. the depression ward."),
        ("proposal", "Bought at J. Hansen for the proposal on 3. May this year."),
        ("Hansen", "The lawyer is J. R. Hansen, Main St. No. 5, U.S. citizen."),
        (
            "Termin",
            "Der Termin ist z. B. bei Prof. Dr. med. Maro, Mühlstr. 5, Nr. 7 am 3. Mai vorgesehen.",
        ),
        ("Praxis", "Die Praxis liegt z.B. Ecke Hauptstr. Maro hat dort ggf. Termine."),
        ("cabinet", "Le cabinet de Mme. Maro et M. Bron est au 3. étage, av. Foch."),
        ("cabinet", "Le cabinet de Mme Maro, tél. 55 ouvert."),
        ("vive", "La Sra. Maro vive en la Avda. Mayor, pág. 3, con el Sr. Gil Robles."),
        ("studio", "Lo studio del Dott. Maro e della Sig.ra Neri, v.le Roma."),
        ("praktijk", "De praktijk van dhr. Maro en mevr. Bos, o.a. voor bijv. Janssen."),
        ("gabinet", "To gabinet lek. Maro, ul. Długa, tel. Nowy."),
        ("врач", "Врач живёт на ул. Ленина, д. 5, т.е. рядом с пр. Мира, им. Попова."),
        ("κλινική", "Η κλινική του κ. Μάρου, οδ. Ερμού."),
        ("secret", "My secret is\tof Henry VIII. of England, i.e. old."),
        ("dentist", "The dentist. is maro? yes! he is… or was he!"),
        ("maro", "See www.maro.de and info@praxis.maro.de now."),
    ],
)
def test_no_abbreviation_initial_or_number_ends_a_statement(phrase: str, text: str) -> None:
    assert Redaction([phrase]).text(f"I like it. {text} That pleases.") == (
        f"I like it. {MARK} That pleases."
    )
    assert Redaction([phrase]).document(f"# Health\n\n- {text}\n- Tea.\n") == (
        "# Health\n\n- Tea.\n"
    )


def test_a_line_that_is_broken_after_an_abbreviation_goes_on_in_the_next() -> None:
    text = "Rain.\n- The dentist is Dr.\n  Maro in Mill Road.\n- He has 12.\n- Snow.\n"
    left = Redaction(["dentist"]).document(text)
    assert left == "Rain.\n- He has 12.\n- Snow.\n"
    assert Redaction(["dentist"]).text("Dentist at no. 12.\n\nTea.") == f"{MARK}\n\nTea."


def test_neighbours_that_end_beyond_doubt_stay_as_they_are() -> None:
    text = 'Rain falls. "The secret is old." Who asked? (Nobody did.) Snow!'
    assert Redaction(["secret"]).document(text) == "Rain falls. Who asked? (Nobody did.) Snow!"
    assert Redaction(["rain falls"]).document(text) == text.removeprefix("Rain falls. ")
    assert Redaction(["snow"]).document(text) == text.removesuffix(" Snow!")


def test_names_and_bytes_in_json_stay_and_a_changed_thought_goes() -> None:
    value = {
        "role": "assistant",
        "sessionKey": "agent:main:hunter2",
        "content": [
            {"type": "thinking", "thinking": "It is hunter2.", "thinkingSignature": "x"},
            {"type": "text", "text": "It is hunter2.", "textSignature": "y"},
            {"type": "toolCall", "id": "c1", "arguments": {"a": ["hunter2", None, 3]}},
        ],
    }
    assert Redaction(["hunter2"]).value(value) == {
        "role": "assistant",
        "sessionKey": "agent:main:hunter2",
        "content": [
            {"type": "text", "text": MARK},
            {"type": "toolCall", "id": "c1", "arguments": {"a": [MARK, None, 3]}},
        ],
    }


def test_json_without_the_phrase_is_the_same_object() -> None:
    value = {"content": ({"type": "text", "text": "tea"},), "n": 1}
    assert Redaction(["hunter2"]).value(value) is value


@pytest.mark.parametrize("phrases", [[], ["a"], ["- ."], ["x" * 1001], ["abc"] * 0, ["é."]])
def test_a_phrase_that_occurs_nearly_everywhere_is_refused(phrases: list[str]) -> None:
    with pytest.raises(PhraseError, match=r"phrase|short"):
        Redaction(phrases)


@given(st.lists(words, min_size=1, max_size=4), st.text(max_size=300), st.text(max_size=300))
def test_nothing_of_it_is_left_and_looking_first_is_never_wrong(
    phrase: list[str], before: str, after: str
) -> None:
    redaction = Redaction([" ".join(phrase)])
    text = f"{before} {', '.join(phrase)} {after}"
    assert redaction.may_be_in(text)
    assert redaction.holds(text)
    assert not redaction.holds(redaction.text(text))
    assert not redaction.holds(redaction.document(text))
    assert redaction.text(redaction.text(text)) == redaction.text(text)
