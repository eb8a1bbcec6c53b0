"""The documents describe what is there: every configuration key, every decision."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from scripts.requirements import ROOT
from skerry.config.root import Config

GUIDE = ROOT / "docs" / "guide" / "configuration.md"
DECISIONS = ROOT / "docs" / "adr"
ROW = re.compile(r"^\| `([a-z][A-Za-z]*\.[A-Za-z.<>]+)` \|", re.MULTILINE)
PARTS = ("Context", "Decision", "Alternatives", "Consequences", "Figures")
MOST_LINES = 60


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of the file that hold no further section."""
    for field in section.model_fields.values():
        if field.exclude:
            continue
        key = f"{prefix}{field.alias}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, f"{key}.")
        else:
            yield key


def test_the_guide_lists_exactly_the_keys_of_the_configuration() -> None:
    listed = {row.removesuffix(".<name>") for row in ROW.findall(GUIDE.read_text(encoding="utf-8"))}
    assert listed == set(keys(Config))


@pytest.mark.parametrize(
    "path", sorted(DECISIONS.glob("[0-9]*.md")), ids=lambda path: str(path.name)
)
def test_a_decision_has_its_parts_and_fits_a_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == PARTS
    assert len(text.splitlines()) <= MOST_LINES
    assert f"({path.name})" in (DECISIONS / "README.md").read_text(encoding="utf-8")
