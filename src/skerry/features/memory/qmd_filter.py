"""Filters QMD's hits by the limits of the question, which QMD does not support (pure)."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from skerry.model.memory import MemoryHit, MemoryQuestion, MemorySource

_DATED: Final = re.compile(r"(\d{4}-\d{2}-\d{2})\.md$")
_WIDER: Final = 5
"""Factor of requested hits if some are filtered out afterwards."""
_MAX_HITS: Final = 200


def wide(question: MemoryQuestion, limit: int) -> int:
    """Returns the number of hits to request so that about `limit` pass the filter."""
    filters = (question.path, question.session, question.since, question.until)
    narrow = any(filters) or question.opens or question.context_messages
    return min(_MAX_HITS, limit * _WIDER) if narrow else limit


def fits(question: MemoryQuestion, hit: MemoryHit, *, scored: bool) -> bool:
    """Returns whether the hit is within the limits of the question.

    `scored` is True when scores compare meaning; word scores are not comparable with a limit.
    """
    if scored and hit.score < max(question.min_score or 0.0, question.sufficient_score):
        return False
    if question.session is not None and question.session != hit.session:
        return False
    if hit.source is MemorySource.SESSIONS and not _is_open(question, hit.session):
        return False
    if question.path is not None and not _is_in_path(question.path, hit.path):
        return False
    since, until = question.since, question.until
    if since is None and until is None:
        return True
    return hit.at is not None and hit.at >= (since or 0) and (until is None or hit.at < until)


def dated(name: str, changed: int) -> int:
    """Returns a file's date in ms since 1970: the date in its name, else its last change."""
    match = _DATED.search(name)
    with suppress(ValueError):
        if match:
            return round(datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp() * 1000)
    return changed


def _is_open(question: MemoryQuestion, session: str | None) -> bool:
    return question.opens is None or (session is not None and question.opens(session))


def _is_in_path(prefix: str, path: str) -> bool:
    """Returns whether `prefix` is the hit's path or its folder, with or without the collection."""
    names = (path, path.split("/", 2)[-1])
    return prefix in names or (
        prefix.endswith("/") and any(name.startswith(prefix) for name in names)
    )
