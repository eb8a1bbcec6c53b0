"""Which model embeds, as the file says it."""

from pathlib import Path
from typing import Any

import pytest

from skerry.config.check import check
from skerry.config.root import Config
from skerry.model.errors import ConfigInvalidError
from skerry.model.ids import AgentId


def _config(defaults: dict[str, Any], own: dict[str, Any] | None = None) -> Config:
    tree: dict[str, Any] = {"agents": {"defaults": {"memorySearch": defaults}}}
    if own is not None:
        tree["agents"]["list"] = [{"id": "main", "memorySearch": own}]
    config, _ = check(tree, state_dir=Path("/state"), path=Path("/state/skerry.json"))
    return config


def test_without_a_word_the_first_usable_model_embeds() -> None:
    settings = _config({}).memory_search(AgentId("main"))
    assert (settings.provider, settings.model, settings.fallback) == ("auto", None, None)
    assert (settings.remote.batch.enabled, settings.remote.batch.poll_interval_ms) == (False, 2000)
    assert settings.local.idle_minutes == 10


def test_an_agent_s_own_words_win_key_by_key() -> None:
    config = _config(
        {
            "provider": "openai",
            "model": "m",
            "remote": {"apiKey": "key", "batch": {"enabled": True}},
        },
        {"model": "other", "remote": {"batch": {"pollIntervalMs": 500}}},
    )
    settings = config.memory_search(AgentId("main"))
    assert (settings.provider, settings.model) == ("openai", "other")
    assert settings.remote.api_key is not None
    assert (settings.remote.batch.enabled, settings.remote.batch.poll_interval_ms) == (True, 500)


def test_another_address_takes_no_key_along() -> None:
    config = _config(
        {"provider": "openai", "remote": {"apiKey": "key", "headers": {"x-token": "t"}}},
        {"remote": {"baseUrl": "https://elsewhere.example/v1"}},
    )
    remote = config.memory_search(AgentId("main")).remote
    assert (remote.api_key, remote.headers) == (None, {})


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": "opanai"},
        {"fallback": "local,openai"},
        {"remote": {"baseUrl": "no address"}},
        {"remote": {"baseUrl": "https://a.example/v1?key=1"}},
        {"remote": {"batch": {"pollIntervalMs": 1}}},
        {"local": {"idleMinutes": 0}},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalidError, match="memorySearch"):
        _config(wrong)


@pytest.mark.parametrize(
    ("defaults", "own"),
    [
        ({"provider": "voyage", "remote": {"batch": {"enabled": True}}}, None),
        ({"provider": "openai", "remote": {"batch": {"enabled": True}}}, {"provider": "voyage"}),
    ],
)
def test_batches_with_voyage_are_refused_and_not_silently_left_out(
    defaults: dict[str, Any], own: dict[str, Any] | None
) -> None:
    with pytest.raises(ConfigInvalidError, match="OpenAI's Batch API, and agent main has provider"):
        _config(defaults, own)
    assert _config({"provider": "voyage"}).memory_search(AgentId("main")).provider == "voyage"


def test_what_conversations_may_cost_is_a_share_of_a_core() -> None:
    settings = _config({}).memory_search(AgentId("main"))
    assert settings.sync.sessions.cpu_percent == 0.2
    with pytest.raises(ConfigInvalidError, match="cpuPercent"):
        _config({"sync": {"sessions": {"cpuPercent": 101}}})
