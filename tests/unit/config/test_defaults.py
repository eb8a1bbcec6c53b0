"""The defaults of the configuration, which no check sees when a gateway starts."""

from collections.abc import Iterator

import pytest

import skerry.config.root  # noqa: F401 - makes every section of the kernel
from skerry.config.base import Section
from skerry.config.memory import MemoryScope, ScopeRule
from skerry.infra.features import FEATURES

NEVER_EMPTY = {"McpServerConfig"}  # it needs a command or a URL


def _below(section: type[Section]) -> Iterator[type[Section]]:
    for subclass in section.__subclasses__():
        yield subclass
        yield from _below(subclass)


def _whole() -> list[type[Section]]:
    """Returns the sections that a file may leave out, each once."""
    for feature in FEATURES:
        for name in feature.sections.values():
            feature.load(f"config:{name}")
    sections = dict.fromkeys(_below(Section))
    return [
        section
        for section in sections
        if section.__module__.startswith(("skerry.config.", "skerry.features."))
        and not any(field.is_required() for field in section.model_fields.values())
        and section.__name__ not in NEVER_EMPTY
    ]


@pytest.mark.parametrize("section", _whole(), ids=lambda section: section.__name__)
def test_a_section_that_is_left_out_is_what_its_check_makes_of_an_empty_one(
    section: type[Section],
) -> None:
    assert section.model_construct() == section.model_validate({})


def test_the_rule_of_the_memory_that_holds_without_one_passes_its_check() -> None:
    rule = ScopeRule.model_validate({"action": "allow", "match": {"chatType": "direct"}})
    assert MemoryScope().rules == (rule,)
