"""Where the settings of long conversations stand, now and in older files."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skerry.config.check import check
from skerry.config.root import Config


def config(tree: dict[str, Any]) -> Config:
    found, warnings = check(tree, state_dir=Path("/s"), path=Path("/s/skerry.json"))
    assert warnings == ()
    return found


@pytest.mark.requirement("pruning-config-path")
def test_both_sections_may_be_below_agent_as_in_older_files() -> None:
    old = {"contextPruning": {"mode": "cache-ttl"}, "compaction": {"keepRecentTokens": 7}}
    defaults = config({"agent": old}).agents.defaults
    assert defaults.context_pruning.mode == "cache-ttl"
    assert defaults.compaction.keep_recent_tokens == 7


def test_the_present_place_counts_more() -> None:
    tree = {
        "agent": {"compaction": {"enabled": False}},
        "agents": {"defaults": {"compaction": {"keepRecentTokens": 9}}},
    }
    compaction = config(tree).agents.defaults.compaction
    assert (compaction.enabled, compaction.keep_recent_tokens) == (True, 9)


@pytest.mark.parametrize("wrong", [{"agent": 3}, {"agents": 3, "agent": {"compaction": {}}}])
def test_what_is_no_section_is_an_error_and_not_a_crash(wrong: dict[str, Any]) -> None:
    own = {"state_dir": Path("/s"), "path": Path("/s/skerry.json")}
    with pytest.raises(ValidationError):
        Config.model_validate({**wrong, **own})
