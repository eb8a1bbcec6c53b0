"""Aliases, and which models may be asked for."""

from typing import Any

import pytest

from skerry.config.agents import AgentsConfig
from skerry.config.models import ModelsConfig
from skerry.model.errors import ModelUnavailableError
from skerry.providers.names import ModelNames


def names(models: dict[str, Any], primary: str = "", **more: Any) -> ModelNames:
    defaults = {"models": models, "model": {"primary": primary or None}}
    return ModelNames(AgentsConfig.model_validate({"defaults": defaults, **more}))


def test_an_alias_is_its_model_whatever_its_case() -> None:
    known = names({"den/big": {"alias": "Big"}})
    assert known.reference("bIG") == "den/big"
    assert known.reference("other") == "other"


def test_usual_aliases_are_for_present_models_only() -> None:
    known = names({"anthropic/claude-opus-4-6": {}, "openai/gpt-5.2": {"alias": "old"}})
    assert known.aliases == {"opus": "anthropic/claude-opus-4-6", "old": "openai/gpt-5.2"}
    assert names({}).aliases == {}


def test_the_newest_of_a_family_has_its_alias() -> None:
    known = names({"anthropic/claude-sonnet-4-5": {}, "anthropic/claude-sonnet-5-5": {}})
    assert known.reference("sonnet") == "anthropic/claude-sonnet-5-5"


def test_a_person_s_alias_wins() -> None:
    known = names({"den/mine": {"alias": "opus"}, "anthropic/claude-opus-5": {}})
    assert known.reference("opus") == "den/mine"


def test_without_entries_every_model_may_be_asked_for() -> None:
    names({}).check("any/thing")


def test_with_entries_only_they_and_the_primary_ones_may() -> None:
    agents = [{"id": "work", "model": "den/work"}]
    known = names({"den/a": {"alias": "a"}}, "den/primary", list=agents)
    for ref in ("den/a", "den/primary", "den/work"):
        known.check(ref)
    with pytest.raises(ModelUnavailableError, match="not allowed") as caught:
        known.check("den/b")
    assert "agents.defaults.models" in caught.value.remedy


def listing(*ids: str, provider: str = "den", mode: str = "merge", **agents: Any) -> ModelNames:
    listed = {"baseUrl": "http://127.0.0.1:1/v1", "models": [{"id": id_} for id_ in ids]}
    models = ModelsConfig.model_validate({"mode": mode, "providers": {provider: listed}})
    return ModelNames(AgentsConfig.model_validate(agents), models)


def test_what_a_provider_lists_is_all_that_it_has_where_nobody_else_knows_it() -> None:
    known = listing("small", "x/y")
    for ref in ("den/small", "den/x/y", "den", "other/large"):
        known.check(ref)
    with pytest.raises(ModelUnavailableError, match="does not list a model 'large'") as caught:
        known.check("den/large")
    assert "models.providers.den.models" in caught.value.remedy
    listing().check("den/large")


def test_a_known_provider_has_more_than_the_file_lists_unless_only_the_file_counts() -> None:
    listing("gpt-5", provider="openai").check("openai/gpt-6")
    with pytest.raises(ModelUnavailableError):
        listing("gpt-5", provider="openai", mode="replace").check("openai/gpt-6")


def test_what_the_file_names_as_a_model_needs_no_place_in_the_list() -> None:
    listing("small", defaults={"model": {"primary": "den/large"}}).check("den/large")
    listing("small", list=[{"id": "work", "model": "den/large"}]).check("den/large")
