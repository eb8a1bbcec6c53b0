"""Facts about well-known models."""

import json
from datetime import date
from importlib.resources import files
from pathlib import Path

import pytest

from skerry.model.message import Cost, Usage
from skerry.ports.model import ModelCost
from skerry.providers.builtin_providers import HOSTED_PROVIDERS, known_provider
from skerry.providers.model_catalog import FILE, Fact, Facts


def own(directory: Path, text: str) -> Facts:
    (directory / FILE).write_text(text)
    return Facts(directory)


def test_the_packaged_file_says_its_date_and_sources_and_nothing_impossible() -> None:
    packaged = json.loads(files("skerry.providers").joinpath(FILE).read_bytes())
    assert date.fromisoformat(packaged["date"]).year >= 2026
    assert packaged["sources"]
    for provider, listed in packaged["providers"].items():
        answering = [model for model in listed["models"].values() if not model.get("embeds")]
        assert known_provider(provider) or not answering
        for model, said in listed["models"].items():
            fact = Facts().of(provider, model)
            assert (fact.context_window or 0) > (fact.max_tokens or 0) > -1
            assert 0 < fact.cost.input <= (fact.cost.output or (9 if fact.embeds else 0))
            assert fact.cost.cache_read < fact.cost.input
            assert set(said.get("unverified", ())) <= {"contextWindow", "maxTokens"}


def test_a_usual_model_is_known() -> None:
    for known in HOSTED_PROVIDERS:
        if known.id in {"openai", "anthropic", "google", "groq", "deepseek", "cerebras"}:
            assert Facts().of(known.id, known.model).context_window


def test_a_dated_name_and_a_router_s_name_are_the_same_model() -> None:
    facts = Facts()
    plain = facts.of("openai", "gpt-5.4-mini")
    assert plain.reasoning
    assert facts.of("openai", "gpt-5.4-mini-2026-03-17") == plain
    assert facts.of("openrouter", "openai/gpt-5.4-mini") == plain
    assert facts.of("openai", "nobody-knows") == Fact()


def test_a_person_s_file_wins_value_by_value(tmp_path: Path) -> None:
    models = {"gpt-5.4-mini": {"cost": {"input": 9}}, "new": {"contextWindow": 77}}
    facts = own(tmp_path, json.dumps({"providers": {"openai": {"models": models}}}))
    fact = facts.of("openai", "gpt-5.4-mini")
    assert (fact.cost.input, fact.cost.output, fact.context_window) == (9, 4.5, 400_000)
    assert facts.of("openai", "new").context_window == 77


@pytest.mark.parametrize("text", ["{", "[]", '{"providers": {"openai": 1}}', '{"providers": []}'])
def test_a_broken_file_is_named_and_counts_as_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    assert own(tmp_path, text).of("openai", "gpt-5.4-mini").context_window == 400_000
    assert str(tmp_path / FILE) in caplog.text


def test_a_broken_entry_is_named_and_counts_as_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = {"gpt-5.4-mini": {"contextWindow": "many"}}
    facts = own(tmp_path, json.dumps({"providers": {"openai": {"models": models}}}))
    assert facts.of("openai", "gpt-5.4-mini") == Fact()
    assert "gpt-5.4-mini" in caplog.text


def test_a_usage_is_priced_part_by_part() -> None:
    priced = ModelCost(2, 10, 0.2, 2.5).of(Usage(1_000_000, 100_000, 500_000, 200_000, 1_800_000))
    assert priced.cost == Cost(2.0, 1.0, 0.1, 0.5, 3.6)
    assert (priced + priced).cost.total == pytest.approx(7.2)
