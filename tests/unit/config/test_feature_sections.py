"""Sections of the configuration file that features bring."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from skerry.config.base import Section, with_sections
from skerry.config.root import Config
from skerry.infra.features import Feature


class PondConfig(Section):
    """Frogs."""

    most_frogs: int = 3


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> type[Config]:
    module = ModuleType("skerry.features.pond.config")
    vars(module)["PondConfig"] = PondConfig
    monkeypatch.setitem(sys.modules, module.__name__, module)
    feature = Feature("pond", sections={"pond": "PondConfig"})
    return with_sections("", (feature,))(Config)


def test_a_section_is_read_and_checked_like_those_of_the_kernel(
    whole: type[Config], tmp_path: Path
) -> None:
    where = {"state_dir": tmp_path, "path": tmp_path / "skerry.json"}
    config = whole.model_validate({"pond": {"mostFrogs": 5}, **where})
    assert config.section(PondConfig).most_frogs == 5
    assert whole.model_validate(where).section(PondConfig).most_frogs == 3
    with pytest.raises(ValueError, match="mostFogs"):
        whole.model_validate({"pond": {"mostFogs": 5}, **where})


class _Lake(Section):
    """A section of the kernel."""

    deep: bool = True


def _lake(*, are_optional: bool) -> type[_Lake]:
    feature = Feature("pond", sections={"lake.pond": "PondConfig", "sea.pond": "PondConfig"})
    return with_sections("lake", (feature,), are_optional=are_optional)(_Lake)


@pytest.mark.usefixtures("whole")
def test_a_section_within_a_section_is_written_with_its_defaults_where_the_file_has_none() -> None:
    lake = _lake(are_optional=False)
    assert lake.model_validate({}).model_dump(by_alias=True) == {
        "deep": True,
        "pond": {"mostFrogs": 3},
    }
    assert lake.model_validate({"pond": {"mostFrogs": 5}}).section(PondConfig).most_frogs == 5
    assert lake.model_validate({}).own_section(PondConfig) is None
    with pytest.raises(ValueError, match="valid dictionary"):
        lake.model_validate({"pond": None})


@pytest.mark.usefixtures("whole")
def test_a_section_that_may_be_left_out_is_none_then() -> None:
    lake = _lake(are_optional=True).model_validate({"pond": None})
    assert lake.own_section(PondConfig) is None
    assert lake.model_dump() == {"deep": True, "pond": None}


def test_a_section_that_the_file_lacks_is_not_imported() -> None:
    feature = Feature("no_such_feature", sections={"lake.pond": "PondConfig"})
    lake = with_sections("lake", (feature,))(_Lake)
    assert lake.model_validate({}).deep
    with pytest.raises(ModuleNotFoundError):
        lake.model_validate({"pond": {}})


def test_a_section_that_no_feature_has_is_an_error() -> None:
    with pytest.raises(LookupError, match="_Lake has no section PondConfig"):
        _Lake().section(PondConfig)
