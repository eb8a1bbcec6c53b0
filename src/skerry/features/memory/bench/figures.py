"""Figures of a ranking: recall, nDCG, MRR, hits, characters of the answer (pure)."""

import math
from collections.abc import Sequence

from skerry.features.memory.bench.sets import BenchQuery, BenchScope


def units(rows: Sequence[int], scope: BenchScope) -> list[str]:
    """Returns the units of the passages, each at the rank of its best passage."""
    return list(dict.fromkeys(scope.units[row] for row in rows))


def figure(name: str, rows: Sequence[int], query: BenchQuery, scope: BenchScope) -> float:
    """Returns one figure of one ranking, 0 to 1.

    `recall@k`: share of the relevant units among the first k; for queries with spans, share of the
    relevant characters among the first k returned. `hit@k`: 1 if a relevant unit is among the
    first k. `ndcg@k`: the usual formula, each unit worth 1. `mrr`: reciprocal rank of the first
    relevant unit.
    """
    measure, _, cut = name.partition("@")
    if query.spans:
        return _characters(rows, query, scope, int(cut))
    ranked = units(rows, scope)
    first = ranked[: int(cut)] if cut else ranked
    gains = [unit in query.gold for unit in first]
    match measure:
        case "recall":
            return sum(gains) / len(query.gold)
        case "hit":
            return float(any(gains))
        case "ndcg":
            ideal = sum(_discount(at) for at in range(min(len(query.gold), int(cut))))
            return sum(_discount(at) for at, gain in enumerate(gains) if gain) / ideal
        case "mrr":
            return next((1 / at for at, gain in enumerate(gains, 1) if gain), 0.0)
        case _:
            raise ValueError(name)


def _discount(at: int) -> float:
    return 1 / math.log2(at + 2)


def _characters(rows: Sequence[int], query: BenchQuery, scope: BenchScope, budget: int) -> float:
    """Returns the share of the relevant characters among the first `budget` returned."""
    missing: dict[str, set[int]] = {}
    for unit, start, end in query.spans:
        missing.setdefault(unit, set()).update(range(start, end))
    total = sum(len(span) for span in missing.values())
    for row in rows:
        if budget <= 0:
            break
        start, end = scope.offsets[row]
        end = min(end, start + budget)
        budget -= end - start
        if scope.units[row] in missing:
            missing[scope.units[row]] -= set(range(start, end))
    return 1 - sum(len(span) for span in missing.values()) / total
