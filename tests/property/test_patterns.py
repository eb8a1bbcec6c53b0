"""No regular expression of the source takes longer than in proportion to its text."""

import ast
import re

import pytest

from tests.support.pumps import SRC, Pattern, collect, slow_text

PARTS = 8


@pytest.fixture(scope="module")
def patterns() -> list[Pattern]:
    """The patterns of the source: found when a test asks, not by each process that lists tests."""
    return collect()


def test_every_module_is_looked_at(patterns: list[Pattern]) -> None:
    files = {pattern.file for pattern in patterns}
    assert {"skerry/infra/log.py", "skerry_recall/chunk.py", "skerry/model/provenance.py"} <= files
    assert {f"skerry_recall/{name}.py" for name in ("dates", "relative_days", "rerank")} <= files
    assert len(patterns) > 100


def test_patterns_that_are_compiled_later_are_of_escaped_words_alone() -> None:
    """What no import compiles is not measured above."""
    later = set()
    for path in SRC.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = [
                    ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Call)
                ]
                some = [call for call in calls if call.startswith("re.compile(")]
                escaped = "re.escape" in " ".join(some) or "_pattern(" in " ".join(some)
                later |= (
                    {f"{path.relative_to(SRC)}:{function.name}"} if some and not escaped else set()
                )
    assert not later, "compile these at import, as constants of their modules"


@pytest.mark.parametrize("part", range(PARTS))
def test_its_time_grows_no_faster_than_the_text(patterns: list[Pattern], part: int) -> None:
    slow = {str(pattern): slow_text(pattern) for pattern in patterns[part::PARTS]}
    assert slow
    assert {place: text for place, text in slow.items() if text is not None} == {}


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
