"""Files of earlier versions are migrated once to the present keys, with a report."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.cli.main import main
from skerry.config.check import check
from skerry.config.load import load
from skerry.config.migrations import migrate
from skerry.config.paths import lookup
from tests.unit.config.test_upgrade import FIRST_VERSION, OPENCLAW

SECOND: dict[str, Any] = {
    "gateway": {"auth": {"mode": "token", "token": "5eed" * 12}, "tickIntervalMs": 20000},
    "agents": {"defaults": {"model": "a/b", "models": {"a/b": {"alias": "quick"}}}},
    "session": {"dmScope": "per-peer", "reset": {"mode": "daily", "atHour": 4}},
    "bindings": [{"agentId": "main", "match": {"channel": "x", "peer": {"kind": "dm", "id": "1"}}}],
    "plugins": {"load": {"paths": []}},
}
"""What a file of issue 3 has that one of issue 2 has not."""
OLDEST: dict[str, Any] = {
    "agent": {"model": {"primary": "a/b"}, "compaction": {"mode": "default"}, "workspace": "~/den"},
    "agents": {"defaults": {"workspace": "~/new"}},
    "gateway": {"token": "5eed" * 12, "bind": "loopback"},
    "session": {"dmScope": "per_channel_peer"},
    "routing": {
        "queue": {"mode": "collect"},
        "bindings": [{"agentId": "main", "match": {"channel": "x"}}],
    },
    "memorySearch": {"provider": "local"},
}
"""OpenClaw before 2026.2."""
NEWEST: dict[str, Any] = {
    "memory": {"search": {"provider": "local"}, "backend": "builtin"},
    "session": {"dmScope": "per-account-channel-peer"},
}
"""OpenClaw 2026.9."""
FILES = {
    "issue 2": FIRST_VERSION,
    "issue 3": SECOND,
    "2026.1": OLDEST,
    "2026.2": OPENCLAW,
    "2026.9": NEWEST,
}


@pytest.mark.parametrize("tree", FILES.values(), ids=FILES)
def test_a_file_of_every_earlier_version_can_be_used_and_is_not_changed_twice(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    before = copy.deepcopy(tree)
    migrated = migrate(tree)
    assert tree == before, "the tree that is given stays"
    check(migrated.tree, state_dir=tmp_path, path=tmp_path / "skerry.json")
    again = migrate(migrated.tree)
    assert (again.tree, again.changes) == (migrated.tree, ())


def test_old_keys_move_and_what_the_new_place_says_counts() -> None:
    migrated = migrate(OLDEST)
    defaults = migrated.tree["agents"]["defaults"]
    assert defaults == {
        "model": {"primary": "a/b"},
        "compaction": {"mode": "default"},
        "workspace": "~/new",
        "memorySearch": {"provider": "local"},
    }
    assert migrated.tree["gateway"] == {"bind": "loopback", "auth": {"token": "5eed" * 12}}
    assert migrated.tree["session"]["dmScope"] == "per-channel-peer"
    assert migrated.tree["messages"] == {"queue": {"mode": "collect"}}
    assert not {"agent", "routing", "memorySearch"} & migrated.tree.keys()
    assert any("dropped agent.workspace" in change for change in migrated.changes)
    assert "5eed" not in " ".join(migrated.changes)
    assert lookup(migrate(SECOND).tree, ("bindings", 0, "match", "peer", "kind")) == "direct"
    assert migrate(NEWEST).tree["memory"] == {"backend": "builtin"}


_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
_KEYS = st.sampled_from(
    [
        "agent",
        "agents",
        "defaults",
        "gateway",
        "token",
        "auth",
        "memory",
        "search",
        "routing",
        "memorySearch",
        "session",
        "dmScope",
        "bindings",
        "match",
        "peer",
        "kind",
        "queue",
        "x",
    ]
)
_TREES = st.dictionaries(
    _KEYS,
    st.recursive(
        _LEAVES,
        lambda search_strategy: (
            st.lists(search_strategy, max_size=2)
            | st.dictionaries(_KEYS, search_strategy, max_size=3)
        ),
    ),
    max_size=5,
)


@given(_TREES)
def test_whatever_a_file_holds_migrating_twice_is_migrating_once(tree: dict[str, Any]) -> None:
    once = migrate(tree)
    twice = migrate(once.tree)
    assert twice.tree == once.tree
    assert twice.changes == ()
    assert (once.tree == tree) == (not once.changes)


def test_the_command_shows_first_and_writes_when_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    file = tmp_path / "skerry.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(OLDEST), encoding="utf-8")
    assert main(["config", "migrate"]) == 0
    shown = capsys.readouterr()
    assert "moved gateway.token to gateway.auth.token" in shown.out
    assert "--apply" in shown.err
    assert "5eed" not in shown.out + shown.err
    assert json.loads(file.read_text("utf-8")) == OLDEST
    assert main(["config", "migrate", "--apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"]
    assert json.loads((tmp_path / "skerry.json.bak").read_text("utf-8")) == OLDEST
    loaded = load({"SKERRY_STATE_DIR": str(tmp_path)})
    assert loaded.config.agents.defaults.model.primary == "a/b"
    assert main(["config", "migrate"]) == 0
    assert "nothing to change" in capsys.readouterr().out
