"""A collection of passages finds the same after any changes and failures."""

import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry_recall import segments, snapshot
from skerry_recall.arrays import Array, DamagedError
from skerry_recall.collection import Collection
from skerry_recall.numbers import Floats
from skerry_recall.passage import Passage
from skerry_recall.postings import add
from skerry_recall.scores import Scores
from skerry_recall.snapshot import NEAR_SHARE
from skerry_recall.terms import Words, terms
from tests.support.shown import examples

WORDS = ["fox", "bird", "red", "blue", "error_42", "Zürich"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
CHANGES = st.lists(st.tuples(st.integers(1, 9), st.one_of(st.none(), TEXTS)), max_size=14)
BATCHES = st.lists(CHANGES, max_size=4)
ASKED = {"fox": 1.0, "42": 0.5, "error_42": 1.0, "zurich": 2.0, "absent": 1.0}


def test_words_find_the_passage_that_has_them(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "A red fox", "A blue bird", "x")
    scores = collection.scores({"fox": 1.0})
    assert scores.id[np.argmax(scores.text)] == 1
    assert np.count_nonzero(scores.text) == 1


@pytest.mark.requirement("search-text-engine")
@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("What did the lighthouse keeper say?", 1),
        ("Who is Ada Lovelace?", 2),
        ("how do I drain a kubelet", 3),
        ("ERR_CONN_42", 4),
        ("conn", 4),
    ],
)
def test_a_keyword_a_name_a_term_and_an_identifier_are_ranked_by_bm25(
    tmp_path: Path, question: str, best: int
) -> None:
    texts = (
        "The keeper of the lighthouses said nothing.",
        "Ada Lovelace wrote a program.",
        "Drain the kubelet before the kubelet restarts.",
        "It failed with ERR_CONN_42 and was restarted.",
        "Ada: err 42 times, then ask the keeper to say so; a drain is a drain.",
    )
    scores = _filled(tmp_path, *texts).scores(dict.fromkeys(Words().content(question), 1.0))
    rows = [_passage(number, texts[number - 1]) for number in scores.id.tolist()]
    assert scores.text == pytest.approx(_naive(rows, dict.fromkeys(Words().content(question), 1.0)))
    assert scores.id[np.argmax(scores.text)] == best


def test_an_empty_collection_finds_nothing(tmp_path: Path) -> None:
    scores = Collection(tmp_path / "new").scores({"fox": 1.0}, np.ones(3, np.float32))
    assert (len(scores), scores.vector, scores.mask) == (0, None, None)


def test_rows_are_ordered_by_document_and_place(tmp_path: Path) -> None:
    collection = Collection(tmp_path)
    for number, document, position in ((1, 2, 1), (2, 1, 0), (3, 2, 0), (4, 1, 1)):
        collection.refresh(added=[Passage(number, document, position, "fox")])
    assert collection.scores({}).id.tolist() == [2, 4, 3, 1]


@settings(max_examples=examples(60), deadline=None)
@given(BATCHES, st.sampled_from([1, 3, 2000]))
def test_scores_are_those_of_a_collection_made_at_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, str | None]]], few: int
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    held: dict[int, Passage] = {}
    vectors: dict[int, Floats] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "RECENT", few)
        for batch in batches:
            last = dict(batch)
            added = [_passage(one, text) for one, text in last.items() if text is not None]
            removed = [one for one, text in last.items() if text is None]
            new = {passage.id: _vector(passage.id) for passage in added if passage.id % 2}
            collection = Collection(folder)
            collection.refresh(added=added, removed=removed, vectors=new, model="m")
            for one in removed:
                held.pop(one, None)
                vectors.pop(one, None)
            held |= {passage.id: passage for passage in added}
            vectors |= new
            if len(batch) % 4 == 3:
                collection.compact()
    grown = Collection(folder)
    question = _vector(5)
    scores = grown.scores(ASKED, question)
    rows = sorted(held.values(), key=lambda passage: (passage.document, passage.position))
    assert scores.id.tolist() == [row.id for row in rows]
    assert scores.text == pytest.approx(_naive(rows, ASKED), rel=1e-5)
    assert grown.embedded() == vectors.keys()
    if vectors:
        cosines = {one: float(vector @ question) for one, vector in vectors.items()}
        expected = [
            cosines.get(passage.id, at)
            for passage, at in zip(rows, _as_words(scores, cosines), strict=True)
        ]
        assert scores.vector == pytest.approx(expected, abs=1e-6)
    else:
        assert scores.vector is None


def _as_words(scores: Scores, cosines: dict[int, float]) -> Floats:
    """Returns the cosine of each passage without a vector: as near as its words are good."""
    mean, best = np.mean(list(cosines.values())), max(cosines.values())
    enough = max(float(scores.text.max()), NEAR_SHARE * scores.possible, 1e-6)
    return np.asarray(mean + (best - mean) * scores.text / enough, np.float32)


