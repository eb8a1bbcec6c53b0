"""Sections of the configuration file that features bring."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from skerry.config.base import Section
from skerry.config.root import Config, with_sections
from skerry.infra.features import Feature


class PondConfig(Section):
    """Frogs."""

    most_frogs: int = 3


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> type[Config]:
    module = ModuleType("skerry.features.pond.config")
    vars(module)["PondConfig"] = PondConfig
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return with_sections(Config, (Feature("pond", config="PondConfig"),))


def test_a_section_is_read_and_checked_like_those_of_the_kernel(
    whole: type[Config], tmp_path: Path
) -> None:
    where = {"state_dir": tmp_path, "path": tmp_path / "skerry.json"}
    config = whole.model_validate({"pond": {"mostFrogs": 5}, **where})
    assert config.section(PondConfig).most_frogs == 5
    assert whole.model_validate(where).section(PondConfig).most_frogs == 3
    with pytest.raises(ValueError, match="mostFogs"):
        whole.model_validate({"pond": {"mostFogs": 5}, **where})
