"""Answers a question from an open index. Blocking."""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skerry.features.memory.index_tables import Row, Tables
from skerry.infra.clock import named as zone_of
from skerry.model.memory import MemoryHit, MemoryQuestion, MemorySource
from skerry_recall.fuse import PROFILES, Decay, RankOptions, rank
from skerry_recall.models import SCALES
from skerry_recall.numbers import Floats, Longs, np
from skerry_recall.question import phrases, read
from skerry_recall.terms import shared

if TYPE_CHECKING:  # numpy takes 20 MB, which only a search needs
    from skerry_recall.collection import Collection
    from skerry_recall.fuse import Profile, Ranked
    from skerry_recall.scores import Scores

QUOTED: Final = 200
"""Limit on the passages with a phrase that get the top rank."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """Weights of words and vectors, as configured."""

    profile: str = "best"
    mmr: float | None = None
    """Lambda of maximal marginal relevance; None disables it."""
    half_life: float | None = None
    """Days in which the score of a dated passage halves; None ignores dates."""
    floor: float = 0.0
    """Share of a score that does not decay with age."""
    weights: tuple[float, float] | None = None
    """Weights of vectors and words, in place of the profile's."""
    candidates: int | None = None
    """Number of candidates per hit, in place of the profile's, if the profile has a limit."""

    def profile_of(self, question: MemoryQuestion) -> "Profile":
        """Returns the profile for a question; one that the question names is used unchanged."""
        if question.profile is not None and question.profile in PROFILES:
            return PROFILES[question.profile]
        profile = PROFILES[self.profile]
        if self.weights is not None:
            vector, text = self.weights
            profile = replace(profile, vector_weight=vector, text_weight=text)
        if self.candidates is not None and profile.candidates is not None:
            profile = replace(profile, candidates=self.candidates)
        return profile


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of a query that are not part of the index."""

    weighing: Weighing
    now: int
    """Time in milliseconds since 1970."""
    recall: Callable[[object, Callable[[], Longs]], Longs]
    """Returns the cached value for the key and the present tables, or computes it."""
    zone: str | None = None
    """Zone in which days begin, an IANA name; None is the zone of this machine."""


def search(
    tables: Tables,
    collection: "Collection",
    question: MemoryQuestion,
    vector: Floats | None,
    settings: SearchSettings,
) -> list[MemoryHit]:
    """Returns the passages that answer the question, the best first."""
    weighing, now = settings.weighing, settings.now
    parsed = read(question.text, shared(), now, zone_of(settings.zone))
    scores = collection.scores(
        parsed.terms,
        vector,
        documents=_documents(tables, question, settings),
        since=question.since,
        until=question.until,
    )
    scores = _mask_known(scores, tables, question, settings)
    scores, quoted = _lifted(scores, tables, phrases(question.text))

    def texts(rows: Sequence[int]) -> list[str]:
        keys = scores.id[rows].tolist()
        texts_by_id = tables.texts(keys)
        return [texts_by_id.get(key, "") for key in keys]

    half_life = weighing.half_life
    options = RankOptions(
        min_score=question.min_score or 0.0,
        decay=None if half_life is None else Decay(now, half_life, weighing.floor),
        mmr=weighing.mmr,
        question=parsed,
        texts=texts,
        scale=SCALES.get(collection.model.partition("@")[0]),  # without the size
        explain=question.explain,
    )
    ranked = rank(scores, weighing.profile_of(question), question.limit, options)
    if not any(hit.score >= question.sufficient_score for hit in ranked):
        return []
    keys = [int(scores.id[hit.row]) for hit in ranked]
    rows = tables.rows(keys)
    return [
        _hit(rows[key], hit, quoted if question.explain else None)
        for key, hit in zip(keys, ranked, strict=True)
        if key in rows and hit.score > 0
    ]


def _documents(tables: Tables, question: MemoryQuestion, settings: SearchSettings) -> Longs | None:
    """Returns the files to search for the question; None if all are searched."""
    opened = None
    if question.opens is not None:
        every = tables.sessions()
        opened = [key for key in every if question.opens(key)]
        opened = None if len(opened) == len(every) else opened
    narrow = question.path or question.session or opened is not None
    if question.sources == frozenset(MemorySource) and not narrow:
        return None

    def make() -> Longs:
        return np.fromiter(
            tables.documents(question.sources, question.path, question.session, opened), np.int64
        )

    key = (question.sources, question.path, question.session, opened and tuple(opened))
    return settings.recall(key, make)


def _mask_known(
    scores: "Scores", tables: Tables, question: MemoryQuestion, settings: SearchSettings
) -> "Scores":
    """Returns the scores with a mask for messages that are in the model's context."""
    if question.context_messages is None:
        return scores
    key, since = question.context_messages.key, question.context_messages.since
    only = frozenset({MemorySource.SESSIONS})
    own_documents = settings.recall(
        (only, None, key, None),
        lambda: np.fromiter(tables.documents(only, None, key, None), np.int64),
    )
    if not len(own_documents):
        return scores
    mask = ~(np.isin(scores.document, own_documents) & (scores.at >= since))
    return replace(scores, mask=mask if scores.mask is None else mask & scores.mask)