def test_searches_are_limited_to_documents_and_dates(tmp_path: Path) -> None:
    collection = Collection(tmp_path)
    collection.refresh(added=[Passage(one, one, 0, "fox", at=one * 10) for one in (1, 2, 3)])
    collection.refresh(added=[Passage(4, 4, 0, "fox")])

    def found(documents: Sequence[int] | None, since: int | None, until: int | None) -> list[int]:
        scores = collection.scores({"fox": 1.0}, documents=documents, since=since, until=until)
        assert scores.mask is not None
        return [int(one) for one in scores.id[scores.mask]]

    assert found([2, 4, 77, -1], None, None) == [2, 4]
    assert found(None, 20, None) == [2, 3]
    assert found(None, None, 20) == [1]
    assert found([1, 2, 3, 4], 20, 30) == [2]


def test_vectors_are_made_as_long_as_one(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "a", "b")
    collection.refresh(vectors={1: np.array([3, 4], np.float32)})
    scores = collection.scores({}, np.array([1, 0], np.float32))
    assert scores.vector == pytest.approx([0.6, 0.6])


def test_vectors_of_another_model_replace_the_old(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "a", "b")
    collection.refresh(
        vectors={1: np.ones(2, np.float32), 2: np.ones(2, np.float32)}, model="small"
    )
    collection.refresh(vectors={2: np.ones(3, np.float32)}, model="large")
    assert collection.embedded() == {2}
    assert Collection(tmp_path).model == "large"


def test_vectors_of_passages_that_are_not_held_are_left_out(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "a")
    collection.refresh(vectors={1: np.ones(2, np.float32), 7: np.ones(2, np.float32)})
    assert collection.embedded() == {1}


@pytest.mark.parametrize(
    "vector",
    [
        np.ones(3, np.float32),
        np.zeros(2, np.float32),
        np.array([np.nan, 1], np.float32),
        np.array([np.inf, 1], np.float32),
    ],
)
def test_a_wrong_vector_is_refused_and_changes_nothing(tmp_path: Path, vector: Floats) -> None:
    collection = _filled(tmp_path, "a", "b")
    collection.refresh(vectors={1: np.ones(2, np.float32)})
    with pytest.raises(ValueError, match="vector"):
        collection.refresh(removed=[2], vectors={1: vector})
    assert collection.ids() == {1, 2}


def test_a_question_of_another_size_is_refused(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "a")
    collection.refresh(vectors={1: np.ones(2, np.float32)})
    with pytest.raises(ValueError, match="3 dimensions; those of the collection have 2"):
        collection.scores({}, np.ones(3, np.float32))


def test_a_passage_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same id"):
        Collection(tmp_path).refresh(added=[_passage(1, "a"), _passage(1, "b")])


def test_nothing_of_a_removed_passage_is_left_after_compacting(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "harmless", "secretword")
    collection.compact()
    collection.refresh(removed=[2])
    collection.compact()
    assert not any(b"secretword" in path.read_bytes() for path in tmp_path.iterdir())
    assert any(b"harmless" in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["missing", "short", "torn", "manifest", "format"])
def test_a_damaged_collection_is_empty_and_can_be_filled_again(tmp_path: Path, damage: str) -> None:
    _filled(tmp_path, "A red fox").compact()
    file = next(tmp_path.glob("words-*"))
    manifest = tmp_path / "collection.json"
    match damage:
        case "missing":
            file.unlink()
        case "short":
            file.write_bytes(file.read_bytes()[:-1])
        case "torn":
            file.write_bytes(bytes(file.stat().st_size))
        case "manifest":
            manifest.write_bytes(b'{"for')
        case "format":
            manifest.write_bytes(b'{"format": 0}')
    assert Collection(tmp_path).ids() == frozenset()
    assert len(_filled(tmp_path, "A red fox").scores({"fox": 1.0})) == 1
    assert Collection(tmp_path).ids() == {1}


