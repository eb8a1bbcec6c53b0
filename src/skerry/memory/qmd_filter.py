"""Narrows QMD's hits to what was asked for: QMD itself knows neither dates nor paths (pure)."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skerry.model.memory import MemoryHit, MemoryQuestion

_DATED: Final = re.compile(r"(\d{4}-\d{2}-\d{2})\.md$")
_WIDER: Final = 5
"""Times as many hits are asked for where some of them are dropped afterwards."""
_MOST: Final = 200


def wide(question: MemoryQuestion, limit: int) -> int:
    """Return how many hits QMD is asked for, so that `limit` may be left."""
    narrow = question.path or question.session or question.since or question.until
    return min(_MOST, limit * _WIDER) if narrow else limit


def fits(question: MemoryQuestion, hit: MemoryHit, file: Path, *, scored: bool) -> bool:
    """Return whether the hit is what was asked for. Blocks for an undated file: it looks at it.

    `scored` says whether scores compare meaning; others have no measure to be compared with.
    """
    if scored and hit.score < question.min_score:
        return False
    if question.session is not None and question.session not in file.stem:
        return False
    path = hit.path.split("/", 2)[-1]
    wanted = question.path
    if (
        wanted is not None
        and wanted not in {path, hit.path}
        and not (wanted.endswith("/") and (path.startswith(wanted) or hit.path.startswith(wanted)))
    ):
        return False
    if question.since is None and question.until is None:
        return True
    at = dated(file)
    return (
        at is not None
        and (question.since or 0) <= at
        and (question.until is None or at < question.until)
    )


def dated(file: Path) -> int | None:
    """Return a file's date in ms since 1970: of its name, else of its last change."""
    found = _DATED.search(file.name)
    try:
        if found:
            return round(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp() * 1000)
        return file.stat().st_mtime_ns // 1_000_000
    except (OSError, ValueError):
        return None
