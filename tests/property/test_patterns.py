"""No regular expression of the source takes longer than in proportion to its text."""

import re

import pytest

from tests.support.pumps import Pattern, collect, slow_text

PATTERNS = collect()


def test_every_module_is_looked_at() -> None:
    files = {pattern.file for pattern in PATTERNS}
    assert {"skerry/infra/log.py", "skerry_recall/chunk.py", "skerry/model/noted.py"} <= files
    assert len(PATTERNS) > 100


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_its_time_grows_no_faster_than_the_text(pattern: Pattern) -> None:
    assert slow_text(pattern) is None


@pytest.mark.parametrize(
    "text",
    [
        r"[.!?]+[\"')\]]*(?=\s|$)",
        r"^[-*\s]*\**([A-Za-z]+)\**\s*:",
        r"eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]{6,}",
        r"<memory-context [^>]*>",
        r"\s*<!--",
        r"(a|a)*b",
    ],
)
def test_a_pattern_that_is_not_linear_is_found(text: str) -> None:
    flags = re.compile(text, re.MULTILINE).flags
    planted = Pattern("planted", 1, text, flags, is_bytes=False, uses=("search",))
    assert slow_text(planted) is not None
