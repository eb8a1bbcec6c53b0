"""What tools and people are shown of an answer, no more than the limits allow (pure).

Source: seed 003, "Result Format and Clamping"; openclaw-behaviour 10.8.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

from skerry.config.memory import Citations
from skerry.config.memory_qmd import QmdLimits
from skerry.memory.citations import citation, cited
from skerry.model.memory import MemoryAnswer, MemoryHit, is_unverified
from skerry.model.noted import MARK, clean, origins
from skerry.model.origin import Origin

LEAST: Final = 20
"""Characters of a passage that are worth showing; with less room left, none follows."""
_ORDERS: Final = re.compile(
    r"ignore\s+(?:all\s+|any\s+)?(?:previous|prior|above|earlier)\s+\w+"
    r"|disregard\s+(?:all\s+|any\s+)?(?:previous|prior|above|the)\b"
    r"|you\s+are\s+now\b|new\s+(?:system\s+)?instructions?\b|system\s+prompt"
    r"|do\s+not\s+(?:tell|inform|mention\s+\w+\s+to)\s+the\s+(?:user|owner)"
    r"|</?\s*(?:system|assistant|user|tool|memory|instructions?)\b",
    re.IGNORECASE,
)
_SCANNED: Final = 20_000
"""Characters that are looked at: the time must not grow with what somebody stores."""


def unmarked(text: str) -> str:
    """Return the text without the comments that say who noted it: a model needs none of them."""
    return MARK.sub("", text)


def is_foreign(path: str, text: str) -> bool:
    """Return whether its file, or a mark in it, says that a passage is not the owner's words."""
    return is_unverified(path) or any(one is not Origin.OWNER for one in origins(text))


def gives_orders(text: str) -> bool:
    """Return whether the text looks as if it wants to steer a model. It is a hint, not a gate."""
    folded = unicodedata.normalize("NFKC", clean(text[:_SCANNED]))
    return _ORDERS.search(folded) is not None


def clamped(
    hits: Iterable[MemoryHit], limits: QmdLimits, *, cites: bool, most: int | None = None
) -> list[tuple[MemoryHit, str]]:
    """Return the hits with what is shown of each, its citation included, within all limits."""
    shown: list[tuple[MemoryHit, str]] = []
    left = limits.max_injected_chars
    for hit in hits:
        place = citation(hit.path, hit.start_line, hit.end_line)
        overhead = len(cited("", place)) if cites else 0
        room = min(limits.max_snippet_chars, left) - overhead
        if room < LEAST or len(shown) >= min(limits.max_results, most or limits.max_results):
            break
        text = _cut(unmarked(clean(hit.text)).strip(), room)
        snippet = cited(text, place) if cites else text
        left -= len(snippet)
        shown.append((hit, snippet))
    return shown


def found(
    answer: MemoryAnswer, shown: Sequence[tuple[MemoryHit, str]], mode: Citations, *, cites: bool
) -> dict[str, Any]:
    """Return the result of `memory_search`."""
    fallback = answer.fallback
    told: dict[str, Any] = {
        "results": [_result(hit, snippet, cites=cites) for hit, snippet in shown],
        "provider": answer.provider,
        "model": answer.model,
        "backend": answer.backend,
        "fallback": {"from": fallback.origin, "reason": fallback.reason} if fallback else None,
        "citations": mode.value,
        "mode": answer.mode.value,
    }
    if answer.notes:
        told["notes"] = list(answer.notes)
    return told


def failed(error: str, action: str) -> dict[str, Any]:
    """Return the result of `memory_search` where it cannot answer."""
    return {"results": [], "disabled": True, "error": error, "action": action}


def _result(hit: MemoryHit, snippet: str, *, cites: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        "snippet": snippet,
        "source": hit.source.value,
    }
    if cites:
        result["citation"] = citation(hit.path, hit.start_line, hit.end_line)
    if is_foreign(hit.path, hit.text):
        result["unverified"] = True
    if gives_orders(hit.text):
        result["suspicious"] = True
    return result


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"
