"""Texts of an answer for tools and people, within the limits (pure).

Source: seed 003, "Result Format and Clamping"; openclaw-behaviour 10.8.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from skerry.config.memory import Citations
from skerry.config.memory_qmd import QmdLimits
from skerry.features.memory.citations import citation, cited
from skerry.infra.clock import day
from skerry.model.memory import MemoryAnswer, MemoryHit, is_unverified
from skerry.model.origin import Origin
from skerry.model.provenance import MARK, clean, origins
from skerry.policy.injection import scan
from skerry_recall.excerpts import Source, excerpts

WIDER: Final = 2
"""Factor of requested to shown passages: adjacent ones are merged, and passages that are still in
the conversation are left out."""


def unmarked(text: str) -> str:
    """Returns the text without the marks of notes, which a model does not need."""
    return MARK.sub("", text)


def is_foreign(path: str, text: str) -> bool:
    """Returns whether a passage is not the owner's text, by its file or by a mark in it."""
    return is_unverified(path) or any(origin is not Origin.OWNER for origin in origins(text))


def gives_orders(text: str) -> bool:
    """Returns whether the text resembles instructions to a model. A hint, not a barrier."""
    return scan(text).flagged


def clamped(
    hits: Iterable[MemoryHit],
    question: str,
    limits: QmdLimits,
    *,
    cites: bool,
    max_results: int | None = None,
) -> list[tuple[MemoryHit, str]]:
    """Returns the hits with their excerpts, including citations, within all limits.

    Adjacent passages are merged to one hit. If a passage does not fit, the excerpt has the lines
    that answer the question, and the hit has their numbers.
    """
    all_hits = list(hits)
    sources = [
        Source(
            hit.path,
            hit.start_line,
            hit.end_line,
            unmarked(clean(hit.text)).rstrip(),
            _overhead(hit) if cites else 0,
        )
        for hit in all_hits
    ]
    chosen = excerpts(
        sources,
        question,
        room=limits.max_injected_chars,
        each=limits.max_snippet_chars,
        limit=min(limits.max_results, max_results or limits.max_results),
    )
    snippets: list[tuple[MemoryHit, str]] = []
    for snippet in chosen:
        hit = replace(
            all_hits[snippet.sources[0]],
            start_line=snippet.start_line,
            end_line=snippet.end_line,
            text="\n".join(all_hits[at].text for at in snippet.sources),
        )
        source = citation(hit.path, hit.start_line, hit.end_line)
        snippets.append((hit, cited(snippet.text, source) if cites else snippet.text))
    return snippets


def reply(
    answer: MemoryAnswer,
    snippets: Sequence[tuple[MemoryHit, str]],
    mode: Citations,
    *,
    cites: bool,
    zone: str | None = None,
) -> dict[str, Any]:
    """Returns the result of `memory_search` with dates in `zone`; None is this machine's zone."""
    fallback = answer.fallback
    answer_json: dict[str, Any] = {
        "results": [_result(hit, snippet, cites=cites, zone=zone) for hit, snippet in snippets],
        "provider": answer.provider,
        "model": answer.model,
        "backend": answer.backend,
        "fallback": {"from": fallback.origin, "reason": fallback.reason} if fallback else None,
        "citations": mode.value,
        "mode": answer.mode.value,
    }
    if answer.notes:
        answer_json["notes"] = list(answer.notes)
    return answer_json


def failed(error: str, action: str) -> dict[str, Any]:
    """Returns the result of `memory_search` after a failure."""
    return {"results": [], "disabled": True, "error": error, "action": action}


def _result(hit: MemoryHit, snippet: str, *, cites: bool, zone: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        "snippet": snippet,
        "source": hit.source.value,
    }
    if hit.at is not None:
        result["date"] = day(hit.at, zone).isoformat()
    if cites:
        result["citation"] = citation(hit.path, hit.start_line, hit.end_line)
    if is_foreign(hit.path, hit.text):
        result["unverified"] = True
    if gives_orders(hit.text):
        result["suspicious"] = True
    return result


def _overhead(hit: MemoryHit) -> int:
    """Returns the maximal length of a citation of lines of the hit."""
    return len(cited("", citation(hit.path, hit.end_line, 10 * hit.end_line + 1)))
