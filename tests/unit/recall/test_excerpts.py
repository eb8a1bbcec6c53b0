"""Excerpts of passages: the lines that answer, within a limit of characters."""

import pytest

from skerry_recall.excerpts import GAP, Excerpt, Source, excerpts

ASKED = "Where is the key of the shed?"
KEY = "The key of the shed is under the third flowerpot."


def source(text: str, start: int = 1, document: str = "a.md") -> Source:
    return Source(document, start, start + text.count("\n"), text)


def shown(*sources: Source, room: int = 4000, each: int = 4000, most: int = 6) -> list[Excerpt]:
    return excerpts(sources, ASKED, room=room, each=each, limit=most)


def test_what_fits_is_shown_as_it_is() -> None:
    text = "# Garden\n\n  - Roses.  \n\n\n- Beans, beans. And more."
    (excerpt,) = shown(source(text, 7))
    assert (excerpt.text, excerpt.start_line, excerpt.end_line) == (text, 7, 12)


def test_lines_that_answer_are_chosen_and_gaps_are_marked() -> None:
    lines = [f"Bed {n} has beans." for n in range(20)]
    lines[9] = KEY
    (excerpt,) = shown(source("\n".join(lines)), room=90)
    assert excerpt.text == f"{GAP}\nBed 8 has beans.\n{KEY}\n{GAP}"
    assert (excerpt.start_line, excerpt.end_line) == (9, 10)


def test_of_a_long_paragraph_the_sentences_that_answer_are_shown() -> None:
    text = "Roses grow here. " * 40 + KEY + " Beans grow there." * 40
    (excerpt,) = shown(source(text), room=200)
    assert KEY in excerpt.text
    assert len(excerpt.text) <= 200


def test_a_text_without_sentences_and_spaces_is_cut() -> None:
    (excerpt,) = shown(source("x" * 5000), room=1200)
    assert 900 <= len(excerpt.text) <= 1200


def test_without_a_shared_word_the_best_passages_are_shown_from_their_beginning() -> None:
    rows = [f"Reihe {n} mit Bohnen." for n in range(10)]
    best, second = source("\n".join(rows), document="b.md"), source("Rosen.")
    found = shown(best, second, room=90)
    assert found[0].text.startswith("Reihe 0 mit Bohnen.\nReihe 1")
    assert found[0].sources == [0]


def test_overlapping_passages_repeat_nothing() -> None:
    lines = [f"Bed {n} has beans." for n in range(12)]
    first, second = source("\n".join(lines[:8])), source("\n".join(lines[6:]), 7)
    (excerpt,) = shown(second, first)
    assert excerpt.text == "\n".join(lines)
    assert excerpt.sources == [0, 1]


def test_passages_of_other_files_or_places_stay_apart() -> None:
    parts = [source("Beans.", line, name) for name in ("a.md", "b.md") for line in (1, 5)]
    assert [excerpt.text for excerpt in shown(*parts)] == ["Beans."] * 4
    assert len(shown(*parts, most=3)) == 3


@pytest.mark.parametrize("room", [0, 10, 100, 500, 1000, 4000])
def test_no_more_characters_are_shown_than_there_are(room: int) -> None:
    text = "\n".join(f"{KEY} It is in bed {n}, and has been for {n} years." for n in range(40))
    parts = [Source(f"{n}.md", 1, 40, text, overhead=30) for n in range(6)]
    found = excerpts(parts, ASKED, room=room, each=700, limit=6)
    assert sum(len(excerpt.text) + 30 for excerpt in found) <= room
    assert all(len(excerpt.text) <= 670 for excerpt in found)


def test_nothing_found_is_nothing_shown() -> None:
    assert shown() == []
    assert shown(source("")) == []


def test_what_the_named_person_says_is_shown_rather_than_what_another_says() -> None:
    lines = ["Bo: I painted the boat red.", "Ada: I painted the boat blue."] * 8
    (excerpt,) = excerpts(
        [source("\n".join(lines))], "What did Ada paint?", room=60, each=60, limit=6
    )
    assert excerpt.text == f"{GAP}\nAda: I painted the boat blue.\n{GAP}"


def test_blank_lines_between_turns_are_no_neighbours() -> None:
    texts = [f"User: It rains {n}." for n in range(11)]
    texts[5] = f"Assistant: {KEY}"
    (excerpt,) = shown(source("\n\n".join(texts)), room=160)
    assert excerpt.text == "\n".join((GAP, "\n\n".join(texts[3:8]), GAP))
    assert (excerpt.start_line, excerpt.end_line) == (7, 15)


def test_what_follows_a_question_is_shown_before_what_precedes_it() -> None:
    asks = "Ada: Where did you put the key of the shed?"
    texts = ["Ada: It rains."] * 5 + ["Bo: Beans again.", asks, "Bo: On the hook."]
    (excerpt,) = shown(source("\n".join([*texts, *texts[:5]])), room=80)
    assert excerpt.text == f"{GAP}\n{asks}\nBo: On the hook.\n{GAP}"


@pytest.mark.parametrize("each", [600, 700, 1500])
@pytest.mark.parametrize("most", [1, 2, 6])
def test_a_long_stretch_that_answers_is_shown_in_several_excerpts(each: int, most: int) -> None:
    lines = [f"{KEY} Year {n}: it is in bed {n}." for n in range(60)]
    parts = [
        Source("a.md", begin + 1, begin + 12, "\n".join(lines[begin : begin + 12]), overhead=20)
        for begin in range(0, 60, 10)
    ]
    found = excerpts(parts, ASKED, room=4000, each=each, limit=most)
    assert len(found) <= most
    assert all(len(excerpt.text) + 20 <= each for excerpt in found)
    texts = [line for excerpt in found for line in excerpt.text.splitlines() if line != GAP]
    assert len(texts) == len(set(texts))
    assert set(texts) <= set(lines)
    assert len(found) > 1 or most == 1 or each == 600
    for one in found:
        seen = [line for line in one.text.splitlines() if line != GAP]
        assert (lines.index(seen[0]), lines.index(seen[-1])) == (
            one.start_line - 1,
            one.end_line - 1,
        )
        assert all(parts[at].start_line <= one.end_line for at in one.sources)
        assert all(parts[at].end_line >= one.start_line for at in one.sources)