def test_a_file_that_breaks_while_it_is_open_empties_the_collection(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "fox", "fox")
    collection.compact()
    file = next(tmp_path.glob("words-*"))
    whole = file.read_bytes()
    broken = Collection(tmp_path)
    assert len(broken.scores({"fox": 1.0})) == 2
    with file.open("r+b") as opened:
        opened.seek(len(whole) - 128)
        opened.write(b"\x7f" * 128)
    with pytest.raises(DamagedError):
        broken.scores({"fox": 1.0})
    assert broken.ids() == frozenset()
    assert Collection(tmp_path).ids() == frozenset(), "its bytes are looked at when it is opened"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with words and vectors, made once: each file of it waits for the disk."""
    folder = tmp_path_factory.mktemp("sound")
    collection = _filled(folder, "red fox", "fox", "error_42 blue", "fox bird")
    collection.refresh(vectors={one: _vector(one) for one in (1, 2, 3)})
    collection.compact()
    return folder


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=64), st.sampled_from(["words", "vec"]))
@settings(max_examples=examples(150), deadline=None)
def test_damage_anywhere_finds_less_or_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, sound: Path, place: int, damage: bytes, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    copytree(sound, folder, dirs_exist_ok=True)
    file = next(folder.glob(f"{kind}*"))
    data = bytearray(file.read_bytes())
    place %= len(data)
    data[place : place + len(damage)] = damage[: len(data) - place]
    file.write_bytes(data)
    opened = Collection(folder)
    with suppress(DamagedError), np.errstate(all="ignore"):
        scores, whole = (
            opened.scores(ASKED, _vector(5)),
            Collection(sound).scores(ASKED, _vector(5)),
        )
        assert not len(scores) or np.array_equal(scores.text, whole.text), "words are as they were"
    opened.refresh(removed=opened.ids())
    assert opened.ids() == frozenset()


def test_a_full_disk_leaves_the_collection_as_it_was(tmp_path: Path) -> None:
    collection = _filled(tmp_path, "fox")
    tmp_path.chmod(0o500)
    before = sorted(tmp_path.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", _full)
        with pytest.raises(OSError, match="No space"):
            collection.refresh(added=[_passage(2, "bird")])
    tmp_path.chmod(0o700)
    assert collection.ids() == {1}
    assert sorted(tmp_path.iterdir()) == before
    assert Collection(tmp_path).ids() == {1}


def test_searchers_see_a_change_whole_or_not_at_all(tmp_path: Path) -> None:
    collection = Collection(tmp_path)
    collection.refresh(added=[_passage(number, "old fox") for number in range(1, 51)])
    stop, wrong = threading.Event(), list[tuple[int, int]]()

    def search() -> None:
        while not stop.is_set():
            scores = collection.scores({"old": 1.0, "new": 1.0})
            if len(scores) != 50 or np.count_nonzero(scores.text) != 50:
                wrong.append((len(scores), int(np.count_nonzero(scores.text))))

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for change in range(12):
        first = 1 + change * 50
        text = "new fox" if change % 2 else "old fox"
        added = [_passage(number, text) for number in range(first + 50, first + 100)]
        collection.refresh(added=added, removed=range(first, first + 50))
        if change % 5 == 0:
            collection.compact()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def _full(_: int) -> None:
    raise OSError(28, "No space left on device")


def _filled(folder: Path, *texts: str) -> Collection:
    collection = Collection(folder)
    collection.refresh(added=[_passage(number, text) for number, text in enumerate(texts, 1)])
    return collection


def _passage(number: int, text: str) -> Passage:
    return Passage(number, number % 3, number, text)


def _vector(number: int) -> Floats:
    vector = np.random.default_rng(number).standard_normal(8)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _naive(rows: Sequence[Passage], params: Mapping[str, float]) -> list[float]:
    """Returns BM25 (k1 1.2, b 0.3) as its formula says."""
    counts = [Counter(terms(row.text)) for row in rows]
    mean = max(1.0, sum(count.total() for count in counts) / max(1, len(rows)))
    found: list[float] = []
    for counter in counts:
        score = 0.0
        for term, weight in params.items():
            having = sum(term in other for other in counts)
            idf = math.log(1 + (len(rows) - having + 0.5) / (having + 0.5))
            norm = 1.2 * (1 - 0.3 + 0.3 * counter.total() / mean)
            score += weight * idf * counter[term] * 2.2 / (counter[term] + norm)
        found.append(score)
    return found


@pytest.mark.parametrize("kept", [50, 200, 400])
def test_a_search_looks_at_no_more_places_the_more_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    looked: list[int] = []

    def counted(into: Floats, norm: Floats, found: tuple[Array, Array], weight: float) -> None:
        looked.append(len(found[0]))
        add(into, norm, found, weight)

    monkeypatch.setattr(snapshot, "add", counted)
    monkeypatch.setattr(snapshot, "MAX_POSTINGS", 120)
    often = [f"often{number}" for number in range(10)]
    texts = [" ".join(often) for _ in range(kept)]
    texts[7] += " heron"
    scores = _filled(tmp_path, *texts).scores(dict.fromkeys([*often, "heron"], 1.0))
    assert sum(looked) <= 120
    assert scores.id[np.argmax(scores.text)] == 8
    # What was left out for being common keeps no passage from having all that was looked for.
    assert scores.text.max() >= 0.5 * scores.possible


def test_of_a_long_question_the_rarest_words_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_TERMS", 3)
    texts = ["a b c d e"] * 5 + ["a b c d e rare1 rare2"]
    asked = [*"abcde", "rare1", "rare2"]
    scores = _filled(tmp_path, *texts).scores(dict.fromkeys(asked, 1.0))
    few = _filled(tmp_path / "few", *texts).scores(dict.fromkeys(["rare1", "rare2", "a"], 1.0))
    assert scores.text == pytest.approx(few.text)
    assert scores.possible == pytest.approx(few.possible)
