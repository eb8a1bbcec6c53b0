"""Answers a question of an open index. Blocking."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skerry.memory.tables import Row, Tables
from skerry.model.memory import MemoryHit, MemoryQuestion, MemorySource

if TYPE_CHECKING:
    from skerry_recall.collection import Collection


def search(tables: Tables, collection: "Collection", question: MemoryQuestion) -> list[MemoryHit]:
    """Return the passages that answer the question, the best first."""
    import numpy as np  # noqa: PLC0415 - it costs 20 MB, which only a search needs

    from skerry_recall.terms import content  # noqa: PLC0415 - as above

    terms = dict.fromkeys(content(question.text), 1.0)
    documents = None
    if question.sources != frozenset(MemorySource) or question.path or question.session:
        documents = tables.documents(question.sources, question.path, question.session)
    scores = collection.scores(
        terms, documents=documents, since=question.since, until=question.until
    )
    values = scores.text if scores.mask is None else np.where(scores.mask, scores.text, 0)
    best = [int(row) for row in np.argsort(-values, kind="stable")[: question.limit]]
    found = tables.rows(int(scores.id[row]) for row in best)
    top = max((float(values[row]) for row in best), default=0.0)
    return [
        _hit(found[key], float(values[row]) / top, ())
        for row in best
        if values[row] > 0 and (key := int(scores.id[row])) in found
    ]


def _hit(row: Row, score: float, explanation: Sequence[tuple[str, float]]) -> MemoryHit:
    one = row.passage
    return MemoryHit(
        path=row.path,
        start_line=one.start_line,
        end_line=one.end_line,
        score=score,
        text=one.text,
        source=row.source,
        at=one.at,
        explanation=explanation,
    )
