"""The section `memory.qmd`: its defaults are those of the seed, and invalid values are refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from skerry.config.memory import MemoryConfig
from skerry.config.memory_qmd import QmdConfig, QmdSearchMode


@pytest.mark.requirement("qmd-config-backend")
@pytest.mark.requirement("qmd-config-update")
@pytest.mark.requirement("memory-session-retention")
def test_the_reference_configuration_is_read_and_is_what_holds_without_one() -> None:
    reference = {
        "backend": "qmd",
        "qmd": {
            "command": "qmd",
            "includeDefaultMemory": True,
            "sessions": {"enabled": True, "retentionDays": 30},
            "update": {
                "interval": "5m",
                "debounceMs": 15000,
                "onBoot": True,
                "embedInterval": "60m",
            },
            "limits": {
                "maxResults": 6,
                "maxSnippetChars": 700,
                "maxInjectedChars": 4000,
                "timeoutMs": 4000,
            },
        },
    }
    read = MemoryConfig.model_validate(reference)
    assert read.backend == "qmd"
    assert read.qmd == MemoryConfig().qmd
    update = read.qmd.update
    assert (update.interval, update.embed_interval) == (300_000, 3_600_000)


@pytest.mark.requirement("qmd-timeouts")
@pytest.mark.requirement("memory-clamp-timeout")
def test_a_query_has_4_seconds_and_an_update_120() -> None:
    config = QmdConfig()
    assert (config.limits.timeout_ms, config.update.timeout_ms) == (4_000, 120_000)
    assert config.search_mode is QmdSearchMode.QUERY


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": "bin/qmd"},
        {"command": ""},
        {"searchMode": "guess"},
        {"update": {"interval": "soon"}},
        {"update": {"interval": "1s"}},
        {"limits": {"maxResults": 0}},
        {"paths": [{"path": "a", "pattern": "../*"}]},
        {"paths": [{"path": ""}]},
    ],
)
def test_what_is_wrong_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        QmdConfig.model_validate(wrong)