def _lifted(
    scores: "Scores", tables: Tables, phrases: Sequence[str]
) -> tuple["Scores", AbstractSet[int]]:
    """Returns the scores with passages that contain a phrase on top, and those passages."""
    quoted = {key for phrase in phrases for key in tables.matching(_phrase(phrase), QUOTED)}
    if not quoted:
        return scores, quoted
    has = np.isin(scores.id, list(quoted))
    text = np.where(has, scores.text + max(1.0, float(scores.text.max())), scores.text)
    return replace(scores, text=text.astype(np.float32)), quoted


def _phrase(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _hit(row: Row, ranked: "Ranked", quoted: AbstractSet[int] | None) -> MemoryHit:
    """Returns the hit; with `quoted`, the passages that contain a phrase, it has an explanation."""
    passage = row.passage
    parts: Sequence[tuple[str, float]] = ()
    if quoted is not None:
        parts = ((("phrase", 1.0),) if passage.id in quoted else ()) + tuple(ranked.explanation)
    return MemoryHit(
        path=row.path,
        start_line=passage.start_line,
        end_line=passage.end_line,
        score=ranked.score,
        text=passage.text,
        source=row.source,
        at=passage.at,
        session=row.session,
        explanation=parts,
    )


def by_words(tables: Tables, question: MemoryQuestion) -> list[MemoryHit]:
    """Searches the tables only, when there is no search collection, as on a full disk.

    The score is `1 / (1 + rank)`, the best having rank 0 (decisions 6, BM25).
    """
    expression = " OR ".join(_phrase(word) for word in re.findall(r"\w+", question.text)[:24])
    keys = tables.matching(expression, QUOTED) if expression else []
    by_key: Mapping[int, Row] = tables.rows(keys)
    rows = [by_key[key] for key in keys if _fits(by_key[key], question)][: question.limit]
    return [
        MemoryHit(
            row.path,
            row.passage.start_line,
            row.passage.end_line,
            1 / (1 + number),
            row.passage.text,
            row.source,
            row.passage.at,
            row.session,
        )
        for number, row in enumerate(rows)
    ]


def _fits(row: Row, question: MemoryQuestion) -> bool:
    at, path = row.passage.at, question.path
    opens, known_messages = question.opens, question.context_messages
    return (
        row.source in question.sources
        and (row.source is MemorySource.MEMORY or opens is None or opens(row.session or ""))
        and (path is None or row.path == path or (path.endswith("/") and row.path.startswith(path)))
        and (question.session is None or row.session == question.session)
        and (question.since is None or (at is not None and at >= question.since))
        and (question.until is None or (at is not None and at < question.until))
        and (
            known_messages is None
            or row.session != known_messages.key
            or at is None
            or at < known_messages.since
        )
    )
